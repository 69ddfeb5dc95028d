"""The replay buffer: a ring of transitions for each member, on one device.

Axes: P members, C places of the ring, G games written at once, B transitions of a batch, N points,
D coordinates.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.game.philox import Stream
from hpsearch.trainers import config as configs
from hpsearch.trainers.priorities import Priorities
from hpsearch.trainers.transitions import Transitions


class Batch(NamedTuple):
    """Transitions to learn from; reward and next position are those of n moves."""

    transitions: Transitions
    discount: Tensor
    """float32 (P, B): gamma to the number of moves, what the next position's value counts"""
    weight: Tensor
    """float32 (P, B): corrects for how often a transition is drawn; 1 where all are alike"""
    places: Tensor
    """int64 (P, B): where the first moves lie in the ring"""


class ReplayBuffer:
    """The last C transitions of each of P members."""

    def __init__(
        self,
        num_points: int,
        dimension: int,
        num_games: int,
        options: Sequence[configs.ReplayBuffer],
        stream: Stream,
    ) -> None:
        """Make room for the transitions of one member for each of ``options``.

        ``num_games`` G transitions, one a game, are added at a time; ``stream`` draws.
        """
        self.size = options[0].buffer_size
        self._num_games = num_games
        self._stream = stream
        device = stream.keys.device
        places = (len(options), self.size)
        state = (*places, num_points, dimension)
        self._rings = Transitions(
            points=torch.full(state, -1, dtype=torch.int32, device=device),
            subset=torch.zeros(places, dtype=torch.int64, device=device),
            action=torch.zeros(places, dtype=torch.int64, device=device),
            reward=torch.zeros(places, dtype=torch.float32, device=device),
            next_points=torch.full(state, -1, dtype=torch.int32, device=device),
            next_subset=torch.zeros(places, dtype=torch.int64, device=device),
            done=torch.zeros(places, dtype=torch.bool, device=device),
            truncated=torch.zeros(places, dtype=torch.bool, device=device),
        )
        self._first_places = torch.arange(len(options), device=device)[:, None] * self.size
        self.added = torch.zeros(len(options), dtype=torch.int64, device=device)
        prioritised = [one.prioritised for one in options if one.prioritised is not None]
        self._priorities = Priorities(self.size, prioritised, device) if prioritised else None

    def add(self, transitions: Transitions) -> None:
        """Write the newest transition of every game over the oldest ones."""
        offsets = torch.arange(self._num_games, device=self.added.device)
        places = (self.added[:, None] + offsets) % self.size
        for ring, rows in zip(self._rings, transitions, strict=True):
            flat_places = (self._first_places + places).flatten()
            ring.flatten(0, 1).index_copy_(0, flat_places, rows.flatten(0, 1))
        if self._priorities is not None:
            self._priorities.add(places)
        self.added += self._num_games

    def sample(self, batch_size: int, n_step: int, gamma: Tensor, step: Tensor) -> Batch:
        """Return ``batch_size`` transitions of each member, drawn by its own stream.

        Args:
            batch_size: B.
            n_step: moves that a reward sums at most; fewer where a game or the memory ends.
            gamma: float32 (P,), discount a move.
            step: int64 (P,), training steps made, by which the correction of priorities grows.
        """
        noise = self._stream.uniform(batch_size).double()
        filled = self.added.clamp(max=self.size)[:, None]
        if self._priorities is None:
            places, weight = (noise * filled).long(), torch.ones_like(noise, dtype=torch.float32)
        else:
            places, weight = self._priorities.sample(noise, filled, step)
        last, reward, discount = self._sum_rewards(places, n_step, gamma[:, None])
        rings = self._rings
        transitions = Transitions(
            points=self._rows(rings.points, places),
            subset=self._rows(rings.subset, places),
            action=self._rows(rings.action, places),
            reward=reward,
            next_points=self._rows(rings.next_points, last),
            next_subset=self._rows(rings.next_subset, last),
            done=self._rows(rings.done, last),
            truncated=self._rows(rings.truncated, last),
        )
        return Batch(transitions, discount, weight, places)

    def reprioritise(self, places: Tensor, errors: Tensor) -> None:
        """Say how large the errors (P, B) of transitions at ``places`` (P, B) are now."""
        if self._priorities is not None:
            self._priorities.update(places, errors)

    def _sum_rewards(
        self, places: Tensor, n_step: int, gamma: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the last of up to n moves lies, their discounted reward, and gamma^n.

        A game's next move was written G places later; what lies there may already be an older one.
        """
        last, reward = places, self._rows(self._rings.reward, places)
        discount = gamma.expand_as(reward)
        going = torch.ones_like(places, dtype=torch.bool)
        age = (self.added[:, None] - 1 - places) % self.size
        for move in range(1, n_step):
            ended = self._rows(self._rings.done, last) | self._rows(self._rings.truncated, last)
            going = going & ~ended & (age >= move * self._num_games)
            last = torch.where(going, (places + move * self._num_games) % self.size, last)
            reward = reward + going * discount * self._rows(self._rings.reward, last)
            discount = torch.where(going, discount * gamma, discount)
        return last, reward, discount

    def _rows(self, ring: Tensor, places: Tensor) -> Tensor:
        """Return what lies at ``places`` (P, B) of a ring (P, C, ...)."""
        rows = ring.flatten(0, 1).index_select(0, (self._first_places + places).flatten())
        found: Tensor = rows.unflatten(0, places.shape)
        return found

    def forget(self) -> None:
        """Begin empty again."""
        self.added.zero_()
        if self._priorities is not None:
            self._priorities.forget()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        own = {"added": self.added, "counters": self._stream.counters, **self._rings._asdict()}
        return own | ({} if self._priorities is None else self._priorities.state())

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        priorities = {} if self._priorities is None else self._priorities.settings()
        return {"keys": self._stream.keys, **priorities}
