"""What updates on a CPU compute in another way than networks.py does, because it is quicker there.

Axes: R rows, I inputs, O outputs.
"""

from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor

Activation = Literal["none", "relu", "tanh"]


def is_available(device: torch.device) -> bool:
    return device.type == "cpu" and torch.backends.mkldnn.is_available()


class LinearViews(NamedTuple):
    """A layer of one member as oneDNN takes it; made once, as each view costs time."""

    weight: Tensor  # (I, O)
    transposed: Tensor  # (O, I)
    bias: Tensor  # (O,)

    @classmethod
    def of(cls, weight: Tensor, bias: Tensor) -> "LinearViews":
        """Return views, without gradients, of a weight (I, O) and a bias (O,)."""
        weight = weight.detach()
        return cls(weight, weight.T, bias.detach())


def linear(x: Tensor, weight: Tensor, bias: Tensor, views: LinearViews, then: Activation) -> Tensor:
    """Return (1, R, O) for x (1, R, I), weight (1, I, O) and bias (1, 1, O), activated.

    ``views`` are of the same memory; ``weight`` and ``bias`` only take the gradients. By oneDNN:
    MKL, which torch calls by default, uses the widest instructions of Intel's processors only; on
    others oneDNN takes half the time.
    """
    if not torch.is_grad_enabled():
        return _product(x, views.transposed, views.bias, then)
    y: Tensor = _Linear.apply(x, weight, bias, views, then)  # type: ignore[no-untyped-call]
    return y


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(
        context: Any, x: Tensor, weight: Tensor, bias: Tensor, views: LinearViews, then: Activation
    ) -> Tensor:
        y = _product(x, views.transposed, views.bias, then)
        # Not saved by autograd, which would notice it: no weight may move before the gradient.
        context.then, context.views = then, views
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
        grad_x = _product(grad, context.views.weight) if context.needs_input_grad[0] else None
        inputs, outputs = x[0].T, grad[0].T  # (I, R), (O, R)
        # oneDNN copies its first factor, so it is the smaller one.
        is_narrowing = len(outputs) < len(inputs)
        grad_weight = _product(outputs, inputs).T if is_narrowing else _product(inputs, outputs)
        return grad_x, grad_weight[None], grad.sum(dim=1, keepdim=True), None, None


def _product(
    x: Tensor, weight: Tensor, bias: Tensor | None = None, then: Activation = "none"
) -> Tensor:
    """Return the activation of x W^T + bias, (..., O), for x (..., I) and a weight (O, I)."""
    y: Tensor = torch.ops.mkldnn._linear_pointwise.default(x, weight, bias, then, [], "")
    return y
