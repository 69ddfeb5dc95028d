"""What a driver notes of itself for whoever asks how the study is."""

import os
import socket
import time
from collections import deque
from contextlib import suppress
from dataclasses import asdict, dataclass

from hpsearch.atomic import write_json
from hpsearch.bounded import read_json
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import read

NOTE_SECONDS = 5.0
"""between two notes"""
WINDOW_SECONDS = 600.0
"""over which calls are counted"""


@dataclass(frozen=True)
class DriverNote:
    """How a driver is."""

    at: float
    """seconds since the epoch"""
    host: str
    pid: int
    slurm_job: str | None
    """of the driver itself, None if it is none"""
    tick_seconds: float
    """that its last round took"""
    calls_per_minute: float
    """of the scheduler, over the last ten minutes"""
    refusal: str | None
    """what the scheduler said when it last took no jobs"""


class DriverNotes:
    """Writes a driver's notes."""

    def __init__(self, folder: StudyDir) -> None:
        """Note into the study's folder."""
        self._folder = folder
        self._next = 0.0
        self._calls: deque[tuple[float, int]] = deque()

    def write(self, *, tick_seconds: float, num_calls: int, refusal: str | None) -> None:
        """Note how the driver is, now and then; where that is not possible, nothing is noted.

        Args:
            tick_seconds: that the last round took.
            num_calls: calls of the scheduler since the driver began.
            refusal: what the scheduler said when it last took no jobs.
        """
        now = time.monotonic()
        self._calls.append((now, num_calls))
        while now - self._calls[0][0] > WINDOW_SECONDS:
            self._calls.popleft()
        if now < self._next:
            return
        self._next = now + NOTE_SECONDS
        note = DriverNote(
            at=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            slurm_job=os.environ.get("SLURM_JOB_ID"),
            tick_seconds=tick_seconds,
            calls_per_minute=self._calls_per_minute(now),
            refusal=refusal,
        )
        with suppress(DiskError):  # a study is not to end for want of a note
            write_json(self._folder.driver, asdict(note))

    def _calls_per_minute(self, now: float) -> float:
        since, before = self._calls[0]
        # Of less than a minute nothing is said that would hold for one.
        return (self._calls[-1][1] - before) / max(1.0, (now - since) / 60)


def read_note(folder: StudyDir) -> DriverNote | None:
    """Return what the last driver noted, None if there is nothing to be read."""
    try:
        data = read_json(folder.driver)
        return None if data is None else read(DriverNote, data, source=str(folder.driver))
    except (ConfigError, CorruptError, DiskError):
        return None
