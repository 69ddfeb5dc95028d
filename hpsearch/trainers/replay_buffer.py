"""The replay buffer: a ring of transitions for each member, on one device.

Axes: P members, C places of the ring, B transitions, N points, D coordinates.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.game.philox import Stream


class Transitions(NamedTuple):
    """What a role saw, did and got. ``subset`` index is the host's choice that an agent sees.

    A truncated game is not done: its value bootstraps from ``next_points``.
    """

    points: Tensor
    """int32 (P, B, N, D)"""
    subset: Tensor
    """int64 (P, B): the host's action at ``points``"""
    action: Tensor
    """int64 (P, B): the role's own action"""
    reward: Tensor
    """float32 (P, B)"""
    next_points: Tensor
    """int32 (P, B, N, D)"""
    next_subset: Tensor
    """int64 (P, B): the host's action at ``next_points``, 0 where the role is the host"""
    done: Tensor
    """bool (P, B): the game is over"""


class ReplayBuffer:
    """The last C transitions of each of P members, sampled uniformly with replacement."""

    def __init__(
        self, num_members: int, size: int, num_points: int, dimension: int, device: torch.device
    ) -> None:
        """Make room for ``size`` transitions a member."""
        self.size = size
        places = (num_members, size)
        state = (*places, num_points, dimension)
        self._rings = Transitions(
            points=torch.full(state, -1, dtype=torch.int32, device=device),
            subset=torch.zeros(places, dtype=torch.int64, device=device),
            action=torch.zeros(places, dtype=torch.int64, device=device),
            reward=torch.zeros(places, dtype=torch.float32, device=device),
            next_points=torch.full(state, -1, dtype=torch.int32, device=device),
            next_subset=torch.zeros(places, dtype=torch.int64, device=device),
            done=torch.zeros(places, dtype=torch.bool, device=device),
        )
        self._first_places = torch.arange(num_members, device=device)[:, None] * size
        self.added = torch.zeros(num_members, dtype=torch.int64, device=device)

    def add(self, transitions: Transitions) -> None:
        """Write the B newest transitions over the oldest ones; B is at most ``size``."""
        num_new = transitions.action.shape[1]
        offsets = torch.arange(num_new, device=self.added.device)
        places = self._first_places + (self.added[:, None] + offsets) % self.size
        for ring, rows in zip(self._rings, transitions, strict=True):
            ring.flatten(0, 1).index_copy_(0, places.flatten(), rows.flatten(0, 1))
        self.added += num_new

    def sample(self, batch_size: int, stream: Stream) -> Transitions:
        """Return ``batch_size`` transitions of each member, drawn by its own stream."""
        filled = self.added.clamp(max=self.size)[:, None]
        drawn = (stream.uniform(batch_size).double() * filled).long()
        places = (self._first_places + drawn).flatten()
        rows = (ring.flatten(0, 1).index_select(0, places) for ring in self._rings)
        return Transitions(*(row.unflatten(0, drawn.shape) for row in rows))

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"added": self.added, **self._rings._asdict()}
