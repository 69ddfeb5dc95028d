"""Gradient descent with momentum."""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.trainers.columns import column
from hpsearch.trainers.config.optim import SGDArgs
from hpsearch.trainers.optim.gradients import follow, scaled
from hpsearch.trainers.optim.interface import TargetWeights, Update


class SGD:
    """Gradient descent with momentum, as torch.optim.SGD defines it.

    Attributes:
        velocity: float32 (P, W), sum of the past gradients, each update's times ``momentum``.
    """

    def __init__(self, weights: Tensor, args: Sequence[SGDArgs]) -> None:
        """Start without velocity for ``weights`` float32 (P, W)."""
        self._momentum = column([arg.momentum for arg in args], weights.device)[:, None]
        self._weight_decay = column([arg.weight_decay for arg in args], weights.device)[:, None]
        self.velocity = torch.zeros_like(weights)

    def step(self, weights: Tensor, update: Update, target: TargetWeights | None) -> None:
        """Move ``weights`` (P, W) in place, then the ``target``'s towards them."""
        active = update.active[:, None]
        velocity = self._momentum * self.velocity + scaled(update) + self._weight_decay * weights
        self.velocity.copy_(torch.where(active, velocity, self.velocity))
        weights.sub_(update.lr[:, None] * active * velocity)
        follow(target, weights)

    def forget(self) -> None:
        """Begin without velocity again."""
        self.velocity.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"velocity": self.velocity}

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {"momentum": self._momentum, "weight_decay": self._weight_decay}
