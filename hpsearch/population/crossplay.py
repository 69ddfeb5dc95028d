"""Cross-play: every host against every agent, from the same starts, in one batched call.

Axes: P hosts, Q agents, G games of each pair, R bootstrap samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from hpsearch.game.fused_game import GameConfig
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.stream import Stream
from hpsearch.population.sides import Agents, AgentSide, Hosts, HostSide
from hpsearch.trainers.evaluation import noise_key_of, starts_key
from hpsearch.trainers.playing import play
from hpsearch.trainers.rho import Floats, Lengths, Rho, rho


@dataclass(frozen=True)
class CrossPlay:
    """How long the games of every pair took."""

    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    moves: npt.NDArray[np.int64]
    """(P, Q, G), the cap where a game did not finish; game g of every pair has the same start"""
    finished: npt.NDArray[np.bool_]
    """(P, Q, G)"""

    def rho(self) -> Floats:
        """Return games decided a move, (P, Q): high where the host is strong; see `Rho`."""
        values: Floats = 1.0 / self.moves.mean(axis=2)
        return values

    def cell(self, host: str, agent: str) -> Rho:
        """Return one pair's rho with its interval.

        Raises:
            ValueError: if there is no player of that name.
        """
        p, q = self.hosts.index(host), self.agents.index(agent)
        return rho(Lengths(self.moves[p, q], self.finished[p, q]), seed=0)


def crossplay(
    hosts: Sequence[Hosts],
    agents: Sequence[Agents],
    game: GameConfig,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    device: torch.device,
) -> CrossPlay:
    """Let every host play every agent, both greedily, ``num_games`` games a pair.

    Args:
        hosts: P in all, each name once.
        agents: Q in all, each name once.
        game: which starts, and how a move is made.
        num_games: G.
        max_steps: moves after which a game counts as unfinished.
        split: name of the set of starts; sets of different names are independent.
        device: where the players' networks are.

    Raises:
        ValueError: if a side is empty, or a name stands twice on it.
    """
    host_names = tuple(name for group in hosts for name in group.names)
    agent_names = tuple(name for group in agents for name in group.names)
    for side, names in (("hosts", host_names), ("agents", agent_names)):
        if not names or len(set(names)) < len(names):
            raise ValueError(f"cross-play needs {side}, each name once, got {names}")
    shape = (len(host_names), len(agent_names))
    num_rows = shape[0] * shape[1]
    noise = torch.tensor([noise_key_of(split)], device=device).repeat(num_rows)
    never = torch.zeros(1, device=device)
    moves, finished = play(
        HostSide(tuple(hosts), shape[1]),
        AgentSide(tuple(agents), shape[0]),
        _starts(game, num_games, split, device).expand(num_rows, -1, -1, -1),
        max_steps=max_steps,
        reposition=game.reposition,
        exploration=(never, never),
        stream=Stream(noise, torch.zeros_like(noise)),
    )
    return CrossPlay(
        host_names,
        agent_names,
        moves.cpu().unflatten(0, shape).numpy(),
        finished.cpu().unflatten(0, shape).numpy(),
    )


def _starts(game: GameConfig, num_games: int, split: str, device: torch.device) -> torch.Tensor:
    """Return the starts of a split, int32 (1, G, N, D): those of `evaluation` by the same name."""
    return BACKENDS[default_backend(device)].random_starts(
        torch.tensor([starts_key(split)], device=device),
        torch.zeros((1, num_games), dtype=torch.int64, device=device),
        num_points=game.max_num_points,
        dimension=game.dimension,
        max_value=game.max_value,
    )
