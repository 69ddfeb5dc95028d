"""A driver that goes on without the terminal in which its study was submitted.

Why a driver tries again, in a file: `hpsearch status` reads it while the database is away.
"""

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Protocol

from hpsearch.cluster.record_files import read_record
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import write_json


class DetachedDriver(Protocol):
    """How a driver is started that outlives the terminal."""

    def start(self) -> str:
        """Start it; return what it is, such as ``process 1234``."""
        ...


class LocalDriver:
    """A driver and its supervisor as processes of this machine, in a session of their own."""

    def __init__(self, folder: StudyDir, runs: Path) -> None:
        """Drive the study in ``folder``, which lies below ``runs``."""
        self._folder = folder
        self._runs = runs

    def start(self) -> str:
        """Start the supervisor; what it and the driver print goes to `StudyDir.output`."""
        self._folder.root.mkdir(parents=True, exist_ok=True)
        with self._folder.output.open("ab") as output:
            process = subprocess.Popen(
                supervise_command(self._folder, self._runs),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {"PYTHONUNBUFFERED": "1"},
            )
        # No process waits for it; Python would warn of it at exit.
        process.returncode = 0
        return f"process {process.pid}"


def drive_command(folder: StudyDir, runs: Path) -> Sequence[str]:
    """Return the command line of a driver without a terminal."""
    return [sys.executable, "-m", "hpsearch.cli", *_drive(folder, runs)]


def supervise_command(folder: StudyDir, runs: Path) -> Sequence[str]:
    """Return the command line of a supervisor, which runs `drive_command`."""
    return [sys.executable, "-m", "hpsearch.cluster.supervisor", *_drive(folder, runs)]


def _drive(folder: StudyDir, runs: Path) -> Sequence[str]:
    return ["drive", folder.root.name, "--runs", str(runs.absolute())]


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
