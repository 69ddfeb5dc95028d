"""The driver that a study was last given, and whether it has yet to be heard of."""

import time
from dataclasses import asdict, dataclass

from hpsearch.atomic import read_json, write_json
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import read

PROCESS_SECONDS = 60.0
"""within which a process that was started has begun to drive, or never will"""


@dataclass(frozen=True)
class DriverStart:
    """A driver that was started without a terminal."""

    who: str
    """process 1234, or job 17 of SLURM, which may wait in the queue for hours"""
    at: float
    """seconds since the epoch"""
    printed: int
    """bytes that drivers before it had printed"""

    @property
    def slurm_job(self) -> str | None:
        """Return the id of the driver's SLURM job, None if it is none."""
        kind, _, number = self.who.partition(" ")
        return number if kind == "job" else None


def note_start(folder: StudyDir, who: str) -> None:
    """Note that a driver was started just now."""
    start = DriverStart(who, time.time(), _size(folder))
    write_json(folder.driver_start, asdict(start))


def awaited_driver(folder: StudyDir, now: float) -> DriverStart | None:
    """Return the driver that was started and has neither driven nor printed anything since."""
    try:
        data = read_json(folder.driver_start)
        start = None if data is None else read(DriverStart, data, source=str(folder.driver_start))
    except (ConfigError, CorruptError, DiskError):
        return None
    if start is None or start.at < _noted(folder) or start.printed != _size(folder):
        return None
    is_late = start.slurm_job is None and now - start.at > PROCESS_SECONDS
    return None if is_late else start


def _noted(folder: StudyDir) -> float:
    """Return when a driver last noted how it was."""
    try:
        return folder.driver.stat().st_mtime
    except OSError:
        return 0.0


def _size(folder: StudyDir) -> int:
    """Return how much drivers have printed."""
    try:
        return folder.output.stat().st_size
    except OSError:
        return 0
