"""What every optimizer's formula begins and ends with.

Axes: P members, W weights of one member.
"""

import torch
from torch import Tensor

from hpsearch.trainers.optim.interface import TargetWeights, Update


def clipping(gradients: Tensor, max_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return what scales each row of ``gradients`` (P, W) down to at most ``max_norm`` (P,).

    Returns:
        the factors (P,) and the norms (P,) of the rows as they are.
    """
    norm = torch.linalg.vector_norm(gradients, dim=1)
    scale: Tensor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return scale, norm


def scaled(update: Update) -> Tensor:
    """Return the gradients (P, W) times their factors, 0 for members that stand still.

    Not times 0: a gradient that overflowed would then be no number.
    """
    return (update.gradients * update.scale[:, None]).where(update.active[:, None], 0.0)


def follow(target: TargetWeights | None, weights: Tensor) -> None:
    """Move a target network's weights, if there is one, towards ``weights`` (P, W)."""
    if target is not None:
        target.weights.lerp_(weights, target.tau[:, None])
