"""A driver's copy of its study, kept up to date now and then, in little time."""

import time
from collections.abc import Callable
from typing import Final

from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.copy.writer import CopyWriter
from hpsearch.study.driver import Driver

REFRESH_SECONDS: Final = 10.0
"""between two refreshes; the dashboard asks as often for what is new"""
TICK_SECONDS: Final = 0.1
"""that a refresh may add to one round of the driver; what is left waits for a later one"""
SHARE: Final = 0.1
"""of the driver's time that refreshing may take"""


class CopyKeeper:
    """Keeps the copy of the study that a driver drives."""

    def __init__(self, folder: StudyDir, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Copy into the study's folder."""
        self._folder = folder
        self._clock = clock
        self._next = clock()
        self._writer: CopyWriter | None = None

    def keep(self, driver: Driver) -> None:
        """Refresh the copy if it is time; where that is not possible, it is tried again later."""
        began = self._clock()
        if began < self._next:
            return
        if self._writer is None:
            # No patience: a reader that holds the file must not keep the driver waiting.
            self._writer = CopyWriter(self._folder.dashboard, driver.trials.head, patience=0.0)
        trials, event = driver.trials.stored(), driver.state.last_event
        is_whole = self._writer.refresh(trials, event, seconds=TICK_SECONDS)
        now = self._clock()
        pause = (now - began) / SHARE
        self._next = now + (max(REFRESH_SECONDS, pause) if is_whole else pause)
