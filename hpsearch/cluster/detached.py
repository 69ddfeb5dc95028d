"""A driver that goes on without the terminal in which its study was submitted."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from hpsearch.cluster.study_dir import StudyDir


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
        # It is nobody's child that anyone waits for; Python would warn of it at exit.
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
