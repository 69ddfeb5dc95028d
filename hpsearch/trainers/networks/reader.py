"""One forward pass: takes weights in the order in which the plan laid them out.

Axes: P members, R rows (games, or games times points), I inputs, O outputs.
"""

from collections.abc import Callable, Iterator
from typing import Literal

import torch
from torch import Tensor

NORM_EPS = 1e-5
BATCH_NORM_MOMENTUM = 0.1

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu, "tanh": torch.tanh}


class Reader:
    """Applies the next layer of a network, whichever kind the network's structure says it is."""

    def __init__(
        self, views: Iterator[Tensor], statistics: Tensor, *, activation: str, training: bool
    ) -> None:
        """Begin with the first of ``views``; ``statistics`` (P, S) are of its batch norms."""
        self._views = views
        self._statistics = statistics
        self._training = training
        self._position = 0
        self.activation = _ACTIVATIONS[activation]

    def linear(self, x: Tensor) -> Tensor:
        """Return (P, R, O) for (P, R, I)."""
        weight, bias = next(self._views), next(self._views)
        return torch.baddbmm(bias, x, weight)

    def norm(self, x: Tensor, kind: Literal["batch_norm", "layer_norm"]) -> Tensor:
        """Return (P, R, I) of mean 0 and variance 1, scaled and shifted."""
        scale, shift = next(self._views), next(self._views)
        x = x.to(scale.dtype)  # sums want full precision
        mean, var = self._batch_moments(x) if kind == "batch_norm" else _moments(x, dim=2)
        return (x - mean) * torch.rsqrt(var + NORM_EPS) * scale + shift

    def _batch_moments(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return a batch's own moments and let the running ones follow; else the running ones."""
        running_mean, running_var = self._next_statistics(x.shape[2])
        if not self._training:
            return running_mean, running_var
        mean, var = _moments(x, dim=1)
        with torch.no_grad():
            unbiased = var * (x.shape[1] / max(x.shape[1] - 1, 1))
            running_mean.lerp_(mean, BATCH_NORM_MOMENTUM)
            running_var.lerp_(unbiased, BATCH_NORM_MOMENTUM)
        return mean, var

    def _next_statistics(self, width: int) -> tuple[Tensor, Tensor]:
        start = self._position
        self._position += 2 * width
        mean = self._statistics[:, None, start : start + width]
        var = self._statistics[:, None, start + width : start + 2 * width]
        return mean, var


def _moments(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    return x.mean(dim=dim, keepdim=True), x.var(dim=dim, keepdim=True, correction=0)
