"""Derivatives of what follows the product in a layer of one member, on a CPU.

Axes: R rows, O outputs.
"""

from typing import Final, Literal

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Floats, scalar

Activation = Literal["none", "relu", "tanh"]

ZERO, ONE = np.float32(0), np.float32(1)
NONE, RELU, TANH = 0, 1, 2
KINDS: Final[dict[Activation, int]] = {"none": NONE, "relu": RELU, "tanh": TANH}


def derive_activation(grad: Tensor, y: Tensor, then: Activation) -> Tensor:
    """Return the derivative (R, O) of what was activated, by that of the output ``y`` (R, O)."""
    derived: Tensor
    if then == "none":
        return grad
    if then == "relu":
        derived = torch.ops.aten.threshold_backward.default(grad, y, 0)
    else:
        derived = torch.ops.aten.tanh_backward.default(grad, y)
    return derived


def derive_biased(grad: Tensor, y: Tensor, then: Activation, of_bias: Tensor) -> Tensor:
    """Return what `derive_activation` does, and fill ``of_bias`` (1, O) with its sum over the rows.

    In one pass over memory, where torch takes two, and by one thread, so that the sums do not
    depend on how many there are.
    """
    grad = grad.contiguous()
    derived = grad if then == "none" else torch.empty_like(grad)
    _derive_biased(KINDS[then], *(each.numpy() for each in (grad, y, derived, of_bias)))
    return derived


@scalar
def _derive_biased(kind: int, grad: Floats, y: Floats, derived: Floats, of_bias: Floats) -> None:
    """Fill ``derived``, which is ``grad`` where nothing was activated, and ``of_bias``."""
    num_rows, width = grad.shape
    total = np.zeros(width)  # in float64
    for r in range(num_rows):
        if kind == RELU:
            for o in range(width):
                derived[r, o] = ZERO if y[r, o] <= ZERO else grad[r, o]  # not where it is no number
        elif kind == TANH:
            for o in range(width):
                derived[r, o] = grad[r, o] * (ONE - y[r, o] * y[r, o])
        for o in range(width):
            total[o] += derived[r, o]
    for o in range(width):
        of_bias[0, o] = total[o]
