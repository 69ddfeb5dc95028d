"""Optimizers over a bank of weights: every member with its own numbers, one pass for all.

Axes: P members, W weights of one member. Learning rates come with each `Update`. Members that are
not active keep their weights and averages.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from hpsearch.game.kernels import default_backend
from hpsearch.trainers.config.optim import AdamArgs, AdamWArgs, Optim, SGDArgs
from hpsearch.trainers.members import column
from hpsearch.trainers.optim import adam_cpu, reference
from hpsearch.trainers.optim.reference import Optimizer, TargetWeights, Update, clipping

__all__ = ["SGD", "Adam", "Optimizer", "TargetWeights", "Update", "build_optimizer", "clipping"]


def _adam_cuda(*args: Any) -> None:
    from hpsearch.trainers.optim import adam_cuda  # which imports triton

    adam_cuda.adam(*args)


PASSES = {"reference": reference.adam, "cpu": adam_cpu.adam, "cuda": _adam_cuda}
"""by the name of the game's backend for a device; all compute what the reference does"""


class Adam:
    def __init__(self, weights: Tensor, args: Sequence[AdamArgs]) -> None:
        device = weights.device
        decays = [arg.weight_decay if isinstance(arg, AdamWArgs) else 0.0 for arg in args]
        self._hyperparameters = reference.AdamOptions(
            column([arg.beta1 for arg in args], device)[:, None],
            column([arg.beta2 for arg in args], device)[:, None],
            column([arg.eps for arg in args], device)[:, None],
            column(decays, device)[:, None],
        )
        updates = torch.zeros(weights.shape[0], 1, device=device)
        zeros = torch.zeros_like(weights)
        self.averages = reference.Averages(zeros, zeros.clone(), updates)
        self._pass = PASSES[default_backend(device)]

    def step(self, weights: Tensor, update: Update, target: reference.TargetWeights | None) -> None:
        self.averages.updates.add_(update.active[:, None])
        self._pass(weights, update, self.averages, self._hyperparameters, target)

    def forget(self) -> None:
        for tensor in self.averages:
            tensor.zero_()

    def state(self) -> dict[str, Tensor]:
        return self.averages._asdict()

    def settings(self) -> dict[str, Tensor]:
        return self._hyperparameters._asdict()


class SGD:
    """Gradient descent with momentum, as torch.optim.SGD defines it."""

    def __init__(self, weights: Tensor, args: Sequence[SGDArgs]) -> None:
        self._momentum = column([arg.momentum for arg in args], weights.device)[:, None]
        self._weight_decay = column([arg.weight_decay for arg in args], weights.device)[:, None]
        # float32 (P, W), sum of the past gradients, each update's times ``momentum``
        self.velocity = torch.zeros_like(weights)

    def step(self, weights: Tensor, update: Update, target: reference.TargetWeights | None) -> None:
        active, gradients = update.active[:, None], reference.scaled(update)
        velocity = self._momentum * self.velocity + gradients + self._weight_decay * weights
        self.velocity.copy_(torch.where(active, velocity, self.velocity))
        weights.sub_(update.lr[:, None] * active * velocity)
        reference.follow(target, weights)

    def forget(self) -> None:
        self.velocity.zero_()

    def state(self) -> dict[str, Tensor]:
        return {"velocity": self.velocity}

    def settings(self) -> dict[str, Tensor]:
        return {"momentum": self._momentum, "weight_decay": self._weight_decay}


def build_optimizer(weights: Tensor, optims: Sequence[Optim]) -> Optimizer:
    """Return a fresh optimizer of ``weights`` (P, W), one configuration of one kind a member."""
    args = [optim.args for optim in optims]
    adam = [arg for arg in args if isinstance(arg, AdamArgs)]
    if adam:
        return Adam(weights, adam)
    return SGD(weights, [arg for arg in args if isinstance(arg, SGDArgs)])
