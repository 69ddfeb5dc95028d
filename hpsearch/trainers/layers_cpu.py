"""What updates on a CPU compute in another way than networks.py does, because it is quicker there.

Axes: R rows, I inputs, O outputs.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Activation = Literal["none", "relu", "tanh"]


def is_available(device: torch.device) -> bool:
    return device.type == "cpu" and torch.backends.mkldnn.is_available()


class Flat(NamedTuple):
    """What a layer of one member is to oneDNN: views of its weight and bias."""

    weight: Tensor  # (I, O)
    turned: Tensor  # (O, I)
    bias: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor) -> "Flat":
        """Return the views of a weight (1, I, O) and a bias (1, 1, O)."""
        weight, bias = weight.detach()[0], bias.detach()[0, 0]
        return cls(weight, weight.T, bias)


def linear(x: Tensor, weight: Tensor, bias: Tensor, flat: Flat, then: Activation) -> Tensor:
    """Return (1, R, O) for x (1, R, I), weight (1, I, O) and bias (1, 1, O), activated.

    By oneDNN. MKL, which torch calls by default, uses the widest instructions of Intel's processors
    only; on others oneDNN takes half the time.
    """
    if not torch.is_grad_enabled():
        return _product(x, flat.turned, flat.bias, then)
    y: Tensor = _Linear.apply(x, weight, bias, flat, then)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor, flat: Flat, then: Activation
    ) -> Tensor:
        y = _product(x, flat.turned, flat.bias, then)
        context.then, context.flat = then, flat
        context.save_for_backward(x, y)
        return y

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None, None]:
        x, y = context.saved_tensors
        if context.then == "relu":
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        elif context.then == "tanh":
            grad = torch.ops.aten.tanh_backward(grad, y)
        grad = grad.contiguous()  # of rows that are one memory oneDNN is slow
        grad_x = _product(grad, context.flat.weight) if context.needs_input_grad[0] else None
        rows, grads = x[0].T, grad[0].T
        # oneDNN copies its first factor, so it is the smaller one.
        is_narrowing = len(grads) < len(rows)
        grad_weight = _product(grads, rows).T if is_narrowing else _product(rows, grads)
        return grad_x, grad_weight[None], grad.sum(dim=1, keepdim=True), None, None


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Activation = "none"
) -> Tensor:
    """Return the activation of x W^T + bias, (..., O), for x (..., I) and a weight (O, I)."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, then, [], "")
    return y
