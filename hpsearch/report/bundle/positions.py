"""Positions on which exported policies are held to the trained ones.

Axes: B positions, N points, D coordinates.
"""

from dataclasses import dataclass
from typing import Final, cast

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.config import GameConfig
from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.philox import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.position import Position
from hpsearch.trainers.saved_player import SavedPlayer

NUM_GAMES: Final = 512
NUM_MOVES: Final = 3
"""after each of which positions are taken, and at the start"""
BATCHES: Final = (1, 7)
"""numbers of games that a policy is asked about at once, beside all of them"""


@dataclass(frozen=True)
class Positions:
    """What players can be asked."""

    points: Tensor
    """int32 (B, N, D), or int64 where they are raw"""
    subset: Tensor
    """bool (B, D), a host's choice for the agent to answer"""

    def of(self, role: str) -> tuple[Tensor, ...]:
        """Return what the policy of a role takes."""
        return (self.points,) if role == "host" else (self.points, self.subset)

    def raw(self) -> "Positions":
        """Return the same positions as they may come: rows reversed, no row empty, int64.

        What fills the rows lies above the first point in all coordinates, so it counts for nothing.
        """
        above = self.points[:, :1] + 1
        filled = self.points.where(rules.is_live(self.points).unsqueeze(-1), above)
        return Positions(filled.flip(-2).to(torch.int64), self.subset)

    def first(self, count: int) -> "Positions":
        """Return the first positions."""
        return Positions(self.points[:count], self.subset[:count])


@torch.no_grad()
def sample_positions(game: GameConfig, key: int) -> Positions:
    """Return starts and what random moves make of them; ``key`` is from `derive_key`."""
    keys = torch.tensor([derive_key(key, "positions")])
    stream = Stream(torch.tensor([derive_key(key, "random moves")]), torch.zeros_like(keys))
    encoder = HostActionEncoder(game.dimension)
    points = FusedGame(game, keys, NUM_GAMES, "cpu", "cpu", observes=False).points
    host, agent = ScriptedHostPolicy("random"), ScriptedAgentPolicy("random")
    never, found = torch.zeros(1), []
    for _ in range(NUM_MOVES + 1):
        noise = stream.uniform(NUM_GAMES * 4).unflatten(1, (NUM_GAMES, 4))
        position = Position.of(points)
        subset = encoder.decode(host(position, noise[..., :2], never))
        found.append((points[0].clone(), subset[0]))
        axis = agent(position, subset, noise[..., 2:], never)
        points, _ = BACKENDS["cpu"].move(points, subset, axis, game.reposition)
    # Mixed, so that the first few are of all ages.
    points, subsets = (torch.stack(parts, dim=1) for parts in zip(*found, strict=True))
    return Positions(points.flatten(0, 1), subsets.flatten(0, 1))


@torch.no_grad()
def trained_actions(player: SavedPlayer, role: str, positions: Positions) -> Tensor:
    """Return the greedy actions int64 (B,) of a player, as it plays when it is measured."""
    position, never = Position.of(positions.points[None]), torch.zeros(1)
    noise = torch.zeros(1, len(positions.points), 2)
    if role == "host":
        return cast(HostPolicy, player.policy)(position, noise, never)[0]
    return cast(AgentPolicy, player.policy)(position, positions.subset[None], noise, never)[0]
