"""Measuring players: games from fixed starts that training never sees.

Axes: P members, G games, N points, D coordinates. Every member, opponent and mode (greedy, sampled)
meets the same starts.

Sample games, move by move, as text.

Axes: N points, D coordinates.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.random import derive_key
from hpsearch.game.rules import HostActionEncoder, points_text, subset_text
from hpsearch.game.stream import Stream
from hpsearch.trainers.metrics import MODES, PANELS, entropy_name, panel_name, worst_name
from hpsearch.trainers.playing import NOISE, ActionTally, Games, games, play, pooled_entropy
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    Position,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.rho import Lengths, Rho, panel, rho, worst
from hpsearch.trainers.towers import num_actions

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


def together(first: Evaluation, other: Evaluation) -> Evaluation:
    """Return what was measured of both roles of a member."""
    return Evaluation(
        {**first.metrics, **other.metrics},
        {**first.games, **other.games},
        {**first.entropies, **other.entropies},
    )


def measure_hosts(
    policy: HostPolicy, agents: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``agents``: rho/host/NAME and the like."""
    return [host.metrics for host in evaluate_hosts(policy, agents, num_members, how)]


def measure_agents(
    policy: AgentPolicy, hosts: Sequence[str], num_members: int, how: Measurement
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``hosts``: rho/agent/NAME and the like."""
    return [agent.metrics for agent in evaluate_agents(policy, hosts, num_members, how)]


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
        for name, part in played.items():
            metrics[f"{mode}/{role}/{name}"] = rho(part.lengths, BOOTSTRAP_SEED)
            counted[f"{mode}/{role}/{name}"] = part.games
        if set(PANELS[role]) <= set(played):
            panel_games = [played[name].lengths for name in PANELS[role]]
            metrics[panel_name(mode, role)] = panel(panel_games, BOOTSTRAP_SEED)
            metrics[worst_name(mode, role)] = worst(role, panel_games, BOOTSTRAP_SEED)
        entropies[entropy_name(mode, role)] = pooled_entropy(play.games for play in played.values())
    return Evaluation(metrics, counted, entropies)


MAX_POINTS_WIDTH = 72
"""characters of a position that a line shows; longer ones are cut"""


@dataclass(frozen=True)
class Move:
    """One move: what both chose in a position, and how many points it left."""

    points: Tensor
    """int32 (N, D), the position before"""
    subset: Tensor
    """bool (D,), the host's choice"""
    axis: int
    """the agent's choice"""
    points_left: int


@dataclass(frozen=True)
class GameRecord:
    """One game, whole or cut off."""

    moves: tuple[Move, ...]
    last: Tensor
    """int32 (N, D), the position after the last move"""
    is_over: bool
    """false if the game was cut off or exceeds the bound of the rules"""


@torch.no_grad()
def record_game(
    host: HostPolicy,
    agent: AgentPolicy,
    start: Tensor,
    *,
    max_steps: int,
    reposition: bool,
    exploration: tuple[float, float],
    key: int,
) -> GameRecord:
    """Play one game.

    Args:
        host: sees positions (1, 1, N, D), as the agent does.
        agent: the other player.
        start: int32 (N, D), canonical; the game is played on its device.
        max_steps: moves after which the game is cut off.
        reposition: subtract each coordinate's minimum after a move.
        exploration: the host's and the agent's rate.
        key: of the random numbers, from `derive_key`.
    """
    kernel = BACKENDS[default_backend(start.device)]
    encoder = HostActionEncoder(start.shape[-1])
    keys = torch.tensor([key], device=start.device)
    noise = Stream(keys, torch.zeros_like(keys))
    host_rate, agent_rate = torch.tensor(exploration, device=start.device).split(1)
    points, is_capped = start, False
    moves: list[Move] = []
    while not rules.is_over(points) and not is_capped and len(moves) < max_steps:
        numbers = noise.uniform(NOISE).unsqueeze(0)
        seen = Position.of(points[None, None])
        subset = encoder.decode(host(seen, numbers[..., :2], host_rate))
        axis = agent(seen, subset, numbers[..., 2:], agent_rate)
        after, capped = kernel.move(seen.points, subset, axis, reposition)
        num_left = int(rules.is_live(after).sum())
        moves.append(Move(points.cpu(), subset[0, 0].cpu(), int(axis), num_left))
        points, is_capped = after[0, 0], bool(capped)
    is_over = bool(rules.is_over(points)) and not is_capped
    return GameRecord(tuple(moves), points.cpu(), is_over)


def transcript(game: GameRecord) -> str:
    """Write a game, a line a move: number, position, subset, axis, points left."""
    positions = [_cut(points_text(move.points)) for move in game.moves]
    width = max(map(len, positions), default=0)
    subsets = [subset_text(move.subset) for move in game.moves]
    subset_width = max(map(len, subsets), default=0)
    lines = [
        f"{number:3}  {position:{width}}  host {subset:{subset_width}}  agent {move.axis}"
        f"  points {move.points_left}"
        for number, (move, position, subset) in enumerate(
            zip(game.moves, positions, subsets, strict=True), start=1
        )
    ]
    end = "over" if game.is_over else "not over"
    moves = f"{len(game.moves)} move" + "s" * (len(game.moves) != 1)
    return "\n".join([*lines, f"{end} after {moves}: {_cut(points_text(game.last))}"])


def _cut(text: str) -> str:
    return text if len(text) <= MAX_POINTS_WIDTH else text[: MAX_POINTS_WIDTH - 4] + " ..."
