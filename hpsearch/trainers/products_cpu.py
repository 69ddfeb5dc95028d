"""Products of matrices on a CPU, by what is quickest there, activations and their derivatives.

Digits do not depend on the number of threads, and those of a layer's row not on its batch either.
That holds for sums of up to `SUMMED_IN_ORDER` numbers; tests hold the processor at hand to it.

MKL, which torch calls by default, has no instructions wider than AVX2 for AMD's processors. Zen 1
to 3 have no wider ones, and Zen 4 runs each in two steps. On a processor that runs it in one step,
oneDNN may need half the time.

Axes: R rows, I inputs, O outputs.
"""

import math
from typing import Final, Literal, NamedTuple

import llvmlite.binding as llvm
import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import pad

from hpsearch.game.kernels.interface import Floats, scalar, summing
from hpsearch.game.kernels.threads import threads

Activation = Literal["none", "relu", "tanh"]

ZERO, ONE = np.float32(0), np.float32(1)
NONE, RELU, TANH = 0, 1, 2
KINDS: Final[dict[Activation, int]] = {"none": NONE, "relu": RELU, "tanh": TANH}

FEW: Final = 12
"""outputs below which a member's layer is quicker in a loop by one thread (oneDNN takes longer to
prepare 256 rows of 256 inputs than to multiply them), and a layer of all members transposed"""

NARROW: Final = 32
"""rows or columns below which a product of derivatives is quicker by MKL on any processor; a row's
digits depend on the other rows there"""


def _mkl_weights() -> float:
    processor, widest = llvm.get_host_cpu_name(), torch.backends.cpu.get_cpu_capability()
    if not (torch.backends.mkl.is_available() and processor.startswith("znver")):
        return 0
    if widest == "AVX2":
        return math.inf
    return 256 * 256 if processor in ("znver3", "znver4") else 0  # LLVM 15 knows no Zen 4


MKL_WEIGHTS: Final = _mkl_weights()
"""weights of a layer below which MKL is quicker than oneDNN at its products: measured on AMD's Zen
3 and 4 alone. Where this is more than 0, MKL also takes every product whose first factor is
transposed, which oneDNN would copy."""

# MKL adds in other orders where a thread has fewer rows, or where columns do not fill its vectors.
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
    if views.weight.numel() < MKL_WEIGHTS:
        return _activated(_by_mkl(x, views.weight, views.bias, None), then)
    return _by_onednn(x, views.transposed, views.bias, then)


def product(first: Tensor, second: Tensor, out: Tensor | None = None) -> Tensor:
    """Return (R, O) of (R, I) and (I, O), in ``out`` if it is given."""
    if min(*first.shape, second.shape[1]) < NARROW:
        with threads(1):  # the digits would depend on how many
            return torch.mm(first, second, out=out)
    # A weight's derivative: its second factor holds rows of a batch, not a layer's weights.
    is_transposed = not first.is_contiguous()
    if second.numel() < MKL_WEIGHTS or (is_transposed and MKL_WEIGHTS > 0):
        return _by_mkl(first, second, None, out)
    y = _by_onednn(first, second.T, None, "none")
    return y if out is None else out.copy_(y)


def _of_few_outputs(x: Tensor, views: LinearViews) -> Tensor:
    y = np.empty((x.shape[0], views.weight.shape[1]), np.float32)
    by_output = views.transposed.contiguous()  # few numbers, which the loop reads in a row
    _multiply(x.contiguous().numpy(), by_output.numpy(), views.bias.numpy(), y)
    return torch.from_numpy(y)


@summing
def _multiply(x: Floats, transposed: Floats, bias: Floats, y: Floats) -> None:
    for r in range(len(x)):
        for o in range(len(transposed)):
            total = ZERO
            for i in range(x.shape[1]):
                total += x[r, i] * transposed[o, i]
            y[r, o] = total + bias[o]


def _by_mkl(first: Tensor, second: Tensor, bias: Tensor | None, out: Tensor | None) -> Tensor:
    num_rows, width = first.shape[0], second.shape[1]
    missing_rows, missing_columns = max(MKL_LEAST_ROWS - num_rows, 0), -width % MKL_COLUMNS
    if missing_rows > 0 or missing_columns > 0:
        if missing_rows > 0:
            first = pad(first, (0, 0, 0, missing_rows))
        if missing_columns > 0:
            second = pad(second, (0, missing_columns))
            bias = None if bias is None else pad(bias, (0, missing_columns))
        y = _by_mkl(first, second, bias, None)[:num_rows, :width]
        return y.contiguous() if out is None else out.copy_(y)
    most_threads = max(num_rows // MKL_ROWS_A_THREAD, 1)
    if torch.get_num_threads() > most_threads:
        with threads(most_threads):
            return _by_mkl(first, second, bias, out)
    if bias is None:
        return torch.mm(first, second, out=out)
    return torch.addmm(bias, first, second, out=out)


def _by_onednn(first: Tensor, transposed: Tensor, bias: Tensor | None, then: Activation) -> Tensor:
    if first.shape[0] == 1 and torch.get_num_threads() > 1:
        with threads(1):  # several may share out the sum of a single row
            return _by_onednn(first, transposed, bias, then)
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(first, transposed, bias, then, [], "")
    return y


def _activated(y: Tensor, then: Activation) -> Tensor:
    match then:
        case "relu":
            return y.relu_()
        case "tanh":
            return y.tanh_()
        case "none":
            return y


def derive_activation(grad: Tensor, y: Tensor, then: Literal["relu", "tanh"]) -> Tensor:
    """Return the derivative (R, O) of what was activated, by that of the output ``y`` (R, O)."""
    derived: Tensor
    if then == "relu":
        derived = torch.ops.aten.threshold_backward.default(grad, y, 0)
    else:
        derived = torch.ops.aten.tanh_backward.default(grad, y)
    return derived


def derive_biased(grad: Tensor, y: Tensor, then: Activation, of_bias: Tensor) -> Tensor:
    """Return the derivative (R, O) before activation, and fill ``of_bias`` (1, O) with its sums.

    In one pass over memory, where torch takes two, and by one thread, so that the sums do not
    depend on how many there are.
    """
    grad = grad.contiguous()  # an expanded one slows oneDNN's products, too
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
                derived[r, o] = ZERO if y[r, o] <= ZERO else grad[r, o]  # also where y is NaN
        elif kind == TANH:
            for o in range(width):
                derived[r, o] = grad[r, o] * (ONE - y[r, o] * y[r, o])
        for o in range(width):
            total[o] += derived[r, o]
    for o in range(width):
        of_bias[0, o] = total[o]
