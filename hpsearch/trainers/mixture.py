"""Several opponents of a learning role: each game draws one by their weights and keeps it.

Axes: P members, B games, K opponents, D coordinates.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor

from hpsearch.trainers.policies import AgentPolicy, HostPolicy, draw
from hpsearch.trainers.position import Position

Uniform = Callable[[Tensor, Tensor, int], Tensor]
"""a kernel's counter-based random numbers: of keys (Q,), counters (Q,) and a count"""


class Draws:
    """Which of K opponents each game has.

    The opponent of start s in lane b of member p is a function of (keys[p], b, s), as the start
    itself is, so there is nothing that a checkpoint would have to keep.

    Attributes:
        keys: int64 (P,), one for each member.
        opponent: int64 (P, B), the number of each game's opponent; changed in place.
    """

    def __init__(self, weights: Sequence[float], keys: Tensor, num_games: int) -> None:
        """Draw by ``weights``, K of them, for ``num_games`` games of each member."""
        self.keys = keys
        shape = (len(keys), num_games)
        self.opponent = torch.zeros(shape, dtype=torch.int64, device=keys.device)
        self._weights = torch.tensor(weights, dtype=torch.float64, device=keys.device)
        self._lanes = torch.arange(num_games, device=keys.device)

    def draw(self, starts: Tensor, uniform: Uniform) -> None:
        """Draw the opponents of the games with the numbers ``starts``, int64 (P, B)."""
        num_games = len(self._lanes)
        keys = self.keys[:, None].expand_as(starts)
        counters = starts * num_games + self._lanes
        noise = uniform(keys.flatten(), counters.flatten(), 1).reshape(starts.shape)
        weights = self._weights.expand(*starts.shape, -1)
        self.opponent.copy_(draw(weights, noise))


@dataclass(frozen=True)
class MixedHost:
    """K hosts, of which each game meets the one that was drawn for it."""

    policies: tuple[HostPolicy, ...]
    draws: Draws

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, B)."""
        actions = [policy(position, noise, exploration) for policy in self.policies]
        return _drawn(actions, self.draws)


@dataclass(frozen=True)
class MixedAgent:
    """K agents, of which each game meets the one that was drawn for it."""

    policies: tuple[AgentPolicy, ...]
    draws: Draws

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, B)."""
        axes = [policy(position, subset, noise, exploration) for policy in self.policies]
        return _drawn(axes, self.draws)


def mixed(
    role: str, policies: Sequence[HostPolicy | AgentPolicy], draws: Draws
) -> HostPolicy | AgentPolicy:
    """Return a policy of ``role`` that plays each game by the one that was drawn for it."""
    if role == "host":
        return MixedHost(tuple(cast(HostPolicy, one) for one in policies), draws)
    return MixedAgent(tuple(cast(AgentPolicy, one) for one in policies), draws)


def _drawn(choices: Sequence[Tensor], draws: Draws) -> Tensor:
    """Return of K choices int64 (P, B) that of each game's opponent."""
    return torch.stack(list(choices)).gather(0, draws.opponent[None]).squeeze(0)
