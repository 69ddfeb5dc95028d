"""The hidden layers: how each is laid out, and how it is applied. The two must agree in order."""

from math import sqrt
from typing import Literal

from torch import Tensor

from hpsearch.trainers.net_arch import BatchNorm, Layer, LayerNorm, Linear, Norm, Residual
from hpsearch.trainers.networks.plan import Init, Plan
from hpsearch.trainers.networks.reader import Reader

HIDDEN_GAIN = sqrt(2.0)
"""of orthogonal first weights before an activation (arXiv 2006.05990, choice C57)"""


def plan_hidden(plan: Plan, num_inputs: int, width: int, init: Init) -> int:
    """Add a linear layer that an activation follows; return its width."""
    return plan.linear(num_inputs, width, init=init, scale=_gain(init))


def plan_layer(plan: Plan, layer: Layer, width: int, init: Init) -> int:
    """Add a layer to inputs of ``width``; return its own width."""
    match layer:
        case Linear(new_width):
            return plan_hidden(plan, width, new_width, init)
        case BatchNorm() | LayerNorm():
            plan.norm(width, _kind(layer))
            return width
        case Residual(new_width, norm):
            for num_inputs in (width, new_width):
                plan_hidden(plan, num_inputs, new_width, init)
                plan.norm(new_width, _kind(norm))
            if new_width != width:
                plan_hidden(plan, width, new_width, init)
                plan.norm(new_width, _kind(norm))
            return new_width


def apply_layer(reader: Reader, layer: Layer, x: Tensor) -> Tensor:
    """Return the layer's output (P, R, O) for (P, R, I)."""
    match layer:
        case Linear():
            return reader.activation(reader.linear(x))
        case BatchNorm() | LayerNorm():
            return reader.norm(x, _kind(layer))
        case Residual(width, norm):
            y = reader.activation(reader.norm(reader.linear(x), _kind(norm)))
            y = reader.norm(reader.linear(y), _kind(norm))
            skip = x if x.shape[2] == width else reader.norm(reader.linear(x), _kind(norm))
            return reader.activation(y + skip)


def _gain(init: Init) -> float:
    return HIDDEN_GAIN if init == "orthogonal" else 1.0


def _kind(norm: Norm) -> Literal["batch_norm", "layer_norm"]:
    return "batch_norm" if isinstance(norm, BatchNorm) else "layer_norm"
