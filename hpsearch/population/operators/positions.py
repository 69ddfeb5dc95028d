"""Positions that players meet, to mutate and to imitate on.

Axes: P members, G games, T moves, B = T * G positions, I inputs, A actions.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game.encoding import HostActionEncoder
from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import default_backend
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.players import Role
from hpsearch.trainers.policies import AgentPolicy, HostPolicy, agent_features
from hpsearch.trainers.position import Position


@dataclass(frozen=True)
class Positions:
    """What a role sees, and what it may do there."""

    features: Tensor
    """float32 (P, B, I)"""
    legal: Tensor
    """bool (P, B, A), at least one a position"""

    def __add__(self, other: "Positions") -> "Positions":
        """Return the positions of both, member by member."""
        return Positions(
            torch.cat([self.features, other.features], dim=1),
            torch.cat([self.legal, other.legal], dim=1),
        )

    def at(self, index: Tensor) -> "Positions":
        """Return the positions int64 (P, b), for each member its own."""
        member = torch.arange(len(index), device=index.device)[:, None]
        return Positions(self.features[member, index], self.legal[member, index])


@torch.no_grad()
def visited(
    role: Role,
    host: HostPolicy,
    agent: AgentPolicy,
    game: GameConfig,
    *,
    starts: Tensor,
    num_games: int,
    num_moves: int,
    exploration: tuple[Tensor, Tensor],
    stream: Stream,
) -> Positions:
    """Return every position of ``role`` in games of P members, one after another in each lane.

    Args:
        role: whose positions.
        host: plays for P members.
        agent: plays for P members.
        game: how starts are drawn and moves made.
        starts: int64 (P,), keys of the starts.
        num_games: G, games at a time.
        num_moves: T.
        exploration: rates of host and agent, float32, (P, G) or what broadcasts to it.
        stream: one row a member, for what players draw.
    """
    device = starts.device
    games = FusedGame(game, starts, num_games, device, default_backend(device), observes=False)
    encoder = HostActionEncoder(game.dimension)
    features, legal = [], []
    for _ in range(num_moves):
        noise = stream.uniform(num_games * 4).unflatten(1, (num_games, 4))
        # The games go on in place.
        position = Position.of(games.points.clone())
        action = host(position, noise[..., :2], exploration[0])
        subset = encoder.decode(action)
        axis = agent(position, subset, noise[..., 2:], exploration[1])
        if role == "host":
            features.append(position.observation)
            legal.append(subset.new_ones(*subset.shape[:2], encoder.num_actions))
        else:
            features.append(agent_features(position.observation, subset))
            legal.append(subset)
        games.step(action, axis)
    return Positions(torch.cat(features, dim=1), torch.cat(legal, dim=1))
