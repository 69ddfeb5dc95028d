"""Policies: how hosts and agents choose, learned or scripted, alike for training and measuring.

Axes: P members, B games, N points, D coordinates, A actions.
A policy takes uniform noise float32 (P, B, 2) and an exploration rate float32 that broadcasts to
(P, B); with that probability it draws its action, from among the legal ones.

Positions as players see them.

Axes: P members, B games, N points, D coordinates.

Who sits opposite a learner: policies that play by themselves, whatever exploration is asked.

Axes: P members, B games, S snapshots at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, cast

import torch
from torch import Tensor

from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.players import agent_player, host_player
from hpsearch.trainers.networks import Network


class Position:
    """The positions of P x B games; what networks see of them is computed when first asked for.

    Attributes:
        points: int32 (P, B, N, D).
        observation: float32 (P, B, N * D), see `rules.observe`.
    """

    def __init__(self, points: Tensor, observe: Callable[[], Tensor]) -> None:
        """Take points, and what gives their observation."""
        self.points = points
        self._observe = observe

    @classmethod
    def of(cls, points: Tensor) -> "Position":
        """Return the position of ``points`` int32 (P, B, N, D), to be observed where need be."""
        return cls(points, lambda: BACKENDS[default_backend(points.device)].observe(points))

    @cached_property
    def observation(self) -> Tensor:
        """Return the points scaled to [0, 1], all in one row, float32 (P, B, N * D)."""
        return self._observe()

    def map(self, function: Callable[[Tensor], Tensor]) -> "Position":
        """Return what ``function`` makes of the games' axes, such as some of the games."""
        return Position(function(self.points), lambda: function(self.observation))


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


@dataclass(frozen=True)
class HostSeat:
    """A host that draws its action at a rate of its own."""

    policy: HostPolicy
    rate: float

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        return self.policy(position, noise, torch.full_like(noise[..., 0], self.rate))


@dataclass(frozen=True)
class AgentSeat:
    """An agent that draws its action at a rate of its own."""

    policy: AgentPolicy
    rate: float

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        return self.policy(position, subset, noise, torch.full_like(noise[..., 0], self.rate))


@dataclass(frozen=True)
class RegroupedHost:
    """A host of R members that plays the games of P others, P * B / R games each."""

    policy: HostPolicy
    num_rows: int
    """R, a multiple of P or 1"""

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        rate = exploration.expand(noise.shape[:2])
        regroup = partial(_regroup, num_rows=self.num_rows)
        chosen = self.policy(position.map(regroup), regroup(noise), regroup(rate))
        return chosen.reshape(noise.shape[:2])


@dataclass(frozen=True)
class RegroupedAgent:
    """An agent of R members that plays the games of P others, P * B / R games each."""

    policy: AgentPolicy
    num_rows: int
    """R, a multiple of P or 1"""

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        rate = exploration.expand(noise.shape[:2])
        regroup = partial(_regroup, num_rows=self.num_rows)
        chosen = self.policy(position.map(regroup), regroup(subset), regroup(noise), regroup(rate))
        return chosen.reshape(noise.shape[:2])


def _regroup(tensor: Tensor, num_rows: int) -> Tensor:
    """Return (R, P * B / R, ...) of (P, B, ...)."""
    return tensor.reshape(num_rows, -1, *tensor.shape[2:])


def seat_of(role: str, policy: HostPolicy | AgentPolicy, rate: float) -> HostSeat | AgentSeat:
    """Return a policy of ``role`` that draws its actions at ``rate``."""
    if role == "host":
        return HostSeat(cast(HostPolicy, policy), rate)
    return AgentSeat(cast(AgentPolicy, policy), rate)


def regrouped(
    role: str, policy: HostPolicy | AgentPolicy, num_rows: int
) -> RegroupedHost | RegroupedAgent:
    """Return a policy of ``role`` with ``num_rows`` members that plays the games of others."""
    if role == "host":
        return RegroupedHost(cast(HostPolicy, policy), num_rows)
    return RegroupedAgent(cast(AgentPolicy, policy), num_rows)
