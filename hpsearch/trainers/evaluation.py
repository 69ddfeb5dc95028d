"""Measuring players: games from fixed starts that training never sees.

Axes: P members, G games, N points, D coordinates. Every member, opponent and mode (greedy, sampled)
meets the same starts.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import default_backend
from hpsearch.game.philox import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.histograms import ActionTally, Games, games, pooled_entropy
from hpsearch.trainers.metrics import MODES, PANELS, entropy_name, panel_name, worst_name
from hpsearch.trainers.playing import play
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.rho import Lengths, Rho, panel, rho, worst
from hpsearch.trainers.role_nets import num_actions

Metrics = dict[str, Rho]
Counted = dict[str, Games]
BOOTSTRAP_SEED: Final = 0
"""of all intervals"""


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


def starts_key(split: str) -> int:
    """Return the key that the starts of a split are drawn by."""
    return derive_key("evaluation", split)


def noise_key_of(split: str) -> int:
    """Return the key that players' moves are drawn by on the starts of a split."""
    return derive_key("evaluation noise", split)


@dataclass(frozen=True)
class Evaluation:
    """What was measured of one role of one member."""

    metrics: Metrics
    """rho/ROLE/NAME, rho_sampled/ROLE/NAME and, against a whole panel, panel/ROLE, worst/ROLE and
    their like"""
    games: Counted
    """by the names of rho: the games that it was measured on"""
    entropies: dict[str, float]
    """entropy/ROLE, entropy_sampled/ROLE: of the role's actions, in nats"""


def together(one: Evaluation, other: Evaluation) -> Evaluation:
    """Return what was measured of both roles of a member."""
    return Evaluation(
        {**one.metrics, **other.metrics},
        {**one.games, **other.games},
        {**one.entropies, **other.entropies},
    )


def measure_hosts(
    policy: HostPolicy, agents: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``agents``: rho/host/NAME and the like."""
    return [one.metrics for one in evaluate_hosts(policy, agents, num_members, how)]


def measure_agents(
    policy: AgentPolicy, hosts: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``hosts``: rho/agent/NAME and the like."""
    return [one.metrics for one in evaluate_agents(policy, hosts, num_members, how)]


def evaluate_hosts(
    policy: HostPolicy, agents: Sequence[str], num_members: int, how: Measurement
) -> list[Evaluation]:
    """Return what each member does against the scripted ``agents``."""
    opponents = {name: ScriptedAgentPolicy(name) for name in agents}
    return evaluate_hosts_against(policy, opponents, num_members, how)


def evaluate_agents(
    policy: AgentPolicy, hosts: Sequence[str], num_members: int, how: Measurement
) -> list[Evaluation]:
    """Return what each member does against the scripted ``hosts``."""
    opponents = {name: ScriptedHostPolicy(name) for name in hosts}
    return evaluate_agents_against(policy, opponents, num_members, how)


def evaluate_hosts_against(
    policy: HostPolicy, agents: Mapping[str, AgentPolicy], num_members: int, how: Measurement
) -> list[Evaluation]:
    """Return what each member does against any ``agents``, by name; these do not explore."""
    by_name = {
        name: _play_modes(policy, agent, num_members, how, learner="host")
        for name, agent in agents.items()
    }
    return [_evaluation("host", by_name, member) for member in range(num_members)]


def evaluate_agents_against(
    policy: AgentPolicy, hosts: Mapping[str, HostPolicy], num_members: int, how: Measurement
) -> list[Evaluation]:
    """Return what each member does against any ``hosts``, by name; these do not explore."""
    by_name = {
        name: _play_modes(host, policy, num_members, how, learner="agent")
        for name, host in hosts.items()
    }
    return [_evaluation("agent", by_name, member) for member in range(num_members)]


@dataclass(frozen=True)
class _Played:
    """One member's games in one mode against one opponent."""

    lengths: Lengths
    games: Games


def _play_modes(
    host: HostPolicy, agent: AgentPolicy, num_members: int, how: Measurement, *, learner: str
) -> list[list[_Played]]:
    """Return each mode's and each member's games against one opponent."""
    key = torch.tensor([starts_key(how.split)], device=how.device)
    noise_key = torch.tensor([noise_key_of(how.split)], device=how.device)
    backend = default_backend(how.device)
    starts = FusedGame(how.game, key, how.num_games, how.device, backend, observes=False).points
    modes = torch.arange(len(how.modes), device=how.device).repeat_interleave(how.num_games)
    rates = torch.tensor([0.0, how.exploration], device=how.device)
    explore, never = rates[modes], torch.zeros(1, device=how.device)
    tally = ActionTally(
        learner,
        num_members=num_members,
        num_modes=len(how.modes),
        num_actions=num_actions(learner, how.game.dimension),
        modes=modes,
    )
    moves, finished = play(
        host,
        agent,
        starts.repeat(num_members, len(how.modes), 1, 1),
        max_steps=how.max_steps,
        reposition=how.game.reposition,
        exploration=(explore, never) if learner == "host" else (never, explore),
        stream=Stream(noise_key.repeat(num_members), torch.zeros_like(key).repeat(num_members)),
        tally=tally,
    )
    chunks = zip(
        moves.cpu().chunk(len(how.modes), 1),
        finished.cpu().chunk(len(how.modes), 1),
        tally.counts.cpu().unbind(1),
        strict=True,
    )
    return [
        [_played(Lengths(m.numpy(), f.numpy()), a) for m, f, a in zip(*chunk, strict=True)]
        for chunk in chunks
    ]


def _played(lengths: Lengths, actions: Tensor) -> _Played:
    return _Played(lengths, games(lengths, actions.tolist()))


def _evaluation(role: str, by_name: Mapping[str, list[list[_Played]]], member: int) -> Evaluation:
    """Return what was measured of one member from its games by opponent, mode and member."""
    metrics: Metrics = {}
    counted: Counted = {}
    entropies: dict[str, float] = {}
    num_modes = len(next(iter(by_name.values())))
    for index, mode in enumerate(MODES[:num_modes]):
        played = {name: modes[index][member] for name, modes in by_name.items()}
        for name, one in played.items():
            metrics[f"{mode}/{role}/{name}"] = rho(one.lengths, BOOTSTRAP_SEED)
            counted[f"{mode}/{role}/{name}"] = one.games
        if set(PANELS[role]) <= set(played):
            panel_games = [played[name].lengths for name in PANELS[role]]
            metrics[panel_name(mode, role)] = panel(panel_games, BOOTSTRAP_SEED)
            metrics[worst_name(mode, role)] = worst(role, panel_games, BOOTSTRAP_SEED)
        entropies[entropy_name(mode, role)] = pooled_entropy(one.games for one in played.values())
    return Evaluation(metrics, counted, entropies)
