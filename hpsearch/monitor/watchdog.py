"""Notices that training hangs: no sign of progress for too long."""

import sys
import threading
import traceback
from collections.abc import Callable


class Activity:
    """Signs of progress, and the open sections: written by the loop, read by the watchdog."""

    def __init__(self) -> None:
        self.signs = 0
        self._open: list[str] = []

    def beat(self) -> None:
        self.signs += 1

    def enter(self, name: str) -> None:
        self._open.append(name)
        self.signs += 1

    def leave(self) -> None:
        self._open.pop()
        self.signs += 1

    @property
    def section(self) -> str | None:
        """Return the open sections from the outermost in, as ``update/backward``."""
        return "/".join(self._open) or None


CHECKS = 20
"""how often the watchdog checks within its timeout, which it exceeds by one check at most"""
MAX_CHECK_SECONDS = 5.0


OnHang = Callable[[str, str], None]  # called with a sentence and the stacks of all threads


class Watchdog:
    """A thread that calls ``on_hang`` once after ``seconds`` without a sign.

    It counts its checks instead of the time, so that a process that was stopped and continues
    (SIGSTOP, a suspended machine) does not look as if it hung. A call that never lets go of the
    interpreter's lock stops the watchdog too; torch, numba, sleeping and waiting let go of it.
    """

    def __init__(self, activity: Activity, seconds: float, on_hang: OnHang) -> None:
        self._activity = activity
        self._seconds = seconds
        self._on_hang = on_hang
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End the thread; may be called from any thread, and again."""
        self._closed.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _watch(self) -> None:
        check = min(self._seconds / CHECKS, MAX_CHECK_SECONDS)
        signs, silent = self._activity.signs, 0.0
        while not self._closed.wait(check):
            before, signs = signs, self._activity.signs
            silent = silent + check if signs == before else 0.0
            if silent > self._seconds:
                self._on_hang(self._sentence(), stacks())
                return

    def _sentence(self) -> str:
        section = self._activity.section
        where = "outside all named sections" if section is None else f"in {section}"
        return (
            f"no sign of progress for {self._seconds:g} seconds, {where}; see the stacks in the "
            "job's log, or raise monitor.hang_timeout if a step may take so long"
        )


def stacks() -> str:
    """Return what every thread of this process is doing."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        f"thread {names.get(ident, ident)}:\n{''.join(traceback.format_stack(frame))}"
        for ident, frame in sys._current_frames().items()
    )
