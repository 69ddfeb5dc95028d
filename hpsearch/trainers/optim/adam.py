"""Adam for a bank of weights: one pass over it, whatever the device.

Gradient descent with momentum.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from hpsearch.game.kernels import default_backend
from hpsearch.trainers.config.optim import AdamArgs, AdamWArgs, SGDArgs
from hpsearch.trainers.members import column
from hpsearch.trainers.optim import adam_cpu, adam_cuda, reference
from hpsearch.trainers.optim.reference import (
    Averages,
    Hyperparameters,
    TargetWeights,
    Update,
    follow,
    scaled,
)

PASSES = {"reference": reference.adam, "cpu": adam_cpu.adam, "cuda": adam_cuda.adam}
"""by the name of the game's backend for a device; all compute what the reference does"""


class Adam:
    """Adam of P members, each with numbers of its own."""

    def __init__(self, weights: Tensor, args: Sequence[AdamArgs]) -> None:
        """Start with empty averages for ``weights`` float32 (P, W)."""
        device = weights.device
        decays = [arg.weight_decay if isinstance(arg, AdamWArgs) else 0.0 for arg in args]
        self._hyperparameters = Hyperparameters(
            column([arg.beta1 for arg in args], device)[:, None],
            column([arg.beta2 for arg in args], device)[:, None],
            column([arg.eps for arg in args], device)[:, None],
            column(decays, device)[:, None],
        )
        updates = torch.zeros(weights.shape[0], 1, device=device)
        self.averages = Averages(torch.zeros_like(weights), torch.zeros_like(weights), updates)
        self._pass = PASSES[default_backend(device)]

    def step(self, weights: Tensor, update: Update, target: TargetWeights | None) -> None:
        """Move ``weights`` (P, W) in place, then the ``target``'s towards them."""
        self.averages.updates.add_(update.active[:, None])
        self._pass(weights, update, self.averages, self._hyperparameters, target)

    def forget(self) -> None:
        """Begin with empty averages again."""
        for tensor in self.averages:
            tensor.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return self.averages._asdict()

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return self._hyperparameters._asdict()


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
