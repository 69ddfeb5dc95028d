"""Optimizers over a bank of weights: every member with its own numbers, one pass for all.

Axes: P members, W weights of one member. An update is clipped to each member's norm first; members
whose ``active`` bool (P,) is false keep their weights and averages.
"""

from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor

from hpsearch.trainers.columns import column
from hpsearch.trainers.config.optim import AdamArgs, AdamWArgs, Optim, SGDArgs


class Optimizer(Protocol):
    """Moves a bank of weights along a gradient."""

    def step(self, weights: Tensor, gradients: Tensor, lr: Tensor, active: Tensor) -> None:
        """Move ``weights`` (P, W) in place by one update with learning rates ``lr`` (P,)."""
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


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1).

    With weight decay it is AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2).

    Attributes:
        mean, square: float32 (P, W), moving averages of the gradient and of its square.
        count: float32 (P, 1), updates made by each member.
    """

    def __init__(self, weights: Tensor, args: Sequence[AdamArgs]) -> None:
        """Start with empty averages for ``weights`` float32 (P, W)."""
        device = weights.device
        self._beta1 = column([arg.beta1 for arg in args], device)[:, None]
        self._beta2 = column([arg.beta2 for arg in args], device)[:, None]
        self._eps = column([arg.eps for arg in args], device)[:, None]
        decays = [arg.weight_decay if isinstance(arg, AdamWArgs) else 0.0 for arg in args]
        self._weight_decay = column(decays, device)[:, None]
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)
        self.count = torch.zeros(weights.shape[0], 1, device=device)

    def step(self, weights: Tensor, gradients: Tensor, lr: Tensor, active: Tensor) -> None:
        """Move ``weights`` (P, W) in place by one update with learning rates ``lr`` (P,)."""
        active = active[:, None]
        gradients = _of_active(gradients, active)
        self.count += active
        self.mean.lerp_(gradients, (1 - self._beta1) * active)
        self.square.lerp_(gradients.square(), (1 - self._beta2) * active)
        # An inactive member may never have been updated; 1 keeps its division finite.
        count = self.count.clamp(min=1)
        mean = self.mean / (1 - self._beta1**count)
        square = self.square / (1 - self._beta2**count)
        rate = lr[:, None] * active
        weights.mul_(1 - rate * self._weight_decay)
        weights.sub_(rate * mean / (square.sqrt() + self._eps))

    def forget(self) -> None:
        """Begin with empty averages again."""
        for tensor in self.state().values():
            tensor.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"mean": self.mean, "square": self.square, "count": self.count}

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {
            "beta1": self._beta1,
            "beta2": self._beta2,
            "eps": self._eps,
            "weight_decay": self._weight_decay,
        }


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

    def step(self, weights: Tensor, gradients: Tensor, lr: Tensor, active: Tensor) -> None:
        """Move ``weights`` (P, W) in place by one update with learning rates ``lr`` (P,)."""
        active = active[:, None]
        gradients = _of_active(gradients, active)
        velocity = self._momentum * self.velocity + gradients + self._weight_decay * weights
        self.velocity.copy_(torch.where(active, velocity, self.velocity))
        weights.sub_(lr[:, None] * active * velocity)

    def forget(self) -> None:
        """Begin without velocity again."""
        self.velocity.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"velocity": self.velocity}

    def settings(self) -> dict[str, Tensor]:
        """Return what the configurations say, each with the member axis first."""
        return {"momentum": self._momentum, "weight_decay": self._weight_decay}


def build_optimizer(weights: Tensor, optims: Sequence[Optim]) -> Optimizer:
    """Return a fresh optimizer of ``weights`` (P, W), one configuration of one kind a member."""
    args = [optim.args for optim in optims]
    adam = [arg for arg in args if isinstance(arg, AdamArgs)]
    if adam:
        return Adam(weights, adam)
    return SGD(weights, [arg for arg in args if isinstance(arg, SGDArgs)])


def clip_norm(gradients: Tensor, max_norm: Tensor) -> tuple[Tensor, Tensor]:
    """Return each row of ``gradients`` (P, W) scaled down to at most ``max_norm`` (P,).

    Returns:
        the scaled gradients and the norms (P,) that they had.
    """
    norm = torch.linalg.vector_norm(gradients, dim=1)
    scale: Tensor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return gradients * scale[:, None], norm


def _of_active(gradients: Tensor, active: Tensor) -> Tensor:
    """Return 0 for members that stand still: times 0 a gradient that overflowed is no number."""
    return gradients.where(active, 0.0)
