"""Kinds of failure, by which the driver decides what becomes of a trial; signals to stop."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from hpsearch.errors import DiskError, HpsearchError, TrainingFailedError, is_full
from hpsearch.files import last_lines

# Told by the job itself.
DISK, OOM_GPU, OOM_HOST = "disk", "oom_gpu", "oom_host"
NAN, DIVERGED, HUNG, CODE = "nan", "diverged", "hung", "code"

# Told by the executor, of a job that left no word.
PREEMPTED, TIMEOUT, NODE_FAIL, CANCELLED = "preempted", "timeout", "node_fail", "cancelled"

LOST = "lost"  # the job is gone, and it is not known why
SILENT = "silent"  # the job is said to run, but has given no heartbeat for too long

FREE = frozenset({PREEMPTED, NODE_FAIL})
"""kinds that are the cluster's doing, however often they come"""

KINDS = (
    *(DISK, OOM_GPU, OOM_HOST, NAN, DIVERGED, HUNG, CODE),
    *(PREEMPTED, TIMEOUT, NODE_FAIL, CANCELLED, LOST, SILENT),
)


class RankLostError(TrainingFailedError):
    """Another rank is gone, or has failed: ``kind`` says how, None if it left no word."""

    def __init__(self, sentence: str, kind: str | None = None) -> None:
        super().__init__(sentence)
        self.kind = kind


def kind_of(error: Exception) -> str:
    if isinstance(error, RankLostError):
        return error.kind or LOST
    if isinstance(error, MemoryError):
        return OOM_HOST
    # By its name, because torch is not imported where failures are only read.
    if type(error).__name__ == "OutOfMemoryError":
        return OOM_GPU
    return DISK if isinstance(error, OSError | DiskError) or is_full(error) else CODE


def message_of(error: Exception) -> str:
    """Return what a user reads of an error: our own sentence, or its type and first line."""
    if isinstance(error, HpsearchError):
        return str(error)
    first_line = str(error).strip().partition("\n")[0]
    return f"{type(error).__name__}: {first_line}" if first_line else type(error).__name__


LINES_LOOKED_AT = 100  # of the end of a log
OF_SUBMITIT = "submitit INFO "  # begins what submitit notes of each job, however that ends


def last_words(log: Path, count: int) -> list[str]:
    """Return the last lines of a job's log that the job itself, or an error, wrote."""
    lines = last_lines(log, LINES_LOOKED_AT)
    return [line for line in lines if not line.startswith(OF_SUBMITIT)][-count:]


GLANCE_SECONDS = 0.2
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)
SAVE_SIGNAL = signal.SIGUSR1  # asks for a checkpoint, and to train on


class StopFlag:
    def __init__(self) -> None:
        self.is_set = False
        self.signal: int | None = None  # the last signal that set it
        self.is_save_asked = False

    def set(self, signum: int, frame: FrameType | None) -> None:
        """Remember the request; a signal handler. A second Ctrl-C does not wait any more."""
        if self.is_set and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_set = True
        self.signal = signum

    def ask_for_save(self, signum: int, frame: FrameType | None) -> None:
        """Remember a request for a checkpoint; a signal handler."""
        self.is_save_asked = True

    def rest(self, seconds: float) -> None:
        """Wait, but no longer than until a signal asks to stop; Python would sleep on."""
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self.is_set:
            time.sleep(min(GLANCE_SECONDS, left))


@contextmanager
def stop_flag(signals: tuple[signal.Signals, ...] = STOP_SIGNALS) -> Iterator[StopFlag]:
    """Give a flag that the signals set while the block runs; main thread only.

    Not by SIGHUP, that the terminal is closed, where it is ignored, as after nohup.
    """
    flag = StopFlag()
    is_hangup_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    heard = [number for number in signals if number != signal.SIGHUP or not is_hangup_ignored]
    previous = {number: signal.signal(number, flag.set) for number in heard}
    previous[SAVE_SIGNAL] = signal.signal(SAVE_SIGNAL, flag.ask_for_save)
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
