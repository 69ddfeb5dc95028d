"""Transitions: what a role saw, did and got in one move.

Axes: P members, B games (or transitions of a batch), N points, D coordinates, T moves.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor


class Transitions(NamedTuple):
    """What a role saw, did and got. A ``subset`` is the index of the host's choice.

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
    truncated: Tensor
    """bool (P, B): the game was broken off"""


def stack(moves: Sequence[Transitions]) -> Transitions:
    """Return the moves of one role in time, each tensor (P, T, B, ...)."""
    return Transitions(*(torch.stack(parts, dim=1) for parts in zip(*moves, strict=True)))
