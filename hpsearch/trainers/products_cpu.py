"""Products of matrices on a CPU, by the library that is quicker there.

A row has the same digits in any batch and by any number of threads. MKL, which torch calls by
default, has no instructions wider than AVX2 for AMD's processors. Where there are wider ones oneDNN
may take half the time; where there are none, MKL is quicker by a tenth, and by more where several
threads share a product.

Axes: R rows, I inputs, O outputs.
"""

from typing import Final, Literal, NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hpsearch.game.kernels.interface import Floats, summing
from hpsearch.game.kernels.threads import threads

ZERO = np.float32(0)
Activation = Literal["none", "relu", "tanh"]

NARROW: Final = 32
"""rows or columns below which torch's product, by MKL, is quicker than oneDNN's on any processor"""

FEW: Final = 12
"""outputs below which a loop of our own is quicker than both: beside 256 inputs, oneDNN takes half
its time to prepare"""

IS_BY_MKL: Final = (
    torch.backends.mkl.is_available() and torch.backends.cpu.get_cpu_capability() == "AVX2"
)
"""whether MKL is quicker than oneDNN also for products that are not narrow"""

# Where MKL multiplies fewer rows at once, or columns that fill no vector, it adds in other orders.
# Measured with MKL 2024.2 on AMD's Zen 3 for up to 1,024 inputs.
MKL_LEAST_ROWS: Final = 4
MKL_ROWS_A_THREAD: Final = 32
MKL_COLUMNS: Final = 16


class LinearViews(NamedTuple):
    """A layer of one member as a product takes it; made once, as each view costs time."""

    weight: Tensor  # (I, O)
    transposed: Tensor  # (O, I)
    bias: Tensor  # (O,)


def apply_linear(x: Tensor, views: LinearViews, then: Activation) -> Tensor:
    """Return a layer's output (R, O) of x (R, I), activated."""
    if views.weight.shape[1] < FEW:
        return _activated(_of_few_outputs(x, views), then)
    if IS_BY_MKL:
        return _activated(_by_mkl(x, views.weight, views.bias), then)
    return _by_onednn(x, views.transposed, views.bias, then)


def product(first: Tensor, second: Tensor) -> Tensor:
    """Return (R, O) of (R, I) and (I, O)."""
    if min(*first.shape, second.shape[1]) < NARROW:
        with threads(1):  # the digits would depend on how many
            return torch.mm(first, second)
    if IS_BY_MKL:
        return _by_mkl(first, second, None)
    return _by_onednn(first, second.T, None, "none")


def _by_mkl(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
    num_rows, width = first.shape[0], second.shape[1]
    if num_rows < MKL_LEAST_ROWS:
        first = pad(first, (0, 0, 0, MKL_LEAST_ROWS - num_rows))
        return _by_mkl(first, second, bias)[:num_rows]
    if missing := -width % MKL_COLUMNS:
        second, bias = pad(second, (0, missing)), None if bias is None else pad(bias, (0, missing))
        return _by_mkl(first, second, bias)[:, :width].contiguous()
    useful = max(num_rows // MKL_ROWS_A_THREAD, 1)
    if torch.get_num_threads() > useful:
        with threads(useful):
            return _by_mkl(first, second, bias)
    return torch.mm(first, second) if bias is None else torch.addmm(bias, first, second)


def _of_few_outputs(x: Tensor, views: LinearViews) -> Tensor:
    y = np.empty((x.shape[0], views.weight.shape[1]), np.float32)
    given = x.contiguous(), views.transposed.contiguous(), views.bias
    _multiply(*[*(each.numpy() for each in given), y])
    return torch.from_numpy(y)


@summing
def _multiply(x: Floats, transposed: Floats, bias: Floats, y: Floats) -> None:
    for r in range(len(x)):
        for o in range(len(transposed)):
            total = ZERO
            for i in range(x.shape[1]):
                total += x[r, i] * transposed[o, i]
            y[r, o] = total + bias[o]


def _activated(y: Tensor, then: Activation) -> Tensor:
    match then:
        case "relu":
            return y.relu_()
        case "tanh":
            return y.tanh_()
        case "none":
            return y


def _by_onednn(first: Tensor, transposed: Tensor, bias: Tensor | None, then: Activation) -> Tensor:
    y: Tensor
    multiply = torch.ops.mkldnn._linear_pointwise.default
    if first.shape[0] > 1:
        y = multiply(first, transposed, bias, then, [], "")
    else:
        with threads(1):  # several may share out the sum of a single row
            y = multiply(first, transposed, bias, then, [], "")
    return y
