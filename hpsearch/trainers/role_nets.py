"""The networks of a role, and the policy that plays by them, as its configuration says."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.networks import Arithmetic, Network
from hpsearch.trainers.policies import Weigh, softmax, uniform
from hpsearch.trainers.towers import inputs_of, num_actions


@dataclass(frozen=True)
class Style:
    """How a role plays by its network."""

    weigh: Weigh
    """how it draws an action"""
    rate: float
    """how often it draws one while it is not asked to explore"""


def style(config: CommonConfig) -> Style:
    """Return how roles play: Q-learning its best action, an actor-critic by probabilities."""
    if config.plays_by == "probabilities":
        return Style(softmax, rate=1.0)
    return Style(uniform, rate=0.0)


def build_net(
    name: str, config: CommonConfig, seeds: Sequence[int], device: torch.device
) -> Network:
    """Return the fresh networks of the role ``name``, one member for each seed."""
    return Network(
        inputs_of(name, config),
        config.towers(name, num_actions(name, config.dimension)),
        Arithmetic(config.precision, config.compile),
        member_stream(seeds, device, name, "weights"),
    )


def member_stream(seeds: Sequence[int], device: torch.device, *purpose: str) -> Stream:
    """Return the random stream that each member's seed gives for one purpose."""
    keys = torch.tensor([derive_key(seed, *purpose) for seed in seeds], device=device)
    return Stream(keys, torch.zeros_like(keys))
