"""The heartbeats that a job gives for its trials: one file for all of them."""

import os
import socket
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import JobHeartbeat, MemberHeartbeat, RankHeartbeat
from hpsearch.errors import DiskError

SHORTEST_SECONDS, LONGEST_SECONDS = 2.0, 60.0  # between two heartbeats of a job
FILES_PER_SECOND = 50  # that all jobs of a study may write together, up to the longest interval
BRIEF_SECONDS = 60.0  # work that has never taken longer is not announced as long


def seconds_between(num_jobs: int) -> float:
    """Return the seconds between two heartbeats of each of so many jobs."""
    return min(LONGEST_SECONDS, max(SHORTEST_SECONDS, num_jobs / FILES_PER_SECOND))


class Heartbeats:
    """Gives a job's heartbeats, at most one in an interval, but before and after long work.

    After an evaluation or the end of a trial it gives one at once: the driver looks into files only
    where a heartbeat has news.
    """

    def __init__(self, file: RecordFile[JobHeartbeat], seconds: float) -> None:
        self._file = file
        self._seconds = seconds
        self._next = 0.0
        self._said_busy = False
        self._busy_since: float | None = None
        self._longest_work: float | None = None
        """seconds that the longest work without a heartbeat took; None before any was measured"""
        self._members: dict[int, MemberHeartbeat] = {}  # by trial: what was last said of each
        self._ranks: tuple[RankHeartbeat, ...] = ()
        self._steps_per_second = 0.0

    def is_due(self, measured: Mapping[int, int], *, is_busy: bool) -> bool:
        """Return whether to give a heartbeat now, as before (``is_busy``) and after long work.

        ``measured`` are the steps of the last evaluations of those that train, by trial.
        """
        now = time.monotonic()
        has_news = measured != {number: own.measured for number, own in self._members.items()}
        if is_busy:
            self._busy_since = now if self._busy_since is None else self._busy_since
            return has_news or self._longest_work is None or self._longest_work > BRIEF_SECONDS
        if self._busy_since is not None:
            self._longest_work = max(self._longest_work or 0.0, now - self._busy_since)
            self._busy_since = None
        is_time = self._said_busy or now >= self._next
        return has_news or (is_time and bool(measured))

    def give(
        self,
        members: Iterable[MemberHeartbeat],
        ranks: Sequence[RankHeartbeat],
        steps_per_second: float,
        *,
        is_busy: bool,
    ) -> None:
        """Give a heartbeat for all that train, or raise DiskError."""
        self._members = {member.trial: member for member in members}
        self._ranks = tuple(ranks)
        self._steps_per_second = steps_per_second
        self._write(is_busy=is_busy)

    def announce(self, members: Iterable[MemberHeartbeat]) -> None:
        """Give a heartbeat for more trials, else the driver would believe that they never began."""
        self._members |= {member.trial: member for member in members}
        self._write(is_busy=True)

    def give_last(self) -> None:
        """Say of those that train as before, but without a word of news, once the job may end.

        The driver then looks into their files until the job is gone: other jobs may share its
        task of the scheduler, and go on for hours.
        """
        self._members = {n: replace(own, measured=None) for n, own in self._members.items()}
        with suppress(DiskError):
            self._write(is_busy=False)

    @contextmanager
    def until_left(self) -> Iterator[None]:
        """Say at the end of the block, also after an error, that the job takes no more trials."""
        try:
            yield
        except Exception:
            self._leave()
            raise
        self._leave()

    def _leave(self) -> None:
        with suppress(DiskError):
            self._write(is_busy=False, has_left=True)

    def _write(self, *, is_busy: bool, has_left: bool = False) -> None:
        self._next = time.monotonic() + self._seconds
        self._said_busy = is_busy
        members, speed = tuple(self._members.values()), self._steps_per_second
        host, pid = socket.gethostname(), os.getpid()
        beat = JobHeartbeat(time.time(), host, pid, is_busy, speed, members, self._ranks, has_left)
        self._file.replace(beat)
