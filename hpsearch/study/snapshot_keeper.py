"""A driver's snapshots: written now and then, in little of its time, and when it ends."""

import time
from collections.abc import Callable
from typing import Final

from hpsearch.study.driver import Driver
from hpsearch.study.records import Trial

REFRESH_SECONDS: Final = 30.0
"""between two snapshots; readers fold the events after the last one"""
SHARE: Final = 0.02
"""of the driver's time that they may take"""


class SnapshotKeeper:
    """Keeps the snapshot of the study that a driver drives."""

    def __init__(
        self, line: Callable[[Trial], str], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """``line`` gives what a list of trials shows of one."""
        self._line = line
        self._clock = clock
        self._next = clock() + REFRESH_SECONDS
        self._last_event = -1

    def keep(self, driver: Driver) -> None:
        """Write a snapshot if it is time.

        Raises:
            ConflictError: if another driver has taken the study.
            StorageError: if the database cannot be used.
        """
        if self._clock() >= self._next:
            self.write(driver)

    def write(self, driver: Driver) -> None:
        """Write a snapshot where anything has happened since the last one; raises as `keep`."""
        if driver.state.last_event == self._last_event:
            return
        began = self._clock()
        driver.write_snapshot(self._line)
        self._last_event, now = driver.state.last_event, self._clock()
        self._next = now + max(REFRESH_SECONDS, (now - began) / SHARE)
