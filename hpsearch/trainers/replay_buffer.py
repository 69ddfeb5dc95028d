"""The replay buffer: a ring of moves for each member, on one device.

Each position is stored once: that to which a move led is the one of the same game's next move, G
places further on. A move can therefore be drawn as soon as the next one has been made. Nothing is
known of what comes after the last move that a game is allowed, so none is learned from the last
one; not even if it ended the game, or else nobody would learn of those that did not.

Axes: P members, C moves to draw from, G games written at once, R = C + G places of the ring,
B transitions of a batch, N points, D coordinates, F numbers of an observation.
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
    """What to learn from: moves, and where each led after up to n of them."""

    points: Tensor
    """int32 (P, B, N, D), no rows of it where the buffer does not keep points"""
    observation: Tensor
    """float32 (P, B, F)"""
    subset: Tensor
    """int64 (P, B): the host's action"""
    action: Tensor
    """int64 (P, B): the role's own action"""
    reward: Tensor
    """float32 (P, B), of n moves, discounted"""
    next_observation: Tensor
    """float32 (P, B, F), after n moves"""
    next_subset: Tensor
    """int64 (P, B): the host's action there"""
    discount: Tensor
    """float32 (P, B): what the next position's value counts, 0 where the game is over"""
    weight: Tensor
    """float32 (P, B): corrects for how often a move is drawn; 1 where all are alike"""
    known: Tensor
    """bool (P, B): whether what is next is stored, or counts for nothing by a gamma of 0; it is not
    stored after the last move that a game is allowed"""
    places: Tensor
    """int64 (P, B): where the first moves lie in the ring"""


class _Rings(NamedTuple):
    """What is stored of each move, (P, R, ...) as in `Transitions`."""

    points: Tensor
    observation: Tensor
    subset: Tensor
    action: Tensor
    reward: Tensor
    done: Tensor
    last: Tensor


class ReplayBuffer:
    """The last C moves of each of P members whose next move has been made too."""

    def __init__(
        self,
        observation_size: int,
        points_shape: tuple[int, int],
        num_games: int,
        options: Sequence[configs.ReplayBuffer],
        stream: Stream,
    ) -> None:
        """Make room for the moves of one member for each of ``options``.

        Args:
            observation_size: F; longer observations are cut off there.
            points_shape: (N, D), or (0, D) where nobody asks for points.
            num_games: G moves, one a game, are added at a time.
            options: what the configurations say.
            stream: draws.
        """
        self.size = options[0].buffer_size
        self._num_games = num_games
        self._num_places = self.size + num_games
        self._stream = stream
        device = stream.keys.device
        places = (len(options), self._num_places)
        self._rings = _Rings(
            points=torch.full((*places, *points_shape), -1, dtype=torch.int32, device=device),
            observation=torch.zeros(*places, observation_size, device=device),
            subset=torch.zeros(places, dtype=torch.int64, device=device),
            action=torch.zeros(places, dtype=torch.int64, device=device),
            reward=torch.zeros(places, device=device),
            done=torch.zeros(places, dtype=torch.bool, device=device),
            last=torch.zeros(places, dtype=torch.bool, device=device),
        )
        self._first_places = torch.arange(len(options), device=device)[:, None] * self._num_places
        self._games = torch.arange(num_games, device=device)
        self.added = torch.zeros(len(options), dtype=torch.int64, device=device)
        prioritised = [one.prioritised for one in options if one.prioritised is not None]
        self._priorities = (
            Priorities(self._num_places, prioritised, device) if prioritised else None
        )

    @property
    def filled(self) -> Tensor:
        """Return how many moves can be drawn, int64 (P,)."""
        return (self.added - self._num_games).clamp(0, self.size)

    def add(self, seen: Transitions) -> None:
        """Write the newest move of every game over the oldest ones."""
        places = (self.added[:, None] + self._games) % self._num_places
        flat = (self._first_places + places).flatten()
        num_rows, size = self._rings.points.shape[2], self._rings.observation.shape[2]
        moves = _Rings(
            seen.points[:, :, :num_rows],
            seen.observation[..., :size],
            *(seen.subset, seen.action, seen.reward, seen.done, seen.last),
        )
        for ring, rows in zip(self._rings, moves, strict=True):
            ring.flatten(0, 1).index_copy_(0, flat, rows.flatten(0, 1))
        if self._priorities is not None:
            complete = (places - self._num_games) % self._num_places
            self._priorities.add(places, complete, self.added > 0)
        self.added += self._num_games

    def sample(self, batch_size: int, n_step: int, gamma: Tensor, step: Tensor) -> Batch:
        """Return ``batch_size`` transitions of each member, drawn by its own stream.

        While there is nothing to draw, what is returned means nothing.

        Args:
            batch_size: B.
            n_step: moves that a reward sums at most; fewer where a game or the memory ends.
            gamma: float32 (P,), discount a move.
            step: int64 (P,), training steps made, by which the correction of priorities grows.
        """
        noise, filled = self._stream.uniform(batch_size).double(), self.filled[:, None]
        if self._priorities is None:
            oldest = self.added[:, None] - self._num_games - filled
            places = (oldest + (noise * filled).long()) % self._num_places
            weight = torch.ones_like(noise, dtype=torch.float32)
        else:
            places, weight = self._priorities.sample(noise, filled, step)
        last, reward, discount = self._sum_rewards(places, n_step, gamma[:, None])
        ends, after = self._flat(last), self._flat(last + self._num_games)
        first, rings = self._flat(places), self._rings
        return Batch(
            points=_rows(rings.points, first),
            observation=_rows(rings.observation, first),
            subset=_rows(rings.subset, first),
            action=_rows(rings.action, first),
            reward=reward,
            next_observation=_rows(rings.observation, after),
            next_subset=_rows(rings.subset, after),
            discount=discount * ~_rows(rings.done, ends),
            weight=weight,
            known=~_rows(rings.last, first) | (gamma[:, None] == 0),
            places=places,
        )

    def reprioritise(self, places: Tensor, errors: Tensor) -> None:
        """Say how large the errors (P, B) of transitions at ``places`` (P, B) are now."""
        if self._priorities is not None:
            self._priorities.update(places, errors)

    def _sum_rewards(
        self, places: Tensor, n_step: int, gamma: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return where the last of up to n moves lies, their discounted reward, and gamma^n.

        The sum ends with a game, and before a move after which nothing is known.
        """
        last, flat = places, self._flat(places)
        reward, discount = _rows(self._rings.reward, flat), gamma.expand(places.shape)
        going = torch.ones_like(places, dtype=torch.bool)
        age = (self.added[:, None] - 1 - places) % self._num_places
        for move in range(1, n_step):
            ended = _rows(self._rings.done, flat) | _rows(self._rings.last, flat)
            further = self._flat(last + self._num_games)
            is_known = age >= (move + 1) * self._num_games
            going = going & ~ended & is_known & ~_rows(self._rings.last, further)
            last = torch.where(going, (last + self._num_games) % self._num_places, last)
            flat = self._flat(last)
            reward = reward + going * discount * _rows(self._rings.reward, flat)
            discount = torch.where(going, discount * gamma, discount)
        return last, reward, discount

    def _flat(self, places: Tensor) -> Tensor:
        """Return ``places`` (P, B), wrapped around, as places among those of all members."""
        return self._first_places + places % self._num_places

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


def _rows(ring: Tensor, flat: Tensor) -> Tensor:
    """Return what lies at ``flat`` (P, B) of a ring (P, R, ...)."""
    rows: Tensor = ring.flatten(0, 1).index_select(0, flat.flatten()).unflatten(0, flat.shape)
    return rows
