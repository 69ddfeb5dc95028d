"""What updates on a CPU compute in another way than networks.py does, because it is quicker there.

Axes: R rows, I inputs, O outputs.
"""

from typing import Any, Literal

import torch
from torch import Tensor

Activation = Literal["none", "relu", "tanh"]


def is_available(device: torch.device) -> bool:
    return device.type == "cpu" and torch.backends.mkldnn.is_available()


def linear(x: Tensor, weight: Tensor, bias: Tensor, then: Activation) -> Tensor:
    """Return (1, R, O) for x (1, R, I), weight (1, I, O) and bias (1, 1, O), activated.

    By oneDNN. MKL, which torch calls by default, uses the widest instructions of Intel's processors
    only; on others oneDNN takes half the time.
    """
    if not torch.is_grad_enabled():
        return _product(x[0], weight[0].T, bias[0, 0], then)[None]
    y: Tensor = _Linear.apply(x, weight, bias, then)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, x: Tensor, weight: Tensor, bias: Tensor, then: Activation) -> Tensor:
        y = _product(x[0], weight[0].T, bias[0, 0], then)[None]
        context.then = then
        context.save_for_backward(x, weight, y)
        return y

    @staticmethod
    def backward(context: Any, grad: Tensor) -> tuple[Tensor | None, Tensor, Tensor, None]:
        x, weight, y = context.saved_tensors
        if context.then == "relu":
            grad = torch.ops.aten.threshold_backward(grad, y, 0)
        elif context.then == "tanh":
            grad = torch.ops.aten.tanh_backward(grad, y)
        rows, grads = x[0], grad[0].contiguous()  # of rows that are one memory oneDNN is slow
        grad_x = _product(grads, weight[0])[None] if context.needs_input_grad[0] else None
        # oneDNN copies its first factor, so it is the smaller one.
        is_narrowing = grads.shape[1] < rows.shape[1]
        grad_weight = _product(grads.T, rows.T).T if is_narrowing else _product(rows.T, grads.T)
        return grad_x, grad_weight[None], grads.sum(dim=0)[None, None], None


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Activation = "none"
) -> Tensor:
    """Return the activation of x W^T + bias, (R, O), for x (R, I) and a weight (O, I)."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, then, [], "")
    return y
