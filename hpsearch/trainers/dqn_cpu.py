"""A DQN's formulas on a CPU, one loop over a batch each; dqn.py says what they are of.

Each by one thread, as others take longer to begin than they save. Axes: P members, B transitions, A
actions.
"""

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, Int64s, scalar
from hpsearch.trainers.moves import Targets
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies_cpu import best_legal

HALF = np.float32(0.5)


def backed_up(
    values: Tensor, chooser: Tensor, legal: Tensor, reward: Tensor, discount: Tensor
) -> Tensor:
    target = np.empty(values.shape[:2], np.float32)
    tensors = (values, chooser, legal, reward, discount)
    _back_up(*[*(tensor.numpy() for tensor in tensors), target])
    return torch.from_numpy(target)


@scalar
def _back_up(
    values: Floats, chooser: Floats, legal: Bools, reward: Floats, discount: Floats, target: Floats
) -> None:
    for p in range(len(target)):
        for b in range(target.shape[1]):
            value = values[p, b, best_legal(chooser[p, b], legal[p, b])]
            target[p, b] = reward[p, b] + discount[p, b] * value


def differentiate(
    net: Network, features: Tensor, targets: Targets, out: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    (values,), pull_back = net.differentiable_pass(features, training=True)
    loss, value, error, grad_values = temporal_difference(values, targets)
    pull_back([grad_values], out)
    return loss, value, error


def temporal_difference(values: Tensor, targets: Targets) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return, besides what dqn.py says, the loss's derivative by ``values``, (P, B, A)."""
    num_members = len(values)
    loss, mean = np.empty(num_members, np.float32), np.empty(num_members, np.float32)
    error, grad_values = np.empty(values.shape[:2], np.float32), np.zeros(values.shape, np.float32)
    given = [tensor.numpy() for tensor in (values, *targets)]
    _temporal_difference(*[*given, loss, mean, error, grad_values])
    from_numpy = torch.from_numpy
    return from_numpy(loss), from_numpy(mean), from_numpy(error), from_numpy(grad_values)


@scalar
def _temporal_difference(
    values: Floats,
    action: Int64s,
    target: Floats,
    weight: Floats,
    known: Bools,
    delta: Floats,
    loss: Floats,
    mean: Floats,
    error: Floats,
    grad_values: Floats,
) -> None:
    """Fill ``loss`` and ``mean``, the mean value, both (P,), ``error`` (P, B) and ``grad_values``.

    The latter, the loss's derivative (P, B, A), holds 0 before.
    """
    num_members, num_drawn = action.shape
    for p in range(num_members):
        total_loss, total = 0.0, 0.0  # in float64
        for b in range(num_drawn):
            value = values[p, b, action[p, b]]
            difference = value - target[p, b]
            size = abs(difference)
            bounded, near = difference, size
            if size > delta[p]:
                bounded, near = np.copysign(delta[p], difference), delta[p]
            factor = weight[p, b] * np.float32(known[p, b])
            total += value
            total_loss += factor * near * (size - HALF * near)
            error[p, b] = difference * np.float32(known[p, b])
            grad_values[p, b, action[p, b]] = factor * bounded / np.float32(num_drawn)
        loss[p], mean[p] = total_loss / num_drawn, total / num_drawn
