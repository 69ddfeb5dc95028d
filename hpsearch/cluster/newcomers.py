"""How trials that a job is given while it trains come to sit among the others.

A newcomer takes a free row and begins where it is measured together with the others ever after: a
fresh one where they are measured, at once where nobody trains. The others notice nothing.
"""

import time

from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.keeper import Keeper
from hpsearch.cluster.member import Member
from hpsearch.cluster.resuming import first_step, go_on
from hpsearch.cluster.slots import Slots
from hpsearch.cluster.supply import Supply, steps_until_next, steps_until_together
from hpsearch.trainers.config import shape_key

LOOK_SECONDS = 0.5
"""at least between two looks for more trials"""


class Newcomers:
    """Lets the trials of a supply take free rows."""

    def __init__(
        self, supply: Supply | None, slots: Slots, keeper: Keeper, heartbeats: Heartbeats
    ) -> None:
        """Take where they come from, None if none will come, and where they go."""
        self._supply = supply
        self._slots = slots
        self._keeper = keeper
        self._heartbeats = heartbeats
        self._next_look = 0.0

    @property
    def will_come(self) -> bool:
        """Whether a free row may still be needed."""
        return self._supply is not None and not self._supply.is_over

    def look(self) -> None:
        """See what was given, if it is time."""
        if self._supply is not None and time.monotonic() >= self._next_look:
            self._supply.look()
            self._next_look = time.monotonic() + LOOK_SECONDS

    def steps_until_due(self) -> int | None:
        """Return after how many steps one of those who wait may begin, None if none may."""
        oldest = self._slots.oldest_step
        if self._supply is None or oldest is None or not self._slots.free:
            return None
        firsts = map(first_step, self._supply.waiting_with(self._shape))
        return steps_until_next(oldest, firsts, self._interval)

    def seat(self) -> bool:
        """Let all begin who may and for whom there is a row; return whether there were any."""
        seated, oldest = 0, self._slots.oldest_step
        while self._supply is not None and self._slots.free:
            member = self._supply.take_one(
                self._shape, lambda one: self._steps_until_seat(oldest, one) == 0
            )
            if member is None:
                break
            self._begin(member)
            seated += 1
        if seated:
            self._slots.read_steps()
        return seated > 0

    def _begin(self, member: Member) -> None:
        """Let one begin; what is wrong with it alone ends no other."""
        # The driver takes one without a sign of life for one that never began.
        self._heartbeats.announce([(member.assignment, 0)])
        row = self._slots.seat(member)
        begun = go_on(self._slots.trainer, {row: member}, in_step=False)
        self._keeper.note(begun.saved)
        for error in begun.errors.values():
            print(error, flush=True)
            member.fail(error, step=0)
            self._slots.leave([row])

    def _steps_until_seat(self, oldest: int | None, member: Member) -> int:
        """Return after how many steps of the oldest one that waits may begin."""
        if oldest is None:
            return 0
        return steps_until_together(oldest, first_step(member), self._interval)

    @property
    def _shape(self) -> str:
        return shape_key(self._slots.trainer.config)

    @property
    def _interval(self) -> int:
        interval: int = self._slots.trainer.config.evaluation.interval
        return interval
