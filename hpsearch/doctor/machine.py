"""Checks of the machine: versions of packages, GPUs, and what a job sees of them.

Python and the packages that decide most: which were tested, which are installed.

What a job of the study sees: a real one is submitted, which says so and leaves.
"""

import platform
import time
from collections.abc import Callable, Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hpsearch.cluster.executor import Executor, JobStatus, SubmissionRefusedError
from hpsearch.cluster.machine import VISIBLE, GpuShare, find_gpus
from hpsearch.cluster.records import DeviceReport, JobPlan
from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.doctor.finding import Finding
from hpsearch.doctor.folder import nearest, scratch_folder
from hpsearch.files import last_lines
from hpsearch.study.spec import Study


def check_local_gpus(study: Study) -> Finding:
    """Look for the GPUs that jobs on this machine want; whether they work, a job finds out."""
    if study.gpus_per_job == 0:
        return Finding("GPUs", "skipped", "no base configuration has a device of cuda")
    gpus = GpuShare(find_gpus(), study.gpus_per_job)
    if gpus.shortage is not None:
        return Finding("GPUs", "error", gpus.shortage)
    return Finding("GPUs", "ok", gpus.jobs_text(study.spec.executor.jobs))


def check_asked_gpus(study: Study, profile: SlurmProfile) -> Finding:
    """Say what a job asks for; what its node has, is seen there alone."""
    kind = profile.gpu_type or "any type"
    said = f"a task asks for {profile.gpus_per_task} GPUs ({kind}), {profile.cpus_per_task} CPUs"
    uses = any(str(base["device"]).startswith("cuda") for base in study.bases.values())
    if uses and profile.gpus_per_task == 0:
        remedy = "set gpus_per_task to 1, or device: cpu"
        return Finding("GPUs", "error", f"a base wants device cuda, but {said}; {remedy}")
    if not uses and profile.gpus_per_task > 0:
        remedy = "set device: cuda, or gpus_per_task to 0"
        return Finding("GPUs", "warning", f"{said}, but no base has a device of cuda; {remedy}")
    return Finding("GPUs", "ok", said)


TESTED = {"torch": "2.13", "optuna": "5.0", "submitit": "1.5"}
"""by package, as constraints.txt has them"""
TESTED_PYTHON = "3.11"


def check_versions(tested: Mapping[str, str] = TESTED) -> Iterator[Finding]:
    """Compare major and minor versions; the packages are not imported, which takes seconds."""
    yield _compare("Python", platform.python_version(), TESTED_PYTHON)
    for package, wanted in tested.items():
        try:
            yield _compare(package, version(package), wanted)
        except PackageNotFoundError:
            yield Finding(
                package,
                "error",
                f"{package} is not installed, but {wanted} is needed; install hpsearch again with: "
                "pip install -c constraints.txt -e .",
            )


def _compare(name: str, installed: str, tested: str) -> Finding:
    if installed.split(".")[:2] == tested.split("."):
        return Finding(name, "ok", f"{installed}, as tested")
    return Finding(
        name,
        "warning",
        f"{installed} was not tested, {tested} was; if something fails, install the tested "
        "versions with: pip install -c constraints.txt -e .",
    )


NAME = "job"
JOB_SECONDS = 60.0
"""for which a job may wait and run; one that waits longer is taken back"""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""seconds between two looks at it, doubled each time: a scheduler bears few"""
LINE_WIDTH = 300
NUM_LINES = 20
"""at the end of a job's log, among which the last that is not empty is shown"""

MakeExecutor = Callable[[Study, StudyDir], Executor]
"""how the executor of a study is made, for jobs below a folder"""


def check_inside(study: Study, runs: Path, make_executor: MakeExecutor) -> Finding:
    """Submit a job as the study's own, but in a folder that is removed afterwards.

    Raises:
        SchedulerSilentError: if the scheduler gives no answer.
        HpsearchError: if there is no such executor here, or files cannot be written.
    """
    with scratch_folder(nearest(runs)) as folder:
        root = StudyDir(folder / study.spec.name)
        executor, job = make_executor(study, root), root.job("00001")
        device = "cuda" if study.uses_gpus else "cpu"
        job.plan.write(JobPlan((), executor.num_threads, 0.0, refills=False, probes=device))
        try:
            job_id = executor.submit([job])[job.name]
        except SubmissionRefusedError as error:
            return Finding(NAME, "error", f"no job is taken: {error}")
        status = _wait(executor, job, job_id)
        report = job.report.read()
        if report is not None:
            return _finding(report, device)
        if status is not None and status.phase == "ended":
            return _broken(executor.log(job, job_id))
    return _late(status)


def _wait(executor: Executor, job: JobDir, job_id: str) -> JobStatus | None:
    """Return how the job is when it has ended, or has taken too long and was cancelled."""
    deadline, pause = time.monotonic() + JOB_SECONDS, FIRST_PAUSE
    while True:
        status = executor.look([(job, job_id)]).get(job.name)
        if status is not None and status.phase == "ended":
            return status
        if time.monotonic() + pause > deadline:
            executor.cancel([(job, job_id)])
            return status
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _finding(report: DeviceReport, device: str) -> Finding:
    visible = "is not set" if report.visible is None else f"is {report.visible!r}"
    seen = f"{VISIBLE} {visible}, torch is {report.torch}"
    if report.fault is None:
        gpus = f", GPUs: {', '.join(report.gpus)}" if device == "cuda" else ""
        return Finding(NAME, "ok", f"can train on {device}: {seen}{gpus}")
    remedy = "look at nvidia-smi there, install a torch with CUDA, or set device: cpu"
    if device == "cpu":
        remedy = "install hpsearch again with: pip install -c constraints.txt -e ."
    fault = " ".join(report.fault.split())
    said = f"cannot train on {device}, since torch says: {fault} ({seen}); {remedy}"
    return Finding(NAME, "error", said)


def _broken(log: Path) -> Finding:
    """Name the fault of a job that ended without a report, by the last line that it printed."""
    said = [line.strip() for line in last_lines(log, NUM_LINES) if line.strip()]
    last = said[-1][:LINE_WIDTH] if said else "it printed nothing"
    return Finding(
        NAME,
        "error",
        f"ended before it could say what it sees ({last}); make sure that this folder and this "
        "Python are there where jobs run",
    )


def _late(status: JobStatus | None) -> Finding:
    waits = status is not None and status.phase == "queued"
    what = "still waited for its turn" if waits else "had not ended"
    return Finding(
        NAME,
        "warning",
        f"{what} after {JOB_SECONDS:.0f} seconds and was taken back, so what jobs see is not "
        "known; try again when there is room for one",
    )
