"""Optimizers over a bank of weights: every member with its own numbers, one pass for all.

Axes: P members, W weights of one member.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class AdamNumbers:
    """The numbers of Adam, each float32 (P, 1)."""

    beta1: Tensor
    beta2: Tensor
    eps: Tensor
    max_grad_norm: Tensor


class Adam:
    """Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1) after clipping each member's gradient.

    Attributes:
        mean, square: float32 (P, W), moving averages of the gradient and of its square.
        count: float32 (P, 1), updates made by each member.
    """

    def __init__(self, weights: Tensor, numbers: AdamNumbers) -> None:
        """Start with empty averages for ``weights`` float32 (P, W)."""
        self._numbers = numbers
        self.mean = torch.zeros_like(weights)
        self.square = torch.zeros_like(weights)
        self.count = torch.zeros(weights.shape[0], 1, device=weights.device)

    def step(self, weights: Tensor, gradients: Tensor, lr: Tensor, active: Tensor) -> None:
        """Move ``weights`` (P, W) in place by one update with learning rates ``lr`` (P,).

        Members whose ``active`` bool (P,) is false keep their weights and averages.
        """
        numbers = self._numbers
        active = active[:, None]
        gradients = clip_norm(gradients, numbers.max_grad_norm)
        self.count += active
        self.mean.lerp_(gradients, (1 - numbers.beta1) * active)
        self.square.lerp_(gradients.square(), (1 - numbers.beta2) * active)
        # An inactive member may never have been updated; 1 keeps its division finite.
        count = self.count.clamp(min=1)
        mean = self.mean / (1 - numbers.beta1**count)
        square = self.square / (1 - numbers.beta2**count)
        weights.sub_(lr[:, None] * active * mean / (square.sqrt() + numbers.eps))

    def forget(self) -> None:
        """Begin with empty averages again."""
        for tensor in self.state().values():
            tensor.zero_()

    def state(self) -> dict[str, Tensor]:
        """Return the tensors that a checkpoint keeps, each with the member axis first."""
        return {"mean": self.mean, "square": self.square, "count": self.count}


def clip_norm(gradients: Tensor, max_norm: Tensor) -> Tensor:
    """Return each row of ``gradients`` (P, W) scaled down to at most ``max_norm`` (P, 1)."""
    norm = torch.linalg.vector_norm(gradients, dim=1, keepdim=True)
    scale: Tensor = (max_norm / (norm + 1e-6)).clamp(max=1.0)
    return gradients * scale
