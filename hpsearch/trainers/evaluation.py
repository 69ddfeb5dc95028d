"""Measuring players: games from fixed starts that training never sees.

Axes: P members, G games, N points, D coordinates. Every member, opponent and mode (greedy, sampled)
meets the same starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import default_backend
from hpsearch.game.philox import Stream, derive_key
from hpsearch.trainers.metrics import MODES, PANELS, panel_name
from hpsearch.trainers.playing import play
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.rho import Lengths, Rho, panel, rho

Metrics = dict[str, Rho]


@dataclass(frozen=True)
class Measurement:
    """How players are measured."""

    game: GameConfig
    num_games: int
    """games an opponent and mode, G"""
    max_steps: int
    """moves after which a game counts as unfinished"""
    exploration: float
    """exploration rate of the sampled policy"""
    split: str
    """name of the set of starts; sets of different names are independent"""
    modes: tuple[str, ...]
    """MODES, or only the first: what never explores plays the same in both"""
    device: torch.device


def measure_hosts(
    policy: HostPolicy, agents: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``agents``: rho/host/NAME and the like."""
    by_name = {
        name: _play_modes(policy, ScriptedAgentPolicy(name), num_members, how, learner="host")
        for name in agents
    }
    return [_metrics("host", by_name, member) for member in range(num_members)]


def measure_agents(
    policy: AgentPolicy, hosts: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``hosts``: rho/agent/NAME and the like."""
    by_name = {
        name: _play_modes(ScriptedHostPolicy(name), policy, num_members, how, learner="agent")
        for name in hosts
    }
    return [_metrics("agent", by_name, member) for member in range(num_members)]


def _play_modes(
    host: HostPolicy, agent: AgentPolicy, num_members: int, how: Measurement, *, learner: str
) -> list[list[Lengths]]:
    """Return the lengths of each mode's and each member's games against one opponent."""
    key = torch.tensor([derive_key("evaluation", how.split)], device=how.device)
    noise_key = torch.tensor([derive_key("evaluation noise", how.split)], device=how.device)
    backend = default_backend(how.device)
    starts = FusedGame(how.game, key, how.num_games, how.device, backend).points
    rates = torch.tensor([0.0, how.exploration], device=how.device)[: len(how.modes)]
    explore, never = rates.repeat_interleave(how.num_games), torch.zeros(1, device=how.device)
    moves, finished = play(
        host,
        agent,
        starts.repeat(num_members, len(how.modes), 1, 1),
        max_steps=how.max_steps,
        reposition=how.game.reposition,
        exploration=(explore, never) if learner == "host" else (never, explore),
        stream=Stream(noise_key.repeat(num_members), torch.zeros_like(key).repeat(num_members)),
    )
    chunks = zip(moves.cpu().chunk(len(rates), 1), finished.cpu().chunk(len(rates), 1), strict=True)
    return [
        [Lengths(m.numpy(), f.numpy()) for m, f in zip(ms, fs, strict=True)] for ms, fs in chunks
    ]


def _metrics(role: str, by_name: Mapping[str, list[list[Lengths]]], member: int) -> Metrics:
    """Return one member's metrics from the lengths by opponent, mode and member."""
    metrics: Metrics = {}
    num_modes = len(next(iter(by_name.values())))
    for index, mode in enumerate(MODES[:num_modes]):
        games = {name: modes[index][member] for name, modes in by_name.items()}
        for name, lengths in games.items():
            metrics[f"{mode}/{role}/{name}"] = rho(lengths, seed=0)
        if set(PANELS[role]) <= set(games):
            metrics[panel_name(mode, role)] = panel([games[name] for name in PANELS[role]], seed=0)
    return metrics
