"""Measuring players: games from fixed starts that training never sees.

Axes: P members, G games, K opponents, N points, D coordinates. The lanes of one batch are ordered
opponent by opponent, greedy before sampled; every member, opponent and mode meets the same starts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.philox import Stream, derive_key
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.rho import Lengths, Rho, panel, rho

MODES = ("rho", "rho_sampled")
PANELS = {
    "host": ("choose_first", "choose_last", "random"),
    "agent": ("random", "all_coord", "zeillinger"),
}
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


@dataclass(frozen=True)
class HostPanel:
    """Several hosts, each playing its share of the lanes."""

    hosts: tuple[HostPolicy, ...]

    def __call__(self, points: Tensor, noise: Tensor, exploration: Tensor) -> Tensor:
        """Return the action index int64 (P, K * G)."""
        lanes = zip(self.hosts, *(t.chunk(len(self.hosts), 1) for t in (points, noise)), strict=True)
        return torch.cat([host(p, n, exploration) for host, p, n in lanes], dim=1)


@dataclass(frozen=True)
class AgentPanel:
    """Several agents, each playing its share of the lanes."""

    agents: tuple[AgentPolicy, ...]

    def __call__(
        self, points: Tensor, subset: Tensor, noise: Tensor, exploration: Tensor
    ) -> Tensor:
        """Return the axis int64 (P, K * G)."""
        parts = (t.chunk(len(self.agents), 1) for t in (points, subset, noise))
        lanes = zip(self.agents, *parts, strict=True)
        return torch.cat([agent(p, s, n, exploration) for agent, p, s, n in lanes], dim=1)


def measure_hosts(
    policy: HostPolicy, agents: Sequence[str], num_members: int, how: Measurement, device: torch.device
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``agents``: rho/host/NAME and the like."""
    opponents = AgentPanel(tuple(ScriptedAgentPolicy(name) for name in agents))
    lengths = _play_panel(policy, opponents, len(agents), num_members, how, device, "host")
    return [_metrics("host", agents, games) for games in lengths]


def measure_agents(
    policy: AgentPolicy, hosts: Sequence[str], num_members: int, how: Measurement, device: torch.device
) -> list[Metrics]:
    """Return each member's metrics against the scripted ``hosts``: rho/agent/NAME and the like."""
    opponents = HostPanel(tuple(ScriptedHostPolicy(name) for name in hosts))
    lengths = _play_panel(opponents, policy, len(hosts), num_members, how, device, "agent")
    return [_metrics("agent", hosts, games) for games in lengths]


def _play_panel(
    host: HostPolicy,
    agent: AgentPolicy,
    num_opponents: int,
    num_members: int,
    how: Measurement,
    device: torch.device,
    learner: str,
) -> list[list[Lengths]]:
    """Return the lengths of each member's games, lane after lane: opponents times modes."""
    key = torch.tensor([derive_key("evaluation", how.split)], device=device)
    starts = FusedGame(how.game, key, how.num_games, device, default_backend(device)).points
    starts = starts.repeat(num_members, num_opponents * len(MODES), 1, 1)
    rates = torch.tensor([0.0, how.exploration], device=device).repeat_interleave(how.num_games)
    explore, never = rates.repeat(num_opponents), torch.zeros((), device=device)
    moves, finished = play(
        host,
        agent,
        starts,
        max_steps=how.max_steps,
        reposition=how.game.reposition,
        exploration=(explore, never) if learner == "host" else (never, explore),
        stream=Stream(key.repeat(num_members), torch.zeros_like(key).repeat(num_members)),
    )
    lanes = num_opponents * len(MODES)
    return [
        [Lengths(m.numpy(), f.numpy()) for m, f in zip(ms.chunk(lanes), fs.chunk(lanes), strict=True)]
        for ms, fs in zip(moves.cpu(), finished.cpu(), strict=True)
    ]


@torch.no_grad()
def play(
    host: HostPolicy,
    agent: AgentPolicy,
    starts: Tensor,
    *,
    max_steps: int,
    reposition: bool,
    exploration: tuple[Tensor, Tensor],
    stream: Stream,
) -> tuple[Tensor, Tensor]:
    """Play from ``starts`` int32 (P, G, N, D), none of them over, for at most ``max_steps`` moves.

    ``exploration`` holds the host's and the agent's rates, broadcasting to (P, G); ``stream`` has
    a row a member. A game with a coordinate beyond the rules' bound stays unfinished.

    Returns:
        moves int64 (P, G), ``max_steps`` where the game did not finish, and finished bool (P, G).
    """
    kernel = BACKENDS[default_backend(starts.device)]
    encoder = HostActionEncoder(starts.shape[-1])
    points, num_games = starts, starts.shape[1]
    moves = torch.zeros(starts.shape[:2], dtype=torch.int64, device=starts.device)
    finished = torch.zeros_like(moves, dtype=torch.bool)
    stopped = torch.zeros_like(finished)
    for _ in range(max_steps):
        noise = stream.uniform(num_games * 4).unflatten(1, (num_games, 4))
        subset = encoder.decode(host(points, noise[..., :2], exploration[0]))
        axis = agent(points, subset, noise[..., 2:], exploration[1])
        points = kernel.move(points, subset, axis, reposition)
        moves += ~stopped
        finished |= rules.is_over(points) & ~stopped
        stopped |= finished | rules.is_capped(points)
        # A CPU may look at the games; on a GPU a look would wait for the device.
        if starts.device.type == "cpu" and bool(stopped.all()):
            break
    return torch.where(finished, moves, max_steps), finished


def _metrics(role: str, names: Sequence[str], games: Sequence[Lengths]) -> Metrics:
    """Return the metrics of one member from its lanes."""
    metrics: Metrics = {}
    for index, mode in enumerate(MODES):
        by_name = dict(zip(names, games[index :: len(MODES)], strict=True))
        for name, lengths in by_name.items():
            metrics[f"{mode}/{role}/{name}"] = rho(lengths, seed=0)
        if set(PANELS[role]) <= set(by_name):
            kind = mode.replace("rho", "panel")
            metrics[f"{kind}/{role}"] = panel([by_name[name] for name in PANELS[role]], seed=0)
    return metrics


def metric_names(opponents: dict[str, tuple[str, ...]]) -> Iterator[str]:
    """Yield the metrics that learning roles with these ``opponents`` are measured by."""
    for role, names in opponents.items():
        for mode in MODES:
            yield from (f"{mode}/{role}/{name}" for name in names)
            if set(PANELS[role]) <= set(names):
                yield f"{mode.replace('rho', 'panel')}/{role}"
