"""A polite stop: signals set a flag, the loop looks at it where stopping is safe."""

import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

GLANCE_SECONDS = 0.2
STOP_SIGNALS = (signal.SIGTERM, signal.SIGUSR2)


class StopFlag:
    """Whether somebody has asked this process to stop."""

    def __init__(self) -> None:
        """Begin unset."""
        self.is_set = False
        self.signal: int | None = None
        """the last signal that set it"""

    def set(self, signum: int, frame: FrameType | None) -> None:
        """Remember the request; a signal handler. A second Ctrl-C does not wait any more."""
        if self.is_set and signum == signal.SIGINT:
            raise KeyboardInterrupt
        self.is_set = True
        self.signal = signum

    def rest(self, seconds: float) -> None:
        """Wait, but no longer than until somebody asks this process to stop.

        Python by itself would go on sleeping after a signal.
        """
        deadline = time.monotonic() + seconds
        while (left := deadline - time.monotonic()) > 0 and not self.is_set:
            time.sleep(min(GLANCE_SECONDS, left))


@contextmanager
def stop_flag(signals: tuple[signal.Signals, ...] = STOP_SIGNALS) -> Iterator[StopFlag]:
    """Give a flag that the signals set while the block runs; main thread only."""
    flag = StopFlag()
    previous = {number: signal.signal(number, flag.set) for number in signals}
    try:
        yield flag
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
