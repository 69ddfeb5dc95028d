"""Checks of the machine: the runs folder, versions of packages, GPUs, and what a job sees."""

import os
import platform
import re
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp

from hpsearch.cluster.executor import Executor, JobStatus, SubmissionRefusedError
from hpsearch.cluster.machine import VISIBLE, GpuShare, find_gpus
from hpsearch.cluster.records import DeviceReport, JobPlan
from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.doctor.finding import Finding, Level
from hpsearch.files import last_lines
from hpsearch.study.spec import Study

TABLE = Path("/proc/mounts")
NETWORK = (
    *("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "fuse", "ceph", "glusterfs"),
    *("afs", "panfs", "pvfs", "orangefs", "9p", "virtiofs", "wekafs", "mmfs"),
)
"""beginnings of the types that other machines may write too"""
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class FileSystem:
    folder: Path  # where it is mounted
    type: str  # as the kernel calls it

    @property
    def is_network(self) -> bool:
        return self.type.startswith(NETWORK)


def read_table() -> str:
    """Return the table of mounts, empty on a system that has none."""
    return TABLE.read_text() if TABLE.exists() else ""


def file_system_of(path: Path, table: str) -> FileSystem | None:
    """Return the file system of a path, which need not exist yet; None if the table knows none."""
    whole = path.resolve()
    nearest = None
    for line in table.splitlines():
        _, folder, kind, *_ = line.split()
        mount = Path(_ESCAPED.sub(lambda match: chr(int(match[1], 8)), folder))
        # Of two mounts in the same place, the later one covers the earlier.
        deeper = nearest is None or len(mount.parts) >= len(nearest.folder.parts)
        if whole.is_relative_to(mount) and deeper:
            nearest = FileSystem(mount, kind)
    return nearest


GIB = 1024**3
LEAST_SPACE, LITTLE_SPACE = GIB // 4, 10 * GIB
FEW_FILES = 20_000
SKEW_SECONDS = 10.0  # by which the clocks of the file system and of this machine may differ
_TRY_TO_LOCK = """
import fcntl, sys
with open(sys.argv[1], "r+") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(3)
"""
"""what another process does while this one holds the lock"""


def check_place(runs: Path) -> Finding:
    place = nearest(runs)
    there = f"{runs} is there" if place == runs else f"{runs} can be made in {place}"
    if not place.is_dir():
        note = f"{place} is a file, but must be a folder; give --runs another one"
        return Finding("runs folder", "error", note)
    if not os.access(place, os.W_OK | os.X_OK):
        note = f"{place} is not writable for this user; give --runs another folder"
        return Finding("runs folder", "error", note)
    return Finding("runs folder", "ok", f"{there}, and writable")


def check_file_system(runs: Path, table: str) -> Finding:
    file_system = file_system_of(runs, table)
    if file_system is None:
        note = "its type is not known here; on a cluster it must be one that all nodes share"
        return Finding("file system", "skipped", note)
    kind = "a network file system" if file_system.is_network else "of this machine alone"
    return Finding("file system", "ok", f"{file_system.type} at {file_system.folder}, {kind}")


def check_shared(runs: Path, table: str) -> Finding:
    """Look whether the nodes of a cluster may see what is written here."""
    file_system = file_system_of(runs, table)
    if file_system is None or file_system.is_network:
        return Finding("shared folder", "ok", f"{runs} may be seen by all nodes")
    return Finding(
        "shared folder",
        "warning",
        f"{runs} is on {file_system.type}, which the other nodes of a cluster don't see; give "
        "--runs a folder of a shared file system, unless the cluster is this machine",
    )


def check_mode(runs: Path) -> Finding:
    """Look whether others may write: jobs run what lies in the folder."""
    if not runs.exists():
        return Finding("folder mode", "skipped", f"{runs} is not there yet")
    mode = stat.S_IMODE(runs.stat().st_mode)
    remedy = f"protect it with: chmod 700 {runs}"
    if mode & stat.S_IWOTH:
        note = f"the mode {mode:04o} lets every user change what jobs run; {remedy}"
        return Finding("folder mode", "error", note)
    if mode & 0o077:
        who = "change what jobs run" if mode & stat.S_IWGRP else "look into it"
        note = f"the mode {mode:04o} lets other users {who}; unless that is wanted, {remedy}"
        return Finding("folder mode", "warning", note)
    return Finding("folder mode", "ok", f"{mode:04o}, for this user alone")


def check_space(runs: Path) -> Iterator[Finding]:
    place = nearest(runs)
    free = shutil.disk_usage(place).free
    note = f"{free / GIB:.1f} GiB are free at {place}"
    if free < LITTLE_SPACE:
        level: Level = "error" if free < LEAST_SPACE else "warning"
        remedy = "make room there, with hpsearch gc STUDY for one, or give --runs another folder"
        yield Finding("free space", level, f"only {note}; {remedy}")
    else:
        yield Finding("free space", "ok", note)
    entries = os.statvfs(place)
    if entries.f_files > 0 and entries.f_favail < FEW_FILES:
        note = f"only {entries.f_favail} more files fit there; remove some, or raise the quota"
        yield Finding("free files", "warning", note)


def check_probes(runs: Path) -> Iterator[Finding]:
    """Try what files of the folder must be able to, in a folder that is removed afterwards."""
    try:
        with scratch_folder(nearest(runs)) as scratch:
            for name, probe in _PROBES.items():
                yield _tried(name, probe, scratch)
    except OSError as error:
        note = f"no folder can be made in {nearest(runs)} ({error.strerror}); "
        yield Finding("writing", "error", f"{note}give --runs another one")


def check_clock(scratch: Path, now: Callable[[], float] = time.time) -> Finding:
    """Compare the file system's clock with this machine's; signs of life are judged by both."""
    (scratch / "clock").touch()
    skew = (scratch / "clock").stat().st_mtime - now()
    if abs(skew) <= SKEW_SECONDS:
        return Finding("clocks", "ok", f"file system and machine differ by {abs(skew):.1f} s")
    order = "ahead of" if skew > 0 else "behind"
    return Finding(
        "clocks",
        "error",
        f"the file system's clock is {abs(skew):.0f} s {order} this machine's, more than the "
        f"{SKEW_SECONDS:.0f} s up to which signs of life can be judged; set the clocks by NTP",
    )


def nearest(folder: Path) -> Path:
    return next(parent for parent in (folder, *folder.absolute().parents) if parent.exists())


def _tried(name: str, probe: Callable[[Path], Finding], scratch: Path) -> Finding:
    try:
        return probe(scratch)
    except OSError as error:
        note = f"does not work there ({error.strerror}); give --runs another file system"
        return Finding(name, "error", note)


def _rename(scratch: Path) -> Finding:
    old, new = scratch / "old", scratch / "new"
    old.write_text("old")
    new.write_text("new")
    new.replace(old)
    if new.exists() or old.read_text() != "new":
        raise OSError(0, "a renamed file is not what it was")
    return Finding("renaming", "ok", "a file is replaced by another one at once")


def _lock(scratch: Path) -> Finding:
    import fcntl

    path = scratch / "lock"
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = subprocess.run([sys.executable, "-I", "-S", "-c", _TRY_TO_LOCK, path], check=False)
    if other.returncode == 3:
        return Finding("locking", "ok", "a locked file is locked for other processes")
    return Finding(
        "locking",
        "error",
        "two processes hold the same lock at once; mount the file system with locks (nfs: no "
        "nolock; lustre: flock), or give --runs another one",
    )


def _fsync(scratch: Path) -> Finding:
    began = time.monotonic()
    with (scratch / "flushed").open("w") as file:
        file.write("x")
        file.flush()
        os.fsync(file.fileno())
    folder = os.open(scratch, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
    return Finding("flushing", "ok", f"took {(time.monotonic() - began) * 1000:.1f} ms")


_PROBES: dict[str, Callable[[Path], Finding]] = {
    "renaming": _rename,
    "locking": _lock,
    "flushing": _fsync,
    "clocks": check_clock,
}


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """Give a new folder in ``parent``, and remove it afterwards with all that is in it."""
    folder = Path(mkdtemp(prefix=".hpsearch-doctor-", dir=parent))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


# Versions and GPUs.


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
    note = f"a task asks for {profile.gpus_per_task} GPUs ({kind}), {profile.cpus_per_task} CPUs"
    uses = any(str(base["device"]).startswith("cuda") for base in study.bases.values())
    if uses and profile.gpus_per_task == 0:
        remedy = "set gpus_per_task to 1, or device: cpu"
        return Finding("GPUs", "error", f"a base wants device cuda, but {note}; {remedy}")
    if not uses and profile.gpus_per_task > 0:
        remedy = "set device: cuda, or gpus_per_task to 0"
        return Finding("GPUs", "warning", f"{note}, but no base has a device of cuda; {remedy}")
    return Finding("GPUs", "ok", note)


TESTED = {"torch": "2.13", "optuna": "5.0", "submitit": "1.5"}
"""by package, as constraints.txt has them"""
TESTED_PYTHON = "3.11"


def check_versions(tested: Mapping[str, str] = TESTED) -> Iterator[Finding]:
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
JOB_SECONDS = 60.0  # for which a job may wait and run, before it is cancelled
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0
"""seconds between two looks at it, doubled each time: a scheduler bears few"""
LINE_WIDTH = 300
NUM_LINES = 20  # at the end of a job's log, among which the last that is not empty is shown

MakeExecutor = Callable[[Study, StudyDir], Executor]
"""how the executor of a study is made, for jobs below a folder"""


def check_inside(study: Study, runs: Path, make_executor: MakeExecutor) -> Finding:
    """Submit a job as the study's own, but in a folder that is removed afterwards."""
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
    note = f"cannot train on {device}, since torch says: {fault} ({seen}); {remedy}"
    return Finding(NAME, "error", note)


def _broken(log: Path) -> Finding:
    """Name the fault of a job that ended without a report, by the last line that it printed."""
    lines = [line.strip() for line in last_lines(log, NUM_LINES) if line.strip()]
    last = lines[-1][:LINE_WIDTH] if lines else "it printed nothing"
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
