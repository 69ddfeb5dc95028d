"""Products of matrices on a CPU, by the library that is quicker there.

A row has the same digits in any batch and by any number of threads. MKL, which torch calls by
default, has no instructions wider than AVX2 for AMD's processors. Where there are wider ones oneDNN
may take half the time; where there are none, MKL is quicker by a tenth, and by a third where two
threads share a product.

Axes: R rows, I inputs, O outputs.
"""

from typing import Final, Literal, NamedTuple

import torch
from torch import Tensor

from hpsearch.game.kernels.threads import threads

Activation = Literal["none", "relu", "tanh"]

NARROW: Final = 32
"""rows or columns below which torch's product, by MKL, is quicker than oneDNN's on any processor"""

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
    if _suits_mkl(views.weight):
        return _activated(_by_mkl(x, views.weight, views.bias), then)
    return _by_onednn(x, views.transposed, views.bias, then)


def product(first: Tensor, second: Tensor) -> Tensor:
    """Return (R, O) of (R, I) and (I, O)."""
    if min(*first.shape, second.shape[1]) < NARROW:
        with threads(1):  # the digits would depend on how many
            return torch.mm(first, second)
    if _suits_mkl(second):
        return _by_mkl(first, second, None)
    return _by_onednn(first, second.T, None, "none")


def _suits_mkl(second: Tensor) -> bool:
    return IS_BY_MKL and second.shape[1] % MKL_COLUMNS == 0


def _by_mkl(first: Tensor, second: Tensor, bias: Tensor | None) -> Tensor:
    num_rows = len(first)
    if num_rows < MKL_LEAST_ROWS:
        padded = torch.nn.functional.pad(first, (0, 0, 0, MKL_LEAST_ROWS - num_rows))
        return _by_mkl(padded, second, bias)[:num_rows]
    useful = max(num_rows // MKL_ROWS_A_THREAD, 1)
    with threads(min(useful, torch.get_num_threads())):
        return torch.mm(first, second) if bias is None else torch.addmm(bias, first, second)


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
    if len(first) > 1:
        y = multiply(first, transposed, bias, then, [], "")
    else:
        with threads(1):  # several may share out the sum of a single row
            y = multiply(first, transposed, bias, then, [], "")
    return y
