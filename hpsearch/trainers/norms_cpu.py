"""Norms of one member on a CPU, one loop each; layers.py has the formulas.

The digits of torch's norms depend on the number of threads. These loops sum rows in order, by one
thread, so theirs do not.

Axes: R rows, I inputs.
"""

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Floats, scalar
from hpsearch.trainers.config.net_arch import BATCH_NORM_MOMENTUM, NORM_EPS

ONE, EPS, MOMENTUM = np.float32(1), np.float32(NORM_EPS), np.float32(BATCH_NORM_MOMENTUM)


def batch_norm(
    x: Tensor, scale: Tensor, shift: Tensor, moments: tuple[Tensor, Tensor], *, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return x (R, I) with mean 0 and variance 1, scaled and shifted, and by what it was divided.

    The latter are the mean and 1 / the standard deviation, (I,) each: those of the rows, which the
    running ``moments`` follow, if ``training``, else of the running ones.
    """
    y, (mean, inverse) = np.empty(x.shape, np.float32), _two_rows(x)
    rows, running_mean, running_var = (each.numpy() for each in (x.contiguous(), *moments))
    if training:
        _measure(rows, mean, inverse, running_mean, running_var)
    else:
        mean[:] = running_mean
        inverse[:] = ONE / np.sqrt(running_var + EPS)
    _scale(rows, mean, inverse, scale.numpy(), shift.numpy(), y)
    return torch.from_numpy(y), torch.from_numpy(mean), torch.from_numpy(inverse)


def derive_batch_norm(
    grad: Tensor, x: Tensor, scale: Tensor, mean: Tensor, inverse: Tensor, *, training: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the derivatives of x, scale and shift from that of `batch_norm`'s first result."""
    grad_x, (grad_scale, grad_shift) = np.empty(x.shape, np.float32), _two_rows(x)
    rows = grad.contiguous().numpy(), x.contiguous().numpy()
    columns = scale.numpy(), mean.numpy(), inverse.numpy()
    _derive(*rows, *columns, grad_x, grad_scale, grad_shift, training)
    from_numpy = torch.from_numpy
    return from_numpy(grad_x), from_numpy(grad_scale), from_numpy(grad_shift)


def derive_layer_norm(
    grad: Tensor, x: Tensor, mean: Tensor, inverse: Tensor
) -> tuple[Tensor, Tensor]:
    """Return the derivatives of a layer norm's scale and shift, whose moments are (R, 1) each."""
    grad_scale, grad_shift = _two_rows(x)
    tensors = (grad.contiguous(), x.contiguous(), mean[:, 0], inverse[:, 0])
    _derive_weights(*[*(each.numpy() for each in tensors), grad_scale, grad_shift])
    return torch.from_numpy(grad_scale), torch.from_numpy(grad_shift)


def _two_rows(x: Tensor) -> tuple[Floats, Floats]:
    """Return room for two numbers of each column."""
    return np.empty(x.shape[1], np.float32), np.empty(x.shape[1], np.float32)


# Sums are in float64. Inner loops are over columns, so that the processor takes several at once.


@scalar
def _measure(
    x: Floats, mean: Floats, inverse: Floats, running_mean: Floats, running_var: Floats
) -> None:
    num_rows, width = x.shape
    total, squares = np.zeros(width), np.zeros(width)
    for r in range(num_rows):
        for i in range(width):
            total[i] += x[r, i]
    for i in range(width):
        mean[i] = total[i] / num_rows
    for r in range(num_rows):
        for i in range(width):
            difference = x[r, i] - mean[i]
            squares[i] += difference * difference
    for i in range(width):
        inverse[i] = ONE / np.sqrt(np.float32(squares[i] / num_rows) + EPS)
        unbiased = np.float32(squares[i] / max(num_rows - 1, 1))
        running_mean[i] += MOMENTUM * (mean[i] - running_mean[i])
        running_var[i] += MOMENTUM * (unbiased - running_var[i])


@scalar
def _scale(
    x: Floats, mean: Floats, inverse: Floats, scale: Floats, shift: Floats, y: Floats
) -> None:
    for r in range(len(x)):
        for i in range(x.shape[1]):
            y[r, i] = (x[r, i] - mean[i]) * inverse[i] * scale[i] + shift[i]


@scalar
def _derive(
    grad: Floats,
    x: Floats,
    scale: Floats,
    mean: Floats,
    inverse: Floats,
    grad_x: Floats,
    grad_scale: Floats,
    grad_shift: Floats,
    training: bool,
) -> None:
    num_rows, width = x.shape
    by_scale, by_shift = np.zeros(width), np.zeros(width)
    for r in range(num_rows):
        for i in range(width):
            by_scale[i] += grad[r, i] * (x[r, i] - mean[i])
            by_shift[i] += grad[r, i]
    for i in range(width):
        grad_scale[i] = by_scale[i] * inverse[i]
        grad_shift[i] = by_shift[i]
    part = ONE / np.float32(num_rows) if training else np.float32(0)  # running moments stand still
    for r in range(num_rows):
        for i in range(width):
            normal = (x[r, i] - mean[i]) * inverse[i]
            through_moments = (grad_shift[i] + normal * grad_scale[i]) * part
            grad_x[r, i] = (grad[r, i] - through_moments) * inverse[i] * scale[i]


@scalar
def _derive_weights(
    grad: Floats, x: Floats, mean: Floats, inverse: Floats, grad_scale: Floats, grad_shift: Floats
) -> None:
    num_rows, width = x.shape
    by_scale, by_shift = np.zeros(width), np.zeros(width)
    for r in range(num_rows):
        for i in range(width):
            by_scale[i] += grad[r, i] * ((x[r, i] - mean[r]) * inverse[r])
            by_shift[i] += grad[r, i]
    for i in range(width):
        grad_scale[i] = by_scale[i]
        grad_shift[i] = by_shift[i]
