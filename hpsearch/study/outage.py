"""Waiting out a database that goes away while a study is driven, or is away when it begins.

Nothing is lost meanwhile: jobs write files alone, and a driver that begins anew decides from what
the database and the files say.
"""

import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from hpsearch.errors import (
    ConflictError,
    HpsearchError,
    SchedulerUnavailableError,
    StorageUnavailableError,
)
from hpsearch.study.recorder import LEASE_SECONDS

T = TypeVar("T")

AWAY = (StorageUnavailableError, SchedulerUnavailableError)
"""what may come back by itself; only a driver that begins meets a scheduler that is away"""
PATIENCE = 24 * 3600.0
"""seconds for which a database that was reached once may stay away"""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""seconds between two attempts"""
GLANCE_SECONDS = 1.0
"""between two looks whether to stop"""


class Outage:
    """Repeats work that the database interrupted, until it comes back."""

    def __init__(
        self,
        tell: Callable[[str], None],
        *,
        note: Callable[[str], None] = lambda sentence: None,
        waits_at_start: bool = False,
        should_stop: Callable[[], bool] = lambda: False,
        patience: float = PATIENCE,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """``tell`` is given a sentence when the database goes away, and one when it is back.

        ``note`` is given what is the matter before each pause, of half a minute at most.

        ``waits_at_start`` says to wait, without end, for one that was never reached too: where
        no user does, who may have mistyped its address. ``should_stop`` ends the waiting.
        """
        self._tell = tell
        self._note = note
        self._should_stop = should_stop
        self._waits_at_start = waits_at_start
        self._patience = float("inf") if waits_at_start else patience
        self._clock = clock
        self._sleep = sleep
        self._was_reached = False
        self._since: float | None = None
        self._lost_at = -float("inf")
        """when the database was last found away"""
        self._pauses = _pauses()

    def reached(self) -> None:
        """Note that the database answers; whatever went away before is over."""
        if self._since is not None:
            away = self._clock() - self._since
            self._tell(f"the database is back, {away:.0f} seconds after it was missed")
        self._was_reached = True
        self._since = None
        self._pauses = _pauses()

    def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; do it again whenever the database has gone away.

        The work opens the study itself, each time anew, and calls `reached` once that was done.

        Raises:
            StorageUnavailableError: if the database was never reached and is not waited for, or
                stayed away for longer than the patience.
            SchedulerUnavailableError: the same of the scheduler.
            ConflictError: if somebody else has taken the study.
        """
        while True:
            try:
                return work()
            except AWAY as error:
                self._lost_at = self._clock()
                self._wait(error)
            except ConflictError:
                # Our own lease, which could not be given back, keeps us out until it expires.
                if self._clock() - self._lost_at > LEASE_SECONDS + FIRST_PAUSE:
                    raise
                if self._should_stop():
                    raise
                self._sleep(FIRST_PAUSE)

    def _wait(self, error: HpsearchError) -> None:
        if not (self._was_reached or self._waits_at_start):
            raise error
        if self._since is None:
            self._since = self._clock()
            self._tell(f"{error}; running jobs go on, and this waits until it is back")
        self._note(str(error))
        pause = next(self._pauses)
        end = self._clock() + pause
        if self._away() + pause > self._patience:
            raise error
        while (left := end - self._clock()) > 0:
            if self._should_stop():
                raise error
            self._sleep(min(left, GLANCE_SECONDS))

    def _away(self) -> float:
        return 0.0 if self._since is None else self._clock() - self._since


def _pauses() -> Iterator[float]:
    pause = FIRST_PAUSE
    while True:
        yield pause
        pause = min(2 * pause, LONGEST_PAUSE)
