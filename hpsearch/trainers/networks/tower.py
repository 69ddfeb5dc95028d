"""A tower: from observations to outputs; how it is laid out, and how it is applied.

Axes: P members, B games, I inputs, O outputs.
"""

from dataclasses import dataclass

from torch import Tensor

from hpsearch.trainers.config.players import Activation, Encoder
from hpsearch.trainers.net_arch import Layer
from hpsearch.trainers.networks.encoders import Inputs, apply_encoder, plan_encoder
from hpsearch.trainers.networks.layers import apply_layer, plan_layer
from hpsearch.trainers.networks.plan import Init, Plan
from hpsearch.trainers.networks.reader import Reader


@dataclass(frozen=True)
class Tower:
    """An encoder, hidden layers and a linear layer."""

    encoder: Encoder
    layers: tuple[Layer, ...]
    activation: Activation
    num_outputs: int
    init: Init
    last_scale: float
    """factor of the last layer's first weights"""
    dueling: bool
    """outputs are a value plus advantages of mean 0 (Wang et al., arXiv 1511.06581, equation 9);
    value and advantages share all but the last layer"""


def plan_tower(plan: Plan, tower: Tower, inputs: Inputs) -> None:
    """Add a tower's weights."""
    width = plan_encoder(plan, tower.encoder, inputs, tower.init)
    for layer in tower.layers:
        width = plan_layer(plan, layer, width, tower.init)
    num_outputs = tower.num_outputs + 1 if tower.dueling else tower.num_outputs
    plan.linear(width, num_outputs, init=tower.init, scale=tower.last_scale)


def apply_tower(reader: Reader, tower: Tower, inputs: Inputs, x: Tensor) -> Tensor:
    """Return float32 (P, B, O) for observations float32 (P, B, I)."""
    weights_dtype = x.dtype
    x = apply_encoder(reader, tower.encoder, inputs, x)
    for layer in tower.layers:
        x = apply_layer(reader, layer, x)
    x = reader.linear(x).to(weights_dtype)
    if not tower.dueling:
        return x
    value, advantages = x[..., :1], x[..., 1:]
    return value + advantages - advantages.mean(dim=2, keepdim=True)
