"""The networks that a configuration asks for: what they see, their layout, their size.

No torch here.
"""

from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.weight_layout import Inputs, WeightLayout, weight_layout

POLICY, VALUE = 0, 1
"""towers of an actor-critic"""


def num_actions(name: str, dimension: int) -> int:
    """Return a role's actions: subsets of two or more coordinates for a host, one for an agent."""
    return 2**dimension - dimension - 1 if name == "host" else dimension


def inputs_of(name: str, config: CommonConfig) -> Inputs:
    """Return what the role ``name`` sees: the points, and as an agent the host's subset."""
    num_more = config.dimension if name == "agent" else 0
    return Inputs(config.max_num_points, config.dimension, num_more)


def role_layout(name: str, config: CommonConfig) -> WeightLayout:
    """Return the layout of the weights of a role that learns.

    Raises:
        KeyError: if the role does not learn.
    """
    towers = config.towers(name, num_actions(name, config.dimension))
    return weight_layout(inputs_of(name, config), towers)


def policy_size(name: str, config: CommonConfig) -> int:
    """Return the number of weights of the tower by which a role plays.

    The value tower of an actor-critic plays no move and counts for nothing; the value of a dueling
    network is one more output of the tower that plays.

    Raises:
        KeyError: if the role does not learn.
    """
    layout = role_layout(name, config)
    return sum(affine.size for items in layout.towers[POLICY] for affine in items.affines)
