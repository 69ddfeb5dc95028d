"""Who sits opposite a learner: policies that play by themselves, whatever exploration is asked.

Axes: P members, B games, S snapshots at once.
"""

from dataclasses import dataclass
from functools import partial
from typing import cast

import torch
from torch import Tensor

from hpsearch.trainers.policies import AgentPolicy, HostPolicy
from hpsearch.trainers.position import Position


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
