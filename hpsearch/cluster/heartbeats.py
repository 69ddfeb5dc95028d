"""The signs of life that a job gives for each of its trials."""

import os
import socket
import time
from collections.abc import Iterable, Mapping

from hpsearch.cluster.member import Member
from hpsearch.cluster.messages import Heartbeat

HEARTBEAT_SECONDS = 2.0


class Heartbeats:
    """Gives signs of life."""

    def __init__(self) -> None:
        """Begin with the first one due at once."""
        self._next = 0.0

    @property
    def are_due(self) -> bool:
        """Whether the last ones are old enough."""
        return time.monotonic() >= self._next

    def give(
        self,
        members: Iterable[tuple[Member, int]],
        saved: Mapping[int, int],
        steps_per_second: float,
        *,
        is_busy: bool,
    ) -> None:
        """Write one for each member.

        Args:
            members: that train, and the step of each.
            saved: step of the newest checkpoint, by trial, of those that have one.
            steps_per_second: of all together.
            is_busy: whether what follows takes long and gives no sign of life between.

        Raises:
            DiskError: if one cannot be written.
        """
        self._next = time.monotonic() + HEARTBEAT_SECONDS
        now, host, pid = time.time(), socket.gethostname(), os.getpid()
        for member, step in members:
            newest = saved.get(member.assignment.trial, 0)
            beat = Heartbeat(now, step, newest, steps_per_second, host, pid, is_busy)
            member.attempt.write_heartbeat(beat)
