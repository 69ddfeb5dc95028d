"""A role's greedy policy as a torch module, and positions on which it is compared with the player.

`RawHost` and `RawAgent` are what bundles hold; `GreedyHost` and `GreedyAgent` are inside, and alone
were what bundles of the first format held. A program holds the names of these classes and of their
modules, so other names give other bytes, and bundles that were written would not be certified.

Axes: B games, N points, D coordinates, A actions. The member axis of our networks is 1 inside.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import torch
from torch import Tensor, nn

from hpsearch.export.folder import SORTED_POINTS
from hpsearch.game import rules
from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.random import derive_key
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.weight_layout import POLICY
from hpsearch.trainers.layers import Reader, apply_tower
from hpsearch.trainers.networks import Network
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.policies import Position, ScriptedPolicy, Turn, features_of, legal_values

NAMED_IN_PROGRAMS: Final = "hpsearch.report.bundle.greedy"
"""the module that exported programs name for their classes. It is a part of the format, wherever
the classes are now: a bundle is certified byte for byte, however long ago it was made"""


class _Greedy(nn.Module):
    """What both roles share: the network that values actions, applied as in training."""

    statistics: Tensor

    def __init__(self, net: Network, *, autocast: bool) -> None:
        """Copy one member's weights on the CPU; ``autocast``: compute in bf16 if training did."""
        super().__init__()
        views, statistics = net.tensors_of(POLICY)
        fixed = (nn.Parameter(view.clone(), requires_grad=False) for view in views)
        self.weights = nn.ParameterList(fixed)
        self.register_buffer("statistics", statistics.clone())
        self._tower, self._inputs = net.towers[POLICY], net.inputs
        self._is_bf16 = autocast and net.arithmetic.precision == "bf16"

    def _values(self, features: Tensor) -> Tensor:
        """Return the value of every action, float32 (B, A), for features float32 (B, I)."""
        if not self._is_bf16:
            return self._products(features)
        with torch.autocast("cpu", torch.bfloat16):
            return self._products(features)

    def _products(self, features: Tensor) -> Tensor:
        reader = Reader(
            iter(self.weights), self.statistics, activation=self._tower.activation, training=False
        )
        return apply_tower(reader, self._tower, self._inputs, features[None])[0]

    def _points(self) -> Tensor:
        """Return positions of several games: traced with one, a program would take one alone."""
        shape = (3, self._inputs.num_points, self._inputs.dimension)
        return torch.arange(math.prod(shape), dtype=torch.int32).reshape(shape)


class GreedyHost(_Greedy):
    """Plays the subset that its network values highest."""

    __module__ = NAMED_IN_PROGRAMS

    def forward(self, points: Tensor) -> Tensor:
        """Return the action's index int64 (B,) for points int32 (B, N, D)."""
        return self.ranking(points).argmax(dim=-1)

    def ranking(self, points: Tensor) -> Tensor:
        values = self._values(rules.observe(points))
        return legal_values(values, torch.ones_like(values, dtype=torch.bool))

    def example(self) -> tuple[Tensor, ...]:
        return (self._points(),)


class GreedyAgent(_Greedy):
    """Plays the axis of the host's subset that its network values highest."""

    __module__ = NAMED_IN_PROGRAMS

    def forward(self, points: Tensor, subset: Tensor) -> Tensor:
        """Return the axis int64 (B,) for points int32 (B, N, D) and a subset bool (B, D)."""
        return self.ranking(points, subset).argmax(dim=-1)

    def ranking(self, points: Tensor, subset: Tensor) -> Tensor:
        """Return the value of every axis, float32 (B, D), minus infinity outside the subset."""
        return legal_values(self._values(features_of(rules.observe(points), subset)), subset)

    def example(self) -> tuple[Tensor, ...]:
        points = self._points()
        return points, torch.ones(len(points), self._inputs.dimension, dtype=torch.bool)


class _Raw(nn.Module):
    """Takes points as they come, in any order, duplicates and dominated ones too."""

    def __init__(self, greedy: GreedyHost | GreedyAgent) -> None:
        super().__init__()
        self.greedy = greedy

    def ranking(self, points: Tensor, *subset: Tensor) -> Tensor:
        values: Tensor = self.greedy.ranking(_canonical(points), *subset)
        return values

    def example(self) -> tuple[Tensor, ...]:
        points, *subset = self.greedy.example()
        return points.to(torch.int64), *subset


class RawHost(_Raw):
    __module__ = NAMED_IN_PROGRAMS

    def forward(self, points: Tensor) -> Tensor:
        """Return the action's index int64 (B,) for points int32 or int64 (B, N, D)."""
        action: Tensor = self.greedy(_canonical(points))
        return action


class RawAgent(_Raw):
    __module__ = NAMED_IN_PROGRAMS

    def forward(self, points: Tensor, subset: Tensor) -> Tensor:
        """Return the axis int64 (B,) for points int32 or int64 (B, N, D), a subset bool (B, D)."""
        axis: Tensor = self.greedy(_canonical(points), subset)
        return axis


Greedy = GreedyHost | GreedyAgent | RawHost | RawAgent
ByRole = Mapping[str, SavedPlayer]


def greedy_policy(role: str, net: Network, bundle_format: int, *, autocast: bool) -> Greedy:
    """Return a role's greedy policy by ``net`` of one member; for ``autocast`` see `_Greedy`."""
    inner, outer = (GreedyHost, RawHost) if role == "host" else (GreedyAgent, RawAgent)
    greedy = inner(net, autocast=autocast)
    return greedy if bundle_format == SORTED_POINTS else outer(greedy)


def _canonical(points: Tensor) -> Tensor:
    """Return points int32 or int64 (B, N, D) as int64, reduced and sorted."""
    # A sum, because an exported program refuses all but the dtype that it saw being converted.
    whole = points + torch.zeros(1, dtype=torch.int64)
    return rules.newton_polytope(whole)


NUM_GAMES: Final = 512
NUM_MOVES: Final = 3  # after each of which positions are taken, and at the start
BATCHES: Final = (1, 7)  # numbers of games that a policy is asked about at once, beside all of them


@dataclass(frozen=True)
class SamplePositions:
    points: Tensor  # int32 (B, N, D), or int64 where they are raw
    subset: Tensor  # bool (B, D), a host's choice for the agent to answer

    def of(self, role: str) -> tuple[Tensor, ...]:
        return (self.points,) if role == "host" else (self.points, self.subset)

    def raw(self) -> "SamplePositions":
        """Return the positions as they may come: rows reversed, none empty, int64.

        What fills the rows lies above the first point in all coordinates, so it counts for nothing.
        """
        above = self.points[:, :1] + 1
        filled = self.points.where(rules.is_live(self.points).unsqueeze(-1), above)
        return SamplePositions(filled.flip(-2).to(torch.int64), self.subset)

    def first(self, count: int) -> "SamplePositions":
        return SamplePositions(self.points[:count], self.subset[:count])


@torch.no_grad()
def sample_positions(game: GameConfig, key: int) -> SamplePositions:
    """Return starts and what random moves make of them; ``key`` is from `derive_key`."""
    keys = torch.tensor([derive_key(key, "positions")])
    stream = Stream(torch.tensor([derive_key(key, "random moves")]))
    encoder = HostActionEncoder(game.dimension)
    points = FusedGame(game, keys, NUM_GAMES, "cpu", "cpu", observes=False).points
    host, agent = ScriptedPolicy("random"), ScriptedPolicy("random")
    never, positions = torch.zeros(1), []
    for _ in range(NUM_MOVES + 1):
        noise = stream.uniform(NUM_GAMES * 4).unflatten(1, (NUM_GAMES, 4))
        position = Position.of(points)
        subset = encoder.decode(host(Turn(position, None, noise[..., :2], never)))
        positions.append((points[0].clone(), subset[0]))
        axis = agent(Turn(position, subset, noise[..., 2:], never))
        points, _ = BACKENDS["cpu"].move(points, subset, axis, game.reposition)
    # Mixed, so that the first few are of all ages.
    points, subsets = (torch.stack(parts, dim=1) for parts in zip(*positions, strict=True))
    return SamplePositions(points.flatten(0, 1), subsets.flatten(0, 1))


@torch.no_grad()
def trained_actions(player: SavedPlayer, role: str, positions: SamplePositions) -> Tensor:
    """Return the greedy actions int64 (B,) of a player, as it plays when it is measured."""
    position, never = Position.of(positions.points[None]), torch.zeros(1)
    noise = torch.zeros(1, len(positions.points), 2)
    subset = None if role == "host" else positions.subset[None]
    return player.policy(Turn(position, subset, noise, never))[0]
