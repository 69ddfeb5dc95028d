"""What an optimizer is given, what every one does, and the formula of Adam.

Adam: Kingma and Ba, arXiv 1412.6980, algorithm 1; with weight decay it is AdamW, Loshchilov and
Hutter, arXiv 1711.05101, algorithm 2. Axes: P members, W weights of one member.
"""

from typing import NamedTuple, Protocol

import torch
from torch import Tensor


class Update(NamedTuple):
    gradients: Tensor  # float32 (P, W)
    scale: Tensor  # float32 (P,), what the gradients are multiplied by, from `clipping`
    lr: Tensor  # float32 (P,), learning rates
    active: Tensor  # bool (P,), whose weights move


class TargetWeights(NamedTuple):
    """The weights of a target network, which follow those that have just moved."""

    weights: Tensor  # float32 (P, W), changed in place
    tau: Tensor  # float32 (P,), the share of the way that they go (Polyak averaging); 0 leaves them


"""None where there is no target network"""


class Optimizer(Protocol):
    def step(self, weights: Tensor, update: Update, target: TargetWeights | None) -> None: ...

    def forget(self) -> None:
        """Begin with empty averages again."""
        ...

    def state(self) -> dict[str, Tensor]: ...

    def settings(self) -> dict[str, Tensor]: ...


def clipping(gradients: Tensor, max_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return factors (P,) that scale rows of (P, W) down to ``max_norm`` (P,), and their norms."""
    norm = torch.linalg.vector_norm(gradients, dim=1)
    return (max_norm / (norm + 1e-6)).clamp(max=1.0), norm


def scaled(update: Update) -> Tensor:
    """Return the gradients (P, W) times their factors, 0 for members that stand still.

    Not times 0: a gradient that overflowed would then be no number.
    """
    return (update.gradients * update.scale[:, None]).where(update.active[:, None], 0.0)


def follow(target: TargetWeights | None, weights: Tensor) -> None:
    """Move a target network's weights, if there is one, towards ``weights`` (P, W)."""
    if target is not None:
        target.weights.lerp_(weights, target.tau[:, None])


class Averages(NamedTuple):
    """What Adam remembers; changed in place."""

    mean: Tensor  # float32 (P, W), moving average of the gradient
    square: Tensor  # float32 (P, W), moving average of its square
    updates: Tensor  # float32 (P, 1), updates made by each member


class AdamOptions(NamedTuple):
    beta1: Tensor  # decay of the average of the gradient
    beta2: Tensor  # decay of the average of its square
    eps: Tensor
    weight_decay: Tensor  # decoupled; 0 for Adam


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    options: AdamOptions,
    target: TargetWeights | None,
) -> None:
    """Make an update that has been counted already."""
    active, gradients = update.active[:, None], scaled(update)
    averages.mean.lerp_(gradients, (1 - options.beta1) * active)
    averages.square.lerp_(gradients.square(), (1 - options.beta2) * active)
    # An inactive member may never have been updated; 1 keeps its division finite.
    count = averages.updates.clamp(min=1)
    mean = averages.mean / (1 - options.beta1**count)
    square = averages.square / (1 - options.beta2**count)
    rate = update.lr[:, None] * active
    weights.mul_(1 - rate * options.weight_decay)
    weights.sub_(rate * mean / (square.sqrt() + options.eps))
    follow(target, weights)
