"""The GPUs and cores of this machine, and how a job reserves some of its GPUs.

A job's own process holds a lock for each of its GPUs as long as it lives. So GPUs are kept apart
between jobs, studies and users, and are free again however the job ends.
"""

import ctypes
import errno
import os
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from hpsearch.cluster.failures import StopFlag

VISIBLE = "CUDA_VISIBLE_DEVICES"
"""environment variable that names the GPUs which a process may use, with commas between them"""
ANSWER_SECONDS = 30.0
"""after which nvidia-smi is given up; the driver of a GPU that has failed may never answer"""
GLANCE_SECONDS = 0.5  # between two looks for GPUs that have become free
SETTLING_SECONDS = 10.0
"""for which a job waits for all that it wants before it takes fewer: the last job may just end"""


@dataclass(frozen=True)
class Gpu:
    name: str  # as CUDA_VISIBLE_DEVICES names it: an index or a UUID
    key: str  # the same for the same GPU, however it is named: its UUID where that is known


@dataclass(frozen=True)
class GpuShare:
    gpus: tuple[Gpu, ...]
    per_job: int  # GPUs that each job has to itself; with 0, jobs see none
    fewer: tuple[int, ...] = ()
    """that are enough where so many are not free when a job begins, the most first"""

    @property
    def counts(self) -> tuple[int, ...]:
        """How many GPUs a job may have, the most first."""
        return (self.per_job, *self.fewer)

    @property
    def most(self) -> int:
        """How many GPUs a job can have here, 0 if too few for any."""
        return next((count for count in self.counts if count <= len(self.gpus)), 0)

    @property
    def max_jobs(self) -> int | None:
        """How many jobs can train at once, None where GPUs set no limit."""
        if self.most:
            return len(self.gpus) // self.most
        return 0 if self.per_job else None

    @property
    def shortage(self) -> str | None:
        """Why not even one job can train, and the remedy; None where one can."""
        if self.max_jobs != 0:
            return None
        least = f", or at least {self.fewer[-1]}" if self.fewer else ""
        wanted = f"each job is to have {counted(self.per_job)}{least}"
        if self.gpus:
            names = ",".join(gpu.name for gpu in self.gpus)
            return (
                f"{wanted}, but this machine has {counted(len(self.gpus))} ({names}); "
                "lower executor.gpus_per_job, or the gpus of a program"
            )
        hidden = os.environ.get(VISIBLE)
        where = "nvidia-smi shows none" if hidden is None else f"{VISIBLE} is {hidden!r}"
        return (
            f"{wanted}, but there is none here ({where}); set device: cpu in the trainer "
            "configuration, or gpus: 0 for a program, or run the study on a machine with a GPU"
        )

    def jobs_text(self, num_jobs: int) -> str:
        assert self.max_jobs, "jobs that no GPU is there for do not train"
        names = ",".join(gpu.name for gpu in self.gpus)
        at_once = min(num_jobs, self.max_jobs)
        jobs = "1 job trains" if at_once == 1 else f"{at_once} jobs train"
        more = f"; executor.jobs is {num_jobs}" if at_once < num_jobs else ""
        of_all = f"{self.most} of {counted(len(self.gpus))} ({names})"
        return f"{jobs} at once, each on {of_all}{more}"


NO_GPUS = GpuShare((), 0)


def counted(number: int) -> str:
    return f"{number} GPU{'s' if number != 1 else ''}"


def find_gpus() -> tuple[Gpu, ...]:
    """Return the GPUs that this process may use: those that CUDA_VISIBLE_DEVICES names, or all.

    Indices are those of the bus; CUDA counts otherwise where GPUs are of different types, which
    matters only where studies name the same GPU differently. Torch is not asked: its import takes
    seconds.
    """
    uuids = _uuids()
    named = os.environ.get(VISIBLE)
    if named is not None:
        return tuple(_visible(named, uuids))
    if uuids is None:
        # In a container there may be no nvidia-smi.
        files = sorted(Path("/dev").glob("nvidia[0-9]*"))
        return tuple(Gpu(str(index), str(index)) for index in range(len(files)))
    return tuple(Gpu(str(index), uuid) for index, uuid in enumerate(uuids))


def hold_gpus(gpus: Sequence[Gpu], counts: Sequence[int], flag: StopFlag) -> tuple[Gpu, ...] | None:
    """Wait for free GPUs and hold them until this process ends; None once ``flag`` is set.

    They are as many as one of ``counts`` says, the most first; fewer than there could be only after
    SETTLING_SECONDS.
    """
    possible = [count for count in counts if count <= len(gpus)]
    settles_at = time.monotonic() + SETTLING_SECONDS
    while not flag.is_set:
        has_settled = time.monotonic() >= settles_at
        held = _try_to_hold(gpus, possible if has_settled else possible[:1])
        if held is not None:
            return held
        flag.rest(GLANCE_SECONDS)
    return None


def _try_to_hold(gpus: Sequence[Gpu], counts: Sequence[int]) -> tuple[Gpu, ...] | None:
    """Return GPUs that are held from now on, None and none of them held if there are too few."""
    locks: dict[Gpu, socket.socket] = {}
    for gpu in gpus:
        if len(locks) < max(counts) and (lock := _locked(gpu)) is not None:
            locks[gpu] = lock
    count = max((count for count in counts if count <= len(locks)), default=0)
    held = tuple(locks)[:count]
    for gpu, lock in locks.items():
        if gpu in held:
            lock.detach()  # nothing closes it any more but the end of the process
        else:
            lock.close()
    return held or None


def _locked(gpu: Gpu) -> socket.socket | None:
    """Return the lock of a GPU, None if another process has it.

    It is an address of Linux's abstract name space, which needs no folder that all users may write.
    """
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    try:
        lock.bind(f"\0hpsearch-gpu-{gpu.key}")
    except OSError as error:
        lock.close()
        if error.errno != errno.EADDRINUSE:
            raise
        return None
    return lock


def _visible(named: str, uuids: Sequence[str] | None) -> Iterator[Gpu]:
    """Yield the GPUs of a CUDA_VISIBLE_DEVICES; as for CUDA, a name of no GPU hides the rest."""
    keys = set[str]()
    for name in named.split(","):
        key = _key(name.strip(), uuids)
        if key is None:
            return
        if key not in keys:
            keys.add(key)
            yield Gpu(name.strip(), key)


def _key(name: str, uuids: Sequence[str] | None) -> str | None:
    """Return what no other GPU is called, None if the name means no GPU of this machine.

    If ``uuids`` are not known (None), the name is not checked.
    """
    if name.startswith("MIG-"):  # a part of a GPU, which nvidia-smi's list of GPUs does not name
        return name
    if name.startswith("GPU-"):
        if uuids is None:
            return name
        # CUDA takes the beginning of a UUID that begins no other one.
        meant = [uuid for uuid in uuids if uuid.startswith(name)]
        return meant[0] if len(meant) == 1 else None
    if not name.isdecimal():
        return None
    if uuids is None:
        return str(int(name))
    return uuids[int(name)] if int(name) < len(uuids) else None


def _uuids() -> tuple[str, ...] | None:
    """Return the UUIDs of all GPUs by index, None where there is no nvidia-smi to say them."""
    command = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
        return ()  # it has no driver to ask, or one that hangs: CUDA would fail too
    except OSError:
        return None
    return tuple(line.strip() for line in done.stdout.splitlines() if line.startswith("GPU-"))


def num_cores() -> int:
    if hasattr(os, "sched_getaffinity"):  # Linux; a job may own fewer cores than its node has
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


_MMAP_THRESHOLD, _TRIM_THRESHOLD = -3, -1  # of <malloc.h>
_ONE_PIECE, _KEPT = 1 << 25, 1 << 28  # bytes; the first is the most that glibc takes
_MALLOC_SETTINGS = {
    "GLIBC_TUNABLES",
    "MALLOC_MMAP_THRESHOLD_",
    "MALLOC_TRIM_THRESHOLD_",
}  # a user's own


def keep_freed_memory() -> None:
    """Let this process use the memory again that its tensors free, and ask the system for less.

    By default glibc gives large pieces back at once, so each update writes to pages that the
    system has to clear before: a fifth of its time where layers are 256 wide. Other C libraries,
    and a user's own settings, stay as they are.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "mallopt") or _MALLOC_SETTINGS & os.environ.keys():
        return
    libc.mallopt(_MMAP_THRESHOLD, _ONE_PIECE)
    libc.mallopt(_TRIM_THRESHOLD, _KEPT)


def share(devices: Sequence[str], task: int, num_tasks: int) -> list[str]:
    """Return the devices of one of several tasks: equally many for each task, all different."""
    count = len(devices) // num_tasks
    return list(devices[task * count : (task + 1) * count])
