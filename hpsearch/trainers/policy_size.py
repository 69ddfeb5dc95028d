"""How many weights a role's policy has, told from its configuration alone; needs no torch.

Counted as `networks/` lays them out: weights and biases of the encoder, the hidden layers and the
output layer, scales and shifts of the norms. The value network of an actor-critic plays no move and
counts for nothing; that of a dueling network is one more output of the network that plays.
"""

from collections.abc import Iterable
from itertools import pairwise

from hpsearch.trainers.config import CommonConfig, DQNConfig
from hpsearch.trainers.config.net_arch import BatchNorm, Layer, LayerNorm, Linear, Residual, parse
from hpsearch.trainers.config.players import (
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)


def policy_size(name: str, config: CommonConfig) -> int:
    """Return the number of weights of the network by which a role plays.

    Args:
        name: of a role that learns, host or agent.
        config: of the trainer.

    Raises:
        KeyError: if the role does not learn.
    """
    role, dimension = config.learning()[name], config.dimension
    num_more = dimension if name == "agent" else 0  # the host's subset
    total, width = _encoder_size(role.encoder, dimension, num_more)
    for layer in parse(role.net_arch):
        more, width = _layer_size(layer, width)
        total += more
    is_dueling = isinstance(config, DQNConfig) and config.dqn.dueling
    return total + _linear(width, _num_actions(name, dimension) + is_dueling)


def _num_actions(name: str, dimension: int) -> int:
    """Return the subsets of two or more coordinates for a host, the coordinates for an agent."""
    return 2**dimension - dimension - 1 if name == "host" else dimension


def _encoder_size(encoder: Encoder, dimension: int, num_more: int) -> tuple[int, int]:
    """Return the weights of an encoder, and the number of features that it gives."""
    num_features = dimension + num_more  # of a point
    match encoder:
        case FlattenEncoder(num_points=num_points):
            return 0, num_points * dimension + num_more
        case DeepSetsEncoder(widths=widths):
            return _chain((num_features, *widths)), (num_features, *widths)[-1]
        case AttentionEncoder(width=width, blocks=blocks):
            norm, square = 2 * width, _linear(width, width)
            block = 2 * norm + _linear(width, 3 * width) + 3 * square
            return _linear(num_features, width) + blocks * block + norm, width


def _layer_size(layer: Layer, width: int) -> tuple[int, int]:
    """Return the weights of a hidden layer to which ``width`` numbers come, and its own width."""
    match layer:
        case Linear(new_width):
            return _linear(width, new_width), new_width
        case BatchNorm() | LayerNorm():
            return 2 * width, width
        case Residual(new_width):
            total = _chain((width, new_width, new_width)) + 4 * new_width
            is_projected = new_width != width
            return total + is_projected * (_linear(width, new_width) + 2 * new_width), new_width


def _chain(widths: Iterable[int]) -> int:
    return sum(_linear(before, after) for before, after in pairwise(widths))


def _linear(num_inputs: int, num_outputs: int) -> int:
    return (num_inputs + 1) * num_outputs
