"""Starts a driver without a terminal again, whenever it ended for something that may pass.

    python -m hpsearch.cluster.supervisor drive STUDY --runs RUNS

It decides from exit codes alone and imports little, so that hardly anything can end it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from hpsearch.cluster.detached import (
    LEAVE_SECONDS,
    WALLTIME_SIGNAL,
    drive_command,
    note_retry,
    requeue_own_job,
)
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import (
    INTERRUPTED,
    ConfigError,
    ConflictError,
    CorruptError,
    DiskError,
    StudyFailedError,
    UsageError,
)
from hpsearch.files import open_file

FINAL = frozenset({0, ConflictError.exit_code, StudyFailedError.exit_code, INTERRUPTED})
"""exit codes that the same driver would end with again, or that a user wanted"""
DOUBTFUL = frozenset({UsageError.exit_code, ConfigError.exit_code, CorruptError.exit_code})
"""the same, unless the study's folder is missing: then its file system may be away"""
MISSING_SECONDS = 24 * 3600.0  # after which a folder that is missing has been removed
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds between two drivers, doubled each time
STEADY_SECONDS = 20.0
"""after which a driver got on, since it begins within a few, and the next pause is the shortest"""
TAIL_BYTES = 4096  # of what a driver printed, in which its last sentence is looked for


class Supervisor:
    """Keeps the driver of one study."""

    def __init__(
        self,
        folder: StudyDir,
        command: Sequence[str],
        *,
        first_pause: float = FIRST_PAUSE,
        requeue: Callable[[], bool] = requeue_own_job,
    ) -> None:
        """Run ``command``, the driver of the study in ``folder``.

        ``requeue`` asks SLURM to start this job again; it returns whether SLURM does.
        """
        self._folder = folder
        self._command = command
        self._first_pause = first_pause
        self._requeue = requeue
        self._flag = StopFlag()
        self._driver: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Drive until the end is final, or a signal asks to stop; return the exit code.

        The signal of the walltime has SLURM start this job once more.
        """
        for number in (signal.SIGTERM, signal.SIGINT, WALLTIME_SIGNAL):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._kill)
        pause, well_at = self._first_pause, time.monotonic()
        while True:
            began, printed = time.monotonic(), _size(self._folder.output)
            code = self._drive()
            if self._flag.is_set or self._is_final(code, began - well_at):
                break
            if time.monotonic() - began > STEADY_SECONDS:
                pause, well_at = self._first_pause, time.monotonic()
            self._note(_reason(code, self._folder.output, printed), pause)
            self._flag.rest(pause)
            if self._flag.is_set:
                code = INTERRUPTED
                break
            pause = min(2 * pause, LONGEST_PAUSE)
        if self._flag.signal == WALLTIME_SIGNAL and code not in FINAL - {INTERRUPTED}:
            self._requeue_until_done()
        return code

    def _drive(self) -> int:
        """Return the exit code of one driver, negative for a signal."""
        try:
            self._driver = subprocess.Popen(self._command)
        except OSError:  # no memory, or the file system of the interpreter is away
            return DiskError.exit_code
        if self._flag.is_set:  # asked since the last look
            self._stop_driver()
        code = self._driver.wait()
        signal.alarm(0)
        self._driver = None
        return INTERRUPTED if self._flag.is_set and code < 0 else code

    def _note(self, reason: str, pause: float) -> None:
        """Say why another driver is started, for `hpsearch status` and among what drivers print."""
        note_retry(self._folder, reason)
        with suppress(OSError):  # a full disk
            print(f"hpsearch: {reason}; it is started again in {pause:.0f} seconds", flush=True)

    def _is_final(self, code: int, seconds: float) -> bool:
        """Return whether no other driver is started, ``seconds`` after the last one got on."""
        is_there = _size(self._folder.spec) > 0
        return code in FINAL or (code in DOUBTFUL and (is_there or seconds > MISSING_SECONDS))

    def _requeue_until_done(self) -> None:
        """Ask until SLURM does it: if it does not answer now, it ends this job no sooner."""
        self._flag = StopFlag()
        while not self._flag.is_set and not self._requeue():
            self._flag.rest(self._first_pause)

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._flag.set(number, frame)
        if self._driver is not None:
            self._stop_driver()

    def _stop_driver(self) -> None:
        """Ask the driver to leave; one that hangs is killed, since any round may die."""
        if self._driver is not None:
            self._driver.terminate()
            signal.alarm(LEAVE_SECONDS)

    def _kill(self, number: int, frame: FrameType | None) -> None:
        if self._driver is not None:
            self._driver.kill()


def _reason(code: int, output: Path, printed: int) -> str:
    """Return why a driver ended: what it said last, beyond ``printed`` bytes, or its exit code."""
    if code < 0:
        return f"the driver was killed by signal {-code}"
    try:
        with open_file(output) as file:
            file.seek(max(printed, _size(output) - TAIL_BYTES))
            lines = file.read(TAIL_BYTES).decode(errors="replace").splitlines()
    except (CorruptError, OSError):
        lines = []
    sentences = [line for line in lines if line.startswith("hpsearch: ")]
    return (
        sentences[-1].removeprefix("hpsearch: ")
        if sentences
        else f"the driver ended with code {code}"
    )


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def main(arguments: Sequence[str]) -> int:
    """Supervise the driver that the arguments name, as `drive_command` writes them."""
    _, name, _, runs = arguments
    os.umask(0o077)
    folder = StudyDir(Path(runs) / name)
    return Supervisor(folder, drive_command(folder, Path(runs))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
