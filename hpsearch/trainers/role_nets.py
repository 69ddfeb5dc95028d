"""The networks of a role, and the policy that plays by them, as its configuration says."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from hpsearch.game.random import derive_key
from hpsearch.game.rules import HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.trainers.config import CommonConfig, DQNConfig, LearningRole, PPORole, net_arch
from hpsearch.trainers.networks import Arithmetic, Inputs, Network, Tower, num_weights
from hpsearch.trainers.policies import Weigh, softmax, uniform

POLICY, VALUE = 0, 1
"""towers of an actor-critic"""


@dataclass(frozen=True)
class Style:
    """How a role plays by its network."""

    weigh: Weigh
    """how it draws an action"""
    rate: float
    """how often it draws one while it is not asked to explore"""


def style(role: LearningRole) -> Style:
    """Return how a role plays: Q-learning its best action, an actor-critic by probabilities."""
    return Style(softmax, rate=1.0) if isinstance(role, PPORole) else Style(uniform, rate=0.0)


def build_net(
    name: str, role: LearningRole, config: CommonConfig, seeds: Sequence[int], device: torch.device
) -> Network:
    """Return the fresh networks of the role ``name``, one member for each seed."""
    return Network(
        _inputs(name, config),
        _towers(role, num_actions(name, config.dimension), config),
        Arithmetic(config.precision, config.compile),
        member_stream(seeds, device, name, "weights"),
    )


def num_actions(name: str, dimension: int) -> int:
    """Return the number of a role's actions: subsets for the host, axes for the agent."""
    return HostActionEncoder(dimension).num_actions if name == "host" else dimension


def net_size(name: str, role: LearningRole, config: CommonConfig) -> int:
    """Return how many weights one member of `build_net` has, without drawing them."""
    towers = _towers(role, num_actions(name, config.dimension), config)
    return num_weights(_inputs(name, config), towers)


def member_stream(seeds: Sequence[int], device: torch.device, *purpose: str) -> Stream:
    """Return the random stream that each member's seed gives for one purpose."""
    keys = torch.tensor([derive_key(seed, *purpose) for seed in seeds], device=device)
    return Stream(keys, torch.zeros_like(keys))


def _inputs(name: str, config: CommonConfig) -> Inputs:
    num_more = config.dimension if name == "agent" else 0
    return Inputs(config.max_num_points, config.dimension, num_more)


def _towers(role: LearningRole, num_outputs: int, config: CommonConfig) -> list[Tower]:
    tower = Tower(
        encoder=role.encoder,
        layers=net_arch.parse(role.net_arch),
        activation=role.activation,
        num_outputs=num_outputs,
        init="uniform",
        last_scale=1.0,
        dueling=isinstance(config, DQNConfig) and config.dqn.dueling,
    )
    if not isinstance(role, PPORole):
        return [tower]
    policy = replace(tower, init=role.init, last_scale=role.last_policy_scale)
    value = replace(
        tower, init=role.init, layers=net_arch.parse(role.value_net_arch), num_outputs=1
    )
    return [policy, value]
