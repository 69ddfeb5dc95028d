"""Policies: how hosts and agents choose, learned or scripted, alike for training and measuring.

Axes: P members, B games, N points, D coordinates, A actions.
A policy takes uniform noise float32 (P, B, 2) and an exploration rate float32 that broadcasts to
(P, B); with that probability it draws its action, from among the legal ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from hpsearch.game.players import agent_player, host_player
from hpsearch.trainers.networks import Network
from hpsearch.trainers.position import Position

Weigh = Callable[[Tensor, Tensor], Tensor]
"""from values and legal bool, both (P, B, A), to how often each action is drawn, (P, B, A)"""


class HostPolicy(Protocol):
    """Chooses a subset of coordinates."""

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        ...


class AgentPolicy(Protocol):
    """Chooses an axis of the host's subset."""

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B) in ``subset`` bool (P, B, D)."""
        ...


@dataclass(frozen=True)
class LearnedHost:
    """Plays the subset that its network values highest, or draws one."""

    net: Network
    weigh: Weigh

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        values = self.net(position.observation)
        every = torch.ones_like(values, dtype=torch.bool)
        return _choose(values, every, self.weigh, noise, exploration)


@dataclass(frozen=True)
class LearnedAgent:
    """Plays the axis of the subset that its network values highest, or draws one."""

    net: Network
    weigh: Weigh

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        values = self.net(agent_features(position.observation, subset))
        return _choose(values, subset, self.weigh, noise, exploration)


@dataclass(frozen=True)
class ScriptedHostPolicy:
    """Plays a scripted host; never explores."""

    name: str

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        return host_player(self.name)(position.points, noise[..., 1])


@dataclass(frozen=True)
class ScriptedAgentPolicy:
    """Plays a scripted agent; never explores."""

    name: str

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        return agent_player(self.name)(position.points, subset, noise[..., 1])


def scripted(role: str, name: str) -> HostPolicy | AgentPolicy:
    """Return the scripted player of ``role`` with a name."""
    return ScriptedHostPolicy(name) if role == "host" else ScriptedAgentPolicy(name)


def agent_features(observation: Tensor, subset: Tensor) -> Tensor:
    """Return what an agent sees: the points' observation, then the host's subset."""
    return torch.cat([observation, subset.to(observation.dtype)], dim=-1)


def legal_values(values: Tensor, legal: Tensor) -> Tensor:
    """Return ``values`` (..., A) with minus infinity where ``legal`` (..., A) is false.

    The values of a net that diverged are raised above it: a legal action is always the best.
    """
    lowest = torch.finfo(values.dtype).min
    return values.clamp(min=lowest).masked_fill(~legal, -torch.inf)


def uniform(values: Tensor, legal: Tensor) -> Tensor:
    """Weigh all legal actions alike."""
    return legal.to(values.dtype)


def softmax(values: Tensor, legal: Tensor) -> Tensor:
    """Weigh the legal actions by their probabilities; alike where the net has diverged."""
    probabilities = legal_values(values, legal).softmax(dim=-1)
    return probabilities.where(~probabilities.isnan(), legal.to(values.dtype))


def draw(weights: Tensor, noise: Tensor) -> Tensor:
    """Return an index int64 (...) drawn by ``weights`` (..., A) with uniform ``noise`` (...)."""
    # In float64 noise < 1 stays below 1 as a product: what has weight 0 is never drawn.
    cumulated = weights.double().cumsum(dim=-1)
    return (cumulated > noise[..., None] * cumulated[..., -1:]).to(torch.uint8).argmax(dim=-1)


def _choose(
    values: Tensor, legal: Tensor, weigh: Weigh, noise: Tensor, exploration: Tensor
) -> Tensor:
    greedy = legal_values(values, legal).argmax(dim=-1)
    drawn = draw(weigh(values, legal), noise[..., 1])
    return torch.where(noise[..., 0] < exploration, drawn, greedy)
