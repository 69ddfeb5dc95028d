"""Policies: how hosts and agents choose, learned or scripted, alike for training and measuring.

Axes: P members, B games, N points, D coordinates, A actions.
A policy takes uniform noise float32 (P, B, 2) and an exploration rate float32 that broadcasts to
(P, B); with that probability it plays uniformly at random among its legal actions.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hpsearch.game.players import AGENTS, HOSTS, agent_player, host_player
from hpsearch.trainers.networks import Network

Observe = Callable[[Tensor], Tensor]


class HostPolicy(Protocol):
    """Chooses a subset of coordinates."""

    def __call__(self, points: Tensor, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B) for ``points`` int32 (P, B, N, D)."""
        ...


class AgentPolicy(Protocol):
    """Chooses an axis of the host's subset."""

    def __call__(
        self, points: Tensor, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B) for ``points`` and ``subset`` bool (P, B, D)."""
        ...


@dataclass(frozen=True)
class LearnedHost:
    """Plays the subset that its network values highest."""

    net: Network
    observe: Observe

    def __call__(self, points: Tensor, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        greedy = self.net(self.observe(points)).argmax(dim=-1)
        random = HOSTS["random"](points, noise[..., 1])
        return torch.where(noise[..., 0] < exploration, random, greedy)


@dataclass(frozen=True)
class LearnedAgent:
    """Plays the axis of the subset that its network values highest."""

    net: Network
    observe: Observe

    def __call__(
        self, points: Tensor, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        features = torch.cat([self.observe(points), subset.float()], dim=-1)
        greedy = legal_values(self.net(features), subset).argmax(dim=-1)
        random = AGENTS["random"](points, subset, noise[..., 1])
        return torch.where(noise[..., 0] < exploration, random, greedy)


@dataclass(frozen=True)
class ScriptedHostPolicy:
    """Plays a scripted host; never explores."""

    name: str

    def __call__(self, points: Tensor, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        return host_player(self.name)(points, noise[..., 1])


@dataclass(frozen=True)
class ScriptedAgentPolicy:
    """Plays a scripted agent; never explores."""

    name: str

    def __call__(
        self, points: Tensor, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        return agent_player(self.name)(points, subset, noise[..., 1])


def legal_values(values: Tensor, legal: Tensor) -> Tensor:
    """Return ``values`` (..., A) with minus infinity where ``legal`` (..., A) is false.

    The values of a net that diverged are raised above it: a legal action is always the best.
    """
    lowest = torch.finfo(values.dtype).min
    return values.clamp(min=lowest).masked_fill(~legal, -torch.inf)
