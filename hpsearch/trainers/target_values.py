"""What a target network values the actions at every position in memory, kept until it moves.

Where it moves seldom and each move is learned from often (both as in Mnih et al., Nature 518
(2015)), most passes of the target network would give what an earlier one gave. Axes: P members, R
places of a ring, B transitions, F numbers of an observation, A actions.
"""

from collections.abc import Callable, Collection

import torch
from torch import Tensor

from hpsearch.trainers.members import rows_of
from hpsearch.trainers.moves import Batch
from hpsearch.trainers.replay_buffer import ReplayBuffer

MOST_ROWS = 1024
"""of one pass, so that layers never hold a whole memory at once"""


def is_worth_it(
    num_places: int, num_added: int, intervals: Collection[int], num_drawn: int
) -> bool:
    """Return whether target networks pass at most half as many positions as for each batch.

    In a step a ring takes in ``num_added`` moves, and ``num_drawn`` are learned from. Whenever one
    of the members' ``intervals``, in steps, is over, all ``num_places`` are valued anew. Members
    whose steps or intervals come to differ later are valued more often.
    """
    times_a_step = sum(1 / interval for interval in set(intervals))
    return 2 * (num_places * times_a_step + num_added) <= num_drawn


class TargetValues:
    """Values of the positions in a replay buffer of one shard, 4 A bytes a place."""

    def __init__(
        self, buffer: ReplayBuffer, num_actions: int, values_of: Callable[[Tensor, Tensor], Tensor]
    ) -> None:
        """Keep what ``values_of`` says: (P, R, A) of observations (P, R, F) and subsets (P, R)."""
        self._buffer, self._values_of = buffer, values_of
        self._values = torch.zeros(len(buffer.added), buffer.num_places, num_actions)
        self._added: list[int] | None = None
        """of each member, the moves added when all was up to date; None where nothing is"""

    def forget(self) -> None:
        """Take note that the target network has moved, or that the memory is another one."""
        self._added = None

    def after(self, batch: Batch) -> Tensor:
        """Return the values float32 (P, B, A) of the positions that a batch's moves led to."""
        self._catch_up()
        return rows_of(self._values, batch.next_places)

    def _catch_up(self) -> None:
        """Value the moves that were added since, or all, where members differ in how many."""
        added, num_places = self._buffer.added, self._values.shape[1]
        now = added.tolist()
        if now == self._added:
            return
        num_new = self._num_new(now)
        oldest = (added - num_new)[:, None]
        for rows in torch.arange(num_new).split(MOST_ROWS):
            places = (oldest + rows) % num_places
            values = self._values_of(*self._buffer.positions(places))
            self._values.scatter_(1, places[..., None].expand(values.shape), values)
        self._added = now

    def _num_new(self, now: list[int]) -> int:
        """Return how many of each member's newest places are to be valued."""
        num_places = self._values.shape[1]
        if self._added is None:
            return num_places
        differences = [count - before for count, before in zip(now, self._added, strict=True)]
        is_usual = min(differences) == max(differences) and 0 <= differences[0] <= num_places
        return differences[0] if is_usual else num_places
