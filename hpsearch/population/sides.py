"""Hosts and agents that play together: banks of networks and scripted players, side by side.

Axes: P hosts, Q agents, R = P * Q rows, A games of each; in row p * Q + q host p meets agent q.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from typing import TypeVar

import torch
from torch import Tensor

from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    LearnedAgent,
    LearnedHost,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.position import Position
from hpsearch.trainers.role_nets import Style
from hpsearch.trainers.saved_player import SavedPlayer
from hpsearch.trainers.seats import RegroupedAgent, RegroupedHost


@dataclass(frozen=True)
class Hosts:
    """Hosts that one policy plays: the members of a bank, or a scripted one."""

    names: tuple[str, ...]
    policy: HostPolicy


@dataclass(frozen=True)
class Agents:
    """Agents that one policy plays: the members of a bank, or a scripted one."""

    names: tuple[str, ...]
    policy: AgentPolicy


G = TypeVar("G", Hosts, Agents)
Rows = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class HostSide:
    """Several `Hosts` as the one host policy of all R rows."""

    groups: tuple[Hosts, ...]
    num_agents: int
    """Q"""

    def __call__(self, position: Position, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (R, A)."""
        rate = exploration.expand(noise.shape[:2])
        actions = []
        for group, rows in _rows_of(self.groups, self.num_agents):
            host = RegroupedHost(group.policy, len(group.names))
            actions.append(host(position.map(rows), rows(noise), rows(rate)))
        return torch.cat(actions)


@dataclass(frozen=True)
class AgentSide:
    """Several `Agents` as the one agent policy of all R rows."""

    groups: tuple[Agents, ...]
    num_hosts: int
    """P"""

    def __call__(
        self, position: Position, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (R, A) in ``subset`` bool (R, A, D)."""
        swap = partial(_swap, num_outer=self.num_hosts)
        position, subset, noise = position.map(swap), swap(subset), swap(noise)
        rate = swap(exploration.expand(noise.shape[0], noise.shape[1]))
        axes = []
        for group, rows in _rows_of(self.groups, self.num_hosts):
            agent = RegroupedAgent(group.policy, len(group.names))
            axes.append(agent(position.map(rows), rows(subset), rows(noise), rows(rate)))
        return _swap(torch.cat(axes), sum(len(group.names) for group in self.groups))


def scripted_hosts(names: Sequence[str]) -> tuple[Hosts, ...]:
    """Return scripted hosts."""
    return tuple(Hosts((name,), ScriptedHostPolicy(name)) for name in names)


def scripted_agents(names: Sequence[str]) -> tuple[Agents, ...]:
    """Return scripted agents."""
    return tuple(Agents((name,), ScriptedAgentPolicy(name)) for name in names)


def host_banks(players: Mapping[str, SavedPlayer]) -> tuple[Hosts, ...]:
    """Return saved hosts by name, those of one structure as one bank."""
    return tuple(
        Hosts(tuple(bank), LearnedHost(stacked(bank), _style(bank).weigh))
        for bank in _banks(players)
    )


def agent_banks(players: Mapping[str, SavedPlayer]) -> tuple[Agents, ...]:
    """Return saved agents by name, those of one structure as one bank."""
    return tuple(
        Agents(tuple(bank), LearnedAgent(stacked(bank), _style(bank).weigh))
        for bank in _banks(players)
    )


def stacked(bank: Mapping[str, SavedPlayer]) -> Network:
    """Return the networks of players of one structure as one network of so many members."""
    players = list(bank.values())
    net = players[0].net.like(len(players))
    for name, tensor in net.state().items():
        tensor.copy_(torch.cat([player.net.state()[name] for player in players]))
    return net


def _banks(players: Mapping[str, SavedPlayer]) -> list[dict[str, SavedPlayer]]:
    banks: dict[Hashable, dict[str, SavedPlayer]] = {}
    for name, player in players.items():
        banks.setdefault((player.net.structure, player.style), {})[name] = player
    return list(banks.values())


def _style(bank: Mapping[str, SavedPlayer]) -> Style:
    return next(iter(bank.values())).style


def _rows_of(groups: Iterable[G], num_opponents: int) -> Iterator[tuple[G, Rows]]:
    """Yield each group and what takes its rows of a tensor (R, ...)."""
    first = 0
    for group in groups:
        end = first + len(group.names) * num_opponents
        yield group, itemgetter(slice(first, end))
        first = end


def _swap(tensor: Tensor, num_outer: int) -> Tensor:
    """Return rows (Q * P, ...) of rows (P * Q, ...), P being ``num_outer``."""
    swapped: Tensor = tensor.unflatten(0, (num_outer, -1)).transpose(0, 1).flatten(0, 1)
    return swapped
