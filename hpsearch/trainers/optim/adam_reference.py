"""What Adam computes (Kingma and Ba, arXiv 1412.6980, algorithm 1).

With weight decay it is AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).
Axes: P members, W weights of one member.
"""

from typing import NamedTuple

from torch import Tensor

from hpsearch.trainers.optim.gradients import follow, scaled
from hpsearch.trainers.optim.interface import TargetWeights, Update


class Averages(NamedTuple):
    """What Adam remembers; changed in place."""

    mean: Tensor
    """float32 (P, W), moving average of the gradient"""
    square: Tensor
    """float32 (P, W), moving average of its square"""
    updates: Tensor
    """float32 (P, 1), updates made by each member"""


class Hyperparameters(NamedTuple):
    """What the configurations say, float32 (P, 1) each."""

    beta1: Tensor
    """decay of the average of the gradient"""
    beta2: Tensor
    """decay of the average of its square"""
    eps: Tensor
    weight_decay: Tensor
    """decoupled; 0 for Adam"""


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    hyperparameters: Hyperparameters,
    target: TargetWeights | None,
) -> None:
    """Make an update that has been counted already."""
    active, gradients = update.active[:, None], scaled(update)
    averages.mean.lerp_(gradients, (1 - hyperparameters.beta1) * active)
    averages.square.lerp_(gradients.square(), (1 - hyperparameters.beta2) * active)
    # An inactive member may never have been updated; 1 keeps its division finite.
    count = averages.updates.clamp(min=1)
    mean = averages.mean / (1 - hyperparameters.beta1**count)
    square = averages.square / (1 - hyperparameters.beta2**count)
    rate = update.lr[:, None] * active
    weights.mul_(1 - rate * hyperparameters.weight_decay)
    weights.sub_(rate * mean / (square.sqrt() + hyperparameters.eps))
    follow(target, weights)
