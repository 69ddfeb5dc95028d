"""Checks of the machine: the runs folder, versions of packages, GPUs, and what a job sees."""

import fcntl
import os
import platform
import shutil
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import mkdtemp
from typing import Final

import psutil

from hpsearch.cluster.executor import Executor, JobStatus, SubmissionRefusedError
from hpsearch.cluster.failures import last_words
from hpsearch.cluster.machine import VISIBLE, GpuShare, counted, find_gpus
from hpsearch.cluster.records import DeviceReport, JobPlan
from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.doctor.finding import Finding, error, ok, skipped, warning
from hpsearch.extensions import KINDS, ExtensionError, Kind, all_installed, in_unknown_groups
from hpsearch.files import flush
from hpsearch.population.operators.options import CrossoverExtension, MutationExtension
from hpsearch.schema import option_of
from hpsearch.study.options import (
    ExecutorExtension,
    PrunerExtension,
    SamplerExtension,
    TrackerExtension,
)
from hpsearch.study.spec import Study
from hpsearch.trainers.config import AlgorithmExtension
from hpsearch.trainers.config.players import EncoderExtension

NETWORK = (
    *("nfs", "lustre", "gpfs", "beegfs", "cifs", "smb", "fuse", "ceph", "glusterfs"),
    *("afs", "panfs", "pvfs", "orangefs", "9p", "virtiofs", "wekafs", "mmfs"),
)
"""beginnings of the types that other machines may write too"""


@dataclass(frozen=True)
class FileSystem:
    folder: Path  # where it is mounted
    type: str  # as the kernel calls it

    @property
    def is_network(self) -> bool:
        return self.type.startswith(NETWORK)


Mounts = Sequence[FileSystem]


def read_mounts() -> Mounts:
    """Return all mounts in their order, none on a system that does not tell them."""
    with suppress(OSError, psutil.Error):
        mounts = psutil.disk_partitions(all=True)
        return [FileSystem(Path(mount.mountpoint), mount.fstype) for mount in mounts]
    return []


def file_system_of(path: Path, mounts: Mounts) -> FileSystem | None:
    """Return the file system of a path, which need not exist yet; None if it is not known."""
    whole = path.resolve()
    above = [mount for mount in mounts if whole.is_relative_to(mount.folder)]
    # Of two mounts in the same place, the later one covers the earlier.
    return max(reversed(above), key=lambda mount: len(mount.folder.parts), default=None)


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
    if not place.is_dir():
        return error(f"{place} is a file, but must be a folder; give --runs another one")
    if not os.access(place, os.W_OK | os.X_OK):
        return error(f"{place} is not writable for this user; give --runs another folder")
    there = f"{runs} is there" if place == runs else f"{runs} can be made in {place}"
    return ok(f"{there}, and writable")


def check_file_system(runs: Path, mounts: Mounts) -> Finding:
    file_system = file_system_of(runs, mounts)
    if file_system is None:
        return skipped("its type is not known here; on a cluster all nodes must share it")
    kind = "a network file system" if file_system.is_network else "of this machine alone"
    return ok(f"{file_system.type} at {file_system.folder}, {kind}")


def check_shared(runs: Path, mounts: Mounts) -> Finding:
    """Look whether the nodes of a cluster may see what is written here."""
    file_system = file_system_of(runs, mounts)
    if file_system is None or file_system.is_network:
        return ok(f"{runs} may be seen by all nodes")
    return warning(
        f"{runs} is on {file_system.type}, which the other nodes of a cluster don't see; give "
        "--runs a folder of a shared file system, unless the cluster is this machine"
    )


def check_mode(runs: Path) -> Finding:
    """Look whether others may write: jobs run what lies in the folder."""
    if nearest(runs) != runs:
        return skipped(f"{runs} is not there yet")
    mode = stat.S_IMODE(runs.stat().st_mode)
    remedy = f"protect it with: chmod 700 {runs}"
    if mode & stat.S_IWOTH:
        return error(f"the mode {mode:04o} lets every user change what jobs run; {remedy}")
    if mode & 0o077:
        what = "change what jobs run" if mode & stat.S_IWGRP else "look into it"
        note = f"the mode {mode:04o} lets other users {what}"
        return warning(f"{note}; unless that is wanted, {remedy}")
    return ok(f"{mode:04o}, for this user alone")


def check_space(runs: Path) -> Iterator[Finding]:
    place = nearest(runs)
    free = shutil.disk_usage(place).free
    note = f"{free / GIB:.1f} GiB are free at {place}"
    if free < LITTLE_SPACE:
        remedy = "make room there, with hpsearch gc STUDY for one, or give --runs another folder"
        yield (error if free < LEAST_SPACE else warning)(f"only {note}; {remedy}")
    else:
        yield ok(note)
    entries = os.statvfs(place)
    if entries.f_files > 0 and entries.f_favail < FEW_FILES:
        note = f"only {entries.f_favail} more files fit there; remove some, or raise the quota"
        yield warning(note, "free files")


def nearest(folder: Path) -> Path:
    # Path.exists raises PermissionError below a folder that this user may not search.
    return next(each for each in (folder, *folder.absolute().parents) if os.path.exists(each))


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    folder = Path(mkdtemp(prefix=".hpsearch-doctor-", dir=parent))
    try:
        yield folder
    finally:
        # Not TemporaryDirectory: where it may not remove a file, it raises in spite of its option.
        shutil.rmtree(folder, ignore_errors=True)


# What files of the folder must be able to.


def check_probes(runs: Path) -> Iterator[Finding]:
    probes = {"renaming": _rename, "locking": _lock, "flushing": _fsync, "clocks": check_clock}
    try:
        with scratch_folder(nearest(runs)) as scratch:
            for name, probe in probes.items():
                try:
                    yield replace(probe(scratch), name=name)
                except OSError as fault:
                    note = f"does not work there ({fault.strerror})"
                    yield error(f"{note}; give --runs another file system", name)
    except OSError as fault:
        note = f"no folder can be made in {nearest(runs)} ({fault.strerror})"
        yield error(f"{note}; give --runs another one")


def _rename(scratch: Path) -> Finding:
    old, new = scratch / "old", scratch / "new"
    old.write_text("old")
    new.write_text("new")
    new.replace(old)
    if new.exists() or old.read_text() != "new":
        raise OSError(0, "a renamed file is not what it was")
    return ok("a file is replaced by another one at once")


def _lock(scratch: Path) -> Finding:
    path = scratch / "lock"
    with path.open("w") as file:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        other = subprocess.run([sys.executable, "-I", "-S", "-c", _TRY_TO_LOCK, path], check=False)
    if other.returncode == 3:
        return ok("a locked file is locked for other processes")
    return error(
        "two processes hold the same lock at once; mount the file system with locks (nfs: no "
        "nolock; lustre: flock), or give --runs another one"
    )


def _fsync(scratch: Path) -> Finding:
    began, file = time.monotonic(), scratch / "flushed"
    file.write_text("x")
    flush(file)
    flush(scratch)
    return ok(f"took {(time.monotonic() - began) * 1000:.1f} ms")


def check_clock(scratch: Path, now: Callable[[], float] = time.time) -> Finding:
    """Compare the file system's clock with this machine's; heartbeats are judged by both."""
    (scratch / "clock").touch()
    skew = (scratch / "clock").stat().st_mtime - now()
    if abs(skew) <= SKEW_SECONDS:
        return ok(f"file system and machine differ by {abs(skew):.1f} s")
    order = "ahead of" if skew > 0 else "behind"
    return error(
        f"the file system's clock is {abs(skew):.0f} s {order} this machine's, more than the "
        f"{SKEW_SECONDS:.0f} s up to which heartbeats can be judged; set the clocks by NTP"
    )


# Versions and GPUs.


def check_local_gpus(study: Study) -> Finding:
    """Look for the GPUs that jobs on this machine want; whether they work, a job finds out."""
    if study.gpus_per_job == 0:
        return skipped("no trial uses a GPU")
    gpus = GpuShare(find_gpus(), study.gpus_per_job, study.fewer_gpus)
    if gpus.shortage is not None:
        return error(gpus.shortage)
    return ok(gpus.jobs_text(study.executor.jobs))


def check_asked_gpus(study: Study, profile: SlurmProfile) -> Finding:
    """Say what a job asks for; what its node has, is seen there alone."""
    gpus, kind = profile.gpus_per_task, profile.gpu_type or "any type"
    use, none = study.gpu_settings
    note = f"a task asks for {gpus} GPUs ({kind}), {profile.cpus_per_task} CPUs"
    if gpus < study.gpus_per_rank:
        wanted, remedy = counted(study.gpus_per_rank), f"set gpus_per_task to that, or {none}"
        return error(f"the trials of a task need {wanted}, but {note}; {remedy}", "GPUs")
    if not study.uses_gpus and gpus > 0:
        remedy = f"set {use}, or gpus_per_task to 0"
        return warning(f"{note}, but no trial uses a GPU; {remedy}", "GPUs")
    return ok(note, "GPUs")


TESTED = {"torch": "2.13", "optuna": "5.0", "submitit": "1.5"}  # as constraints.txt has them
INSTALL = "pip install -c constraints.txt -e ."


def check_versions(tested: Mapping[str, str] = TESTED) -> Iterator[Finding]:
    yield _compare("Python", platform.python_version(), "3.11")
    for package, wanted in tested.items():
        try:
            yield _compare(package, version(package), wanted)
        except PackageNotFoundError:
            note = f"{package} is not installed, but {wanted} is needed"
            yield error(f"{note}; install hpsearch again with: {INSTALL}", package)


PLACES: Final[Mapping[Kind, tuple[type, str]]] = {
    "algorithms": (AlgorithmExtension, "algorithm"),
    "crossovers": (CrossoverExtension, "name"),
    "encoders": (EncoderExtension, "name"),
    "executors": (ExecutorExtension, "name"),
    "mutations": (MutationExtension, "name"),
    "pruners": (PrunerExtension, "name"),
    "samplers": (SamplerExtension, "name"),
    "trackers": (TrackerExtension, "name"),
}
"""what options of other packages derive from, and the field that names them; the rest, rewards and
players, are functions"""


def check_extensions() -> Iterator[Finding]:
    """Load every part that other packages announce, as files that name it do.

    One that is broken is an error of files that name it, and harms no other.
    """
    for point in in_unknown_groups():
        package = "" if point.dist is None else f" of the package {point.dist.name}"
        groups = ", ".join(f"hpsearch.{kind}" for kind in KINDS)
        note = f"{point.name}{package} is announced as {point.group}, which is none of {groups}"
        yield warning(f"{note}; correct it there", "extensions")
    for part in all_installed():
        try:
            if part.kind in PLACES:
                option_of(part, *PLACES[part.kind])
            elif not callable(part.load()):
                raise ExtensionError(f"{part} must be a function")
            yield ok(str(part), "extensions")
        except Exception as broken:  # whatever the code of another package raises
            yield warning(f"{part}: {broken}", "extensions")


def _compare(name: str, installed: str, tested: str) -> Finding:
    if installed.split(".")[:2] == tested.split("."):
        return ok(f"{installed}, as tested", name)
    remedy = f"install the tested versions with: {INSTALL}"
    note = f"{installed} was not tested, {tested} was; if something fails, {remedy}"
    return warning(note, name)


# A job that looks around.

JOB_SECONDS = 60.0  # for which a job may wait and run, before it is cancelled
RANKS_SECONDS = 180.0  # the same where there are ranks, which wait two minutes for each other
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 10.0  # seconds between two looks at it, doubled each time
MakeExecutor = Callable[[Study, StudyDir], Executor]
"""how the executor of a study is made, for jobs below a folder"""


def check_inside(study: Study, runs: Path, make_executor: MakeExecutor) -> Finding:
    """Submit a job as the study's own, but in a folder that is removed afterwards."""
    with scratch_folder(nearest(runs)) as folder:
        root = StudyDir(folder / study.spec.name)
        executor, job = make_executor(study, root), root.job("00001")
        device = "cuda" if study.uses_gpus else "cpu"
        threads, ranks = executor.num_threads, executor.ranks
        job.plan.write(JobPlan((), threads, 0.0, refills=False, probes=device, ranks=ranks))
        try:
            job_id = executor.submit([job])[job.name]
        except SubmissionRefusedError as refused:
            return error(f"no job is taken: {refused}")
        status = None
        try:
            seconds = JOB_SECONDS if executor.ranks == 1 else RANKS_SECONDS
            status = _wait(executor, job, job_id, seconds)
        finally:  # also after Ctrl-C, or where the scheduler gives no answer
            if status is None or status.phase != "ended":
                executor.cancel([(job, job_id)])
        report = job.report.read()
        if report is not None:
            return _judge(report, device)
        if status is not None and status.phase == "ended":
            return _broken(executor.log(job, job_id))
    waits = status is not None and status.phase == "queued"
    return warning(
        f"{'still waited for its turn' if waits else 'had not ended'} after {seconds:.0f} "
        "seconds and was taken back, so what jobs see is not known; try again when there is room "
        "for one"
    )


def _wait(executor: Executor, job: JobDir, job_id: str, seconds: float) -> JobStatus | None:
    deadline, pause = time.monotonic() + seconds, FIRST_PAUSE
    while True:
        status = executor.look([(job, job_id)]).get(job.name)
        has_ended = status is not None and status.phase == "ended"
        if has_ended or time.monotonic() + pause > deadline:
            return status
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_PAUSE)


def _judge(report: DeviceReport, device: str) -> Finding:
    visible = "is not set" if report.visible is None else f"is {report.visible!r}"
    seen = f"{VISIBLE} {visible}, torch is {report.torch}"
    if report.fault is None:
        gpus = f", GPUs: {', '.join(report.gpus)}" if device == "cuda" else ""
        met = f"; its {len(report.hosts)} ranks met, on {', '.join(report.hosts)}"
        network = f" ({', '.join(report.network)})" if report.network else ""
        return ok(f"can train on {device}: {seen}{gpus}{f'{met}{network}' if report.hosts else ''}")
    remedy = "look at nvidia-smi there, install a torch with CUDA, or set device: cpu"
    if device == "cpu":
        remedy = f"install hpsearch again with: {INSTALL}"
    fault = " ".join(report.fault.split())
    return error(f"cannot train on {device}, since torch says: {fault} ({seen}); {remedy}")


def _broken(log: Path) -> Finding:
    """Name the fault of a job that ended without a report, by the last line that it printed."""
    lines = [line.strip() for line in last_words(log, 20) if line.strip()]
    last = lines[-1][:300] if lines else "it printed nothing"
    return error(
        f"ended before it could say what it sees ({last}); make sure that this folder and this "
        "Python are there where jobs run"
    )
