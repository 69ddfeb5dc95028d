"""Rewards by name.

A reward is a function of (points int32 (..., N, D), next_points int32 (..., N, D), done bool
(...)) to the host's reward float32 (...). The agent's is the negative: the game has zero sum.

These functions are the definition. A step computes the same numbers, in the backends' own code.
"""

from collections.abc import Callable
from typing import Final

import torch
from torch import Tensor

from hpsearch.game.rules import is_live

Reward = Callable[[Tensor, Tensor, Tensor], Tensor]


def terminal(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    """Give the host 1 for the finishing move, otherwise 0."""
    return done.to(torch.float32)


def step_penalty(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    """Take 1 from the host for every move."""
    return -torch.ones_like(done, dtype=torch.float32)


def points_removed(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    """Give the host the number of points that the move removed, divided by N."""
    removed = is_live(points).sum(-1) - is_live(next_points).sum(-1)
    # By a tensor: of a number a GPU would take the reciprocal, and round twice.
    return removed.to(torch.float32) / torch.full_like(removed, points.shape[-2])


REWARDS: Final[dict[str, Reward]] = {
    "terminal": terminal,
    "step_penalty": step_penalty,
    "points_removed": points_removed,
}


def reward_function(name: str) -> Reward:
    """Return the reward of that name; a ValueError lists the names there are."""
    if name not in REWARDS:
        raise ValueError(f"a reward must be one of {sorted(REWARDS)}, got {name!r}")
    return REWARDS[name]
