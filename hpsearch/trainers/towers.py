"""The networks that a configuration asks for: what they see, their towers, their size. No torch."""

from dataclasses import replace

from hpsearch.trainers.config import CommonConfig, DQNConfig, LearningRole, PPORole
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.weight_layout import Inputs, Tower, WeightLayout, weight_layout

POLICY, VALUE = 0, 1
"""towers of an actor-critic"""


def num_actions(name: str, dimension: int) -> int:
    """Return a role's actions: subsets of two or more coordinates for a host, one for an agent."""
    return 2**dimension - dimension - 1 if name == "host" else dimension


def inputs_of(name: str, config: CommonConfig) -> Inputs:
    """Return what the role ``name`` sees: the points, and as an agent the host's subset."""
    num_more = config.dimension if name == "agent" else 0
    return Inputs(config.max_num_points, config.dimension, num_more)


def towers_of(name: str, role: LearningRole, config: CommonConfig) -> tuple[Tower, ...]:
    """Return the towers of the role ``name``: one of Q-values, or a policy and a value."""
    tower = Tower(
        encoder=role.encoder,
        layers=parse(role.net_arch),
        activation=role.activation,
        num_outputs=num_actions(name, config.dimension),
        init="uniform",
        last_scale=1.0,
        dueling=isinstance(config, DQNConfig) and config.dqn.dueling,
    )
    if not isinstance(role, PPORole):
        return (tower,)
    policy = replace(tower, init=role.init, last_scale=role.last_policy_scale)
    value = replace(tower, init=role.init, layers=parse(role.value_net_arch), num_outputs=1)
    return policy, value


def role_layout(name: str, config: CommonConfig) -> WeightLayout:
    """Return the layout of the weights of a role that learns.

    Raises:
        KeyError: if the role does not learn.
    """
    towers = towers_of(name, config.learning()[name], config)
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
