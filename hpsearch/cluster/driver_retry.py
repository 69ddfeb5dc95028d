"""Why a driver tries again, in a file: `hpsearch status` reads it while the database is away."""

import os
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from hpsearch.atomic import write_json
from hpsearch.cluster.record_file import read_record
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError


@dataclass(frozen=True)
class DriverRetry:
    """A driver that tries again and again, because of something that may pass."""

    since: float
    """seconds since the epoch, of the first time in a row"""
    at: float
    """the same of the last time"""
    reason: str
    """what went wrong the last time, in a sentence"""


def note_retry(folder: StudyDir, reason: str) -> None:
    """Note that the driver could not get on just now; where that is not possible, go without.

    A folder that was removed, or whose file system is away, is not made again.
    """
    if not os.path.isdir(folder.root):
        return
    now, before = time.time(), read_retry(folder)
    retry = DriverRetry(now if before is None else before.since, now, reason)
    with suppress(DiskError):
        write_json(folder.driver_retry, asdict(retry))


def forget_retry(folder: StudyDir) -> None:
    """Note that the driver gets on."""
    with suppress(OSError):
        folder.driver_retry.unlink(missing_ok=True)


def read_retry(folder: StudyDir) -> DriverRetry | None:
    """Return why the driver tries again; None if it gets on, or if that cannot be read."""
    try:
        return read_record(DriverRetry, folder.driver_retry)
    except (CorruptError, DiskError):
        return None
