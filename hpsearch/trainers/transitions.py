"""Transitions: what a role saw, did and got in one move.

Axes: P members, B games, N points, D coordinates, F numbers of an observation, T moves.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Transitions(NamedTuple):
    """What a role saw, did and got. A ``subset`` is the index of the host's choice.

    A truncated game is not done. What is learned from a rollout bootstraps from its next
    observation, which a replay buffer does not keep: it learns from no `last` move.
    """

    points: Tensor
    """int32 (P, B, N, D)"""
    observation: Tensor
    """float32 (P, B, F), of the points"""
    subset: Tensor
    """int64 (P, B): the host's action at ``points``"""
    action: Tensor
    """int64 (P, B): the role's own action"""
    reward: Tensor
    """float32 (P, B)"""
    next_points: Tensor
    """int32 (P, B, N, D)"""
    next_observation: Tensor
    """float32 (P, B, F)"""
    next_subset: Tensor
    """int64 (P, B): the host's action at ``next_points``, 0 where nobody asks for it"""
    done: Tensor
    """bool (P, B): the game is over"""
    truncated: Tensor
    """bool (P, B): the game was broken off"""
    last: Tensor
    """bool (P, B): no further move was allowed, whether this one ended the game or not"""


def stack(moves: Sequence[Transitions]) -> Transitions:
    """Return the moves of one role in time, each tensor (P, T, B, ...)."""
    return Transitions(*(torch.stack(parts, dim=1) for parts in zip(*moves, strict=True)))
