"""The driver that a study was last given: started once at a time, and whether it is still there."""

import fcntl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import psutil

from hpsearch.atomic import write_json
from hpsearch.bounded import read_json
from hpsearch.cluster.driver_retry import read_retry
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import read
from hpsearch.study.holder import is_dead, is_of_this_host, name_of

SILENCE_SECONDS = 600.0
"""for which a driver elsewhere is believed to be there without a sign: one that drives gives it
every five seconds, one that cannot at each attempt to, every five minutes at least"""


@dataclass(frozen=True)
class DriverStart:
    """A driver that was started without a terminal."""

    who: str
    """process 1234, or job 17 of SLURM, which may wait in the queue for hours"""
    at: float
    """seconds since the epoch"""
    printed: int = 0
    """bytes that drivers before it had printed; not used any more"""
    process: str | None = None
    """name of the process as `holder` gives it, which starts the driver again whenever it dies;
    None of a job of SLURM, or if it was started by an older version"""

    @property
    def slurm_job(self) -> str | None:
        """Return the id of the driver's SLURM job, None if it is none."""
        kind, _, number = self.who.partition(" ")
        return number if kind == "job" else None


@contextmanager
def driver_start_locked(folder: StudyDir) -> Iterator[None]:
    """Keep other commands from starting a driver of the study while the block runs.

    A file system without locks has none; SLURM then lets the second driver wait for the first one,
    and the lease any other.
    """
    folder.root.mkdir(parents=True, exist_ok=True)
    with folder.driver_start_lock.open("a") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def note_start(folder: StudyDir, who: str) -> None:
    """Note that a driver was started just now."""
    kind, _, number = who.partition(" ")
    process = None
    with suppress(psutil.NoSuchProcess):
        process = name_of(int(number)) if kind == "process" else None
    write_json(folder.driver_start, asdict(DriverStart(who, time.time(), process=process)))


def forget_start(folder: StudyDir) -> None:
    """Note that the driver is done, though its process may not have ended.

    It does so while it holds the study: the command that takes it next starts another one.
    """
    with suppress(OSError):
        folder.driver_start.unlink(missing_ok=True)


def awaited_driver(folder: StudyDir, now: float) -> DriverStart | None:
    """Return the driver that was started, if it may still begin to drive, or begin again.

    Of a SLURM job, the scheduler knows whether it is there.
    """
    try:
        data = read_json(folder.driver_start)
        start = None if data is None else read(DriverStart, data, source=str(folder.driver_start))
    except (ConfigError, CorruptError, DiskError):
        return None
    if start is None or start.slurm_job is not None:
        return start
    if start.process is None:
        return None
    if is_of_this_host(start.process):
        return None if is_dead(start.process) else start
    return start if may_be_there(folder, start, now) else None


def may_be_there(folder: StudyDir, start: DriverStart, now: float) -> bool:
    """Return whether a driver may be there of which neither this host nor a scheduler says.

    A job that has given no sign yet may wait in the queue.
    """
    retry = read_retry(folder)
    last = max(start.at, _noted(folder), 0.0 if retry is None else retry.at)
    waits = start.slurm_job is not None and last == start.at
    return waits or now - last < SILENCE_SECONDS


def _noted(folder: StudyDir) -> float:
    """Return when a driver last noted how it was."""
    try:
        return folder.driver.stat().st_mtime
    except OSError:
        return 0.0
