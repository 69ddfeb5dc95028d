"""The game as the seed, hironaka.trainer, plays it: the baseline of the fused step.

Written from a description of its operators. Positions are floats, removed points are rows of -1
that stay where they are, points are compared in pairs, and all games of a batch advance in
lock-step until the last is over. `SeedGame` is that algorithm in plain eager torch.
`PublishedGame` adds what the published code does besides; readers see both ratios.

Axes: B games, N points, D coordinates, A actions.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.game import HostActionEncoder

PADDING = -1.0

Host = Callable[[Tensor], Tensor]
"""from features float32 (B, N * D) to values (B, A)"""
Agent = Callable[[Tensor, Tensor], Tensor]
"""from features and subset float32 (B, D) to values (B, D)"""


class Sample(NamedTuple):
    """What the host saw in the games that were not over, b of them."""

    observation: Tensor
    """float32 (b, N * D)"""
    action: Tensor
    """int64 (b,)"""
    reward: Tensor
    """float32 (b,)"""
    done: Tensor
    """bool (b,)"""
    next_observation: Tensor
    """float32 (b, N * D)"""


class SeedGame:
    """Moves of a batch of games, in plain eager torch.

    Attributes:
        rescale: whether each game is divided by its largest coordinate after a move.
    """

    def __init__(self, dimension: int, host: Host, agent: Agent, rescale: bool) -> None:
        """Let ``host`` play against ``agent``."""
        self.rescale = rescale
        self._host = host
        self._agent = agent
        self._encoder = HostActionEncoder(dimension)

    def step(self, points: Tensor, exploration: float = 0.0) -> tuple[Tensor, Sample]:
        """Play one move in every game that is not over; return the positions and the sample."""
        features = self.features(points)
        action = explore(self._host(features), exploration).argmax(dim=1)
        subset = self.decode(action)
        values = self._agent(self.features(points), subset.to(points.dtype))
        axis = values.masked_fill(~subset, torch.finfo(values.dtype).min).argmax(dim=1)
        going = ~is_over(points)
        next_points = self.newton_polytope(self.shift(points, subset, axis))
        if self.rescale:
            next_points = rescale(next_points)
        done = is_over(next_points)
        reward = done.to(torch.float32)
        seen = (features, action, reward, done, self.features(next_points))
        return next_points, Sample(*(tensor[going] for tensor in seen))

    def features(self, points: Tensor) -> Tensor:
        """Return float32 (B, N * D): the points by descending first coordinate, padding last."""
        order = points[..., 0].argsort(dim=1, descending=True)
        return points.gather(1, order[..., None].expand_as(points)).flatten(1)

    def decode(self, action: Tensor) -> Tensor:
        """Return the subsets bool (B, D) of actions int64 (B,)."""
        return self._encoder.decode(action)

    def shift(self, points: Tensor, subset: Tensor, axis: Tensor) -> Tensor:
        """Replace coordinate ``axis`` by the sum over ``subset`` in every game not over."""
        total = (points * subset[:, None]).sum(dim=2, keepdim=True)
        replaced = torch.nn.functional.one_hot(axis, points.shape[2]).bool()[:, None]
        changes = (points[..., :1] >= 0) & ~is_over(points)[:, None, None]
        return torch.where(replaced & changes, total, points)

    def newton_polytope(self, points: Tensor) -> Tensor:
        """Remove repeated points, then those that lie above another in all coordinates."""
        points = self._keep(points, ~_has_equal_before(*pairs(points)))
        live = points[..., 0] >= 0
        return self._keep(points, ~_lies_above(*pairs(points), live))

    @staticmethod
    def _keep(points: Tensor, kept: Tensor) -> Tensor:
        return points.masked_fill(~kept[..., None], PADDING)


class PublishedGame(SeedGame):
    """What the published code does besides, which costs time and changes no result.

    It checks actions by Python's own all(), which looks at one element after another; it moves
    points by a matrix of their own each; and it repeats points in memory before comparing them.
    """

    def decode(self, action: Tensor) -> Tensor:
        """Return the subsets bool (B, D) of actions int64 (B,)."""
        assert all(action.le(self._encoder.num_actions - 1))
        assert all(action.ge(0))
        return super().decode(action)

    def shift(self, points: Tensor, subset: Tensor, axis: Tensor) -> Tensor:
        """Multiply every point by the matrix of its game's move."""
        num_points, dimension = points.shape[1:]
        assert torch.all(subset.sum(dim=1) >= 2)
        is_axis = torch.nn.functional.one_hot(axis, dimension).bool()
        moves = is_axis & ~is_over(points)[:, None]
        rows = torch.where(
            moves[..., None],
            subset[:, None].to(points.dtype),
            torch.eye(dimension, device=points.device),
        )
        matrices = rows[:, None].repeat(1, num_points, 1, 1)
        moved = torch.matmul(matrices, points[..., None]).squeeze(3)
        return torch.where(points >= 0, moved, points)

    def newton_polytope(self, points: Tensor) -> Tensor:
        """Remove the same points, from pairs that are repeated in memory."""
        points = self._keep(points, ~_has_equal_before(*repeated_pairs(points)))
        live = points[..., 0] >= 0
        return self._keep(points, ~_lies_above(*repeated_pairs(points), live))


def is_over(points: Tensor) -> Tensor:
    """Say which games have at most one point left, bool (B,)."""
    return (points[..., 0] >= 0).sum(dim=1) <= 1


def rescale(points: Tensor) -> Tensor:
    """Divide every game by its largest coordinate, 0 counting as 1."""
    largest = points.amax(dim=(1, 2), keepdim=True)
    scaled = points / torch.where(largest > 0, largest, 1.0)
    return torch.where(points >= 0, scaled, PADDING)


def explore(values: Tensor, rate: float) -> Tensor:
    """Replace the values (B, A) of a share of the games by noise."""
    if rate == 0.0:
        return values
    explores = torch.rand(len(values), 1, device=values.device) < rate
    return torch.where(explores, torch.rand_like(values), values)


def pairs(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return views in which point i of a game meets its point j, at (B, i, j, D)."""
    return points[:, :, None], points[:, None]


def repeated_pairs(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pairs as tensors of their own, float32 (B, N, N, D) each."""
    num_points = points.shape[1]
    left, right = pairs(points)
    return left.repeat(1, 1, num_points, 1), right.repeat(1, num_points, 1, 1)


def _has_equal_before(left: Tensor, right: Tensor) -> Tensor:
    equal = (left == right).all(dim=3)
    return (equal & torch.ones_like(equal[0]).tril(-1)).any(dim=2)


def _lies_above(left: Tensor, right: Tensor, live: Tensor) -> Tensor:
    above = (left >= right).all(dim=3) & live[:, None]
    return (above & ~torch.eye(live.shape[1], dtype=torch.bool, device=live.device)).any(dim=2)


# Scripted players, as functions to values of which the largest is played.


def random_host(num_actions: int) -> Host:
    """Return a host that plays all subsets alike."""
    return lambda features: torch.rand(len(features), num_actions, device=features.device)


def choose_first(features: Tensor, subset: Tensor) -> Tensor:
    """Value the lowest coordinate of the subset highest."""
    return subset * torch.arange(subset.shape[1], 0, -1, device=subset.device)
