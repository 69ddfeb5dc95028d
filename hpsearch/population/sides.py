"""Hosts and agents that play together: banks of networks and scripted players, side by side.

Axes: P hosts, Q agents, R = P * Q rows, A games of each; in row p * Q + q host p meets agent q.
"""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    LearnedAgent,
    LearnedHost,
    Observe,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
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


@dataclass(frozen=True)
class HostSide:
    """Several `Hosts` as the one host policy of all R rows."""

    groups: tuple[Hosts, ...]
    num_agents: int
    """Q"""

    def __call__(self, points: Tensor, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (R, A) for ``points`` int32 (R, A, N, D)."""
        rate = exploration.expand(noise.shape[:2])
        sizes = [len(group.names) * self.num_agents for group in self.groups]
        parts = zip(*(tensor.split(sizes) for tensor in (points, noise, rate)), strict=True)
        return torch.cat(
            [
                RegroupedHost(group.policy, len(group.names))(*part)
                for group, part in zip(self.groups, parts, strict=True)
            ]
        )


@dataclass(frozen=True)
class AgentSide:
    """Several `Agents` as the one agent policy of all R rows."""

    groups: tuple[Agents, ...]
    num_hosts: int
    """P"""

    def __call__(
        self, points: Tensor, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (R, A) for ``points`` and ``subset`` bool (R, A, D)."""
        rate = exploration.expand(noise.shape[:2])
        sizes = [len(group.names) * self.num_hosts for group in self.groups]
        by_agent = (_swap(tensor, self.num_hosts) for tensor in (points, subset, noise, rate))
        parts = zip(*(tensor.split(sizes) for tensor in by_agent), strict=True)
        axes = [
            RegroupedAgent(group.policy, len(group.names))(*part)
            for group, part in zip(self.groups, parts, strict=True)
        ]
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
        Hosts(tuple(bank), LearnedHost(stacked(bank), _observe(bank), _style(bank).weigh))
        for bank in _banks(players)
    )


def agent_banks(players: Mapping[str, SavedPlayer]) -> tuple[Agents, ...]:
    """Return saved agents by name, those of one structure as one bank."""
    return tuple(
        Agents(tuple(bank), LearnedAgent(stacked(bank), _observe(bank), _style(bank).weigh))
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


def _observe(bank: Mapping[str, SavedPlayer]) -> Observe:
    device = next(iter(bank.values())).net.weights.device
    return BACKENDS[default_backend(device)].observe


def _swap(tensor: Tensor, num_outer: int) -> Tensor:
    """Return rows (Q * P, ...) of rows (P * Q, ...), P being ``num_outer``."""
    swapped: Tensor = tensor.unflatten(0, (num_outer, -1)).transpose(0, 1).flatten(0, 1)
    return swapped
