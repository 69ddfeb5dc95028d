"""What an optimizer is given, and what it does with it.

Axes: P members, W weights of one member.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Update(NamedTuple):
    """One update of every member."""

    gradients: Tensor
    """float32 (P, W)"""
    scale: Tensor
    """float32 (P,), what the gradients are multiplied by, from `clipping`"""
    lr: Tensor
    """float32 (P,), learning rates"""
    active: Tensor
    """bool (P,), whose weights move"""


class Follower(NamedTuple):
    """Weights that go a share of the way to those that have just moved."""

    weights: Tensor
    """float32 (P, W), changed in place"""
    share: Tensor
    """float32 (P,); 0 leaves a member's as they are"""


class Optimizer(Protocol):
    """Moves a bank of weights along a gradient."""

    def step(self, weights: Tensor, update: Update, follower: Follower | None) -> None:
        """Move ``weights`` (P, W) in place, then the ``follower``'s towards them."""
        ...

    def forget(self) -> None:
        """Begin with empty averages again."""
        ...

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        ...

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        ...


def clipping(gradients: Tensor, max_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return what scales each row of ``gradients`` (P, W) down to at most ``max_norm`` (P,).

    Returns:
        the factors (P,) and the norms (P,) of the rows as they are.
    """
    norm = torch.linalg.vector_norm(gradients, dim=1)
    scale: Tensor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return scale, norm


def follow(weights: Tensor, follower: Follower | None) -> None:
    """Move a follower, if there is one, towards ``weights`` (P, W)."""
    if follower is not None:
        follower.weights.lerp_(weights, follower.share[:, None])


def scaled(update: Update) -> Tensor:
    """Return the gradients (P, W) times their factors, 0 for members that stand still.

    Not times 0: a gradient that overflowed would then be no number.
    """
    return (update.gradients * update.scale[:, None]).where(update.active[:, None], 0.0)
