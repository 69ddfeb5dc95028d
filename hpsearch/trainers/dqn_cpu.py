"""A DQN's formulas on a CPU, one loop over a batch each; dqn.py says what they are of.

Axes: P members, B transitions, A actions.
"""

from typing import Any

import numba
import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, Int64s, batched

HALF = np.float32(0.5)


def best_value(values: Tensor, chooser: Tensor, legal: Tensor) -> Tensor:
    best = torch.empty(values.shape[:2])
    _best_value(*(tensor.numpy() for tensor in (values, chooser, legal, best)))
    return best


@batched
def _best_value(values: Floats, chooser: Floats, legal: Bools, best: Floats) -> None:
    for p in numba.prange(len(best)):
        for b in range(best.shape[1]):
            chosen = -1
            for a in range(values.shape[2]):
                if not legal[p, b, a]:
                    continue
                if np.isnan(chooser[p, b, a]):  # counts as the highest, as for argmax
                    chosen = a
                    break
                if chosen < 0 or chooser[p, b, a] > chooser[p, b, chosen]:
                    chosen = a
            best[p, b] = values[p, b, max(chosen, 0)]


def temporal_difference(
    values: Tensor, *, action: Tensor, target: Tensor, weight: Tensor, delta: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    loss: Tensor
    loss, value, error = _TemporalDifference.apply(values, action, target, weight, delta)  # type: ignore[no-untyped-call]
    return loss, value, error


class _TemporalDifference(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, values: Tensor, action: Tensor, target: Tensor, weight: Tensor, delta: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        loss, value, error = torch.empty(len(values)), torch.empty(len(values)), target.clone()
        gradients = torch.zeros_like(values)
        tensors = (values, action, weight, delta, loss, value, error, gradients)
        _temporal_difference(*(tensor.numpy() for tensor in tensors))
        context.save_for_backward(gradients)
        context.mark_non_differentiable(value, error)
        return loss, value, error

    @staticmethod
    def backward(context: Any, grad: Tensor, *_: Tensor) -> tuple[Tensor, None, None, None, None]:
        (gradients,) = context.saved_tensors
        return gradients * grad[:, None, None], None, None, None, None


@batched
def _temporal_difference(
    values: Floats,
    action: Int64s,
    weight: Floats,
    delta: Floats,
    loss: Floats,
    mean: Floats,
    error: Floats,
    gradients: Floats,
) -> None:
    """Fill ``loss`` and ``mean``, the mean value, both (P,), and the loss's ``gradients``.

    These, (P, B, A), hold 0 before; ``error`` (P, B) holds targets before and errors afterwards.
    """
    num_members, num_drawn = action.shape
    for p in numba.prange(num_members):
        total_loss, total = 0.0, 0.0  # in float64
        for b in range(num_drawn):
            value = values[p, b, action[p, b]]
            difference = value - error[p, b]
            size = abs(difference)
            slope, near = difference, size
            if size > delta[p, 0]:
                slope, near = np.copysign(delta[p, 0], difference), delta[p, 0]
            total += value
            total_loss += weight[p, b] * near * (size - HALF * near)
            error[p, b] = difference
            gradients[p, b, action[p, b]] = weight[p, b] * slope / np.float32(num_drawn)
        loss[p], mean[p] = total_loss / num_drawn, total / num_drawn
