"""The rules of the game, as plain torch on integer tensors; also Zeillinger's host.

Axes: ``...`` any batch shape, N points, D coordinates. A set of points is an int32 tensor
(..., N, D); rows of -1 are padding. Every operator returns the canonical form: live points first,
sorted descending lexicographically, then padding, so that equal sets are equal tensors.

This file is the definition. Every kernel equals it bit for bit.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from numbers import Integral
from typing import Final

import torch
from torch import Tensor

from hpsearch.extensions import Parts

PADDING = -1  # Every coordinate of a row that holds no point

MAX_COORDINATE = 2**30
"""A game with a larger coordinate is capped: it ends, because int32 could soon not hold it."""


def is_live(points: Tensor) -> Tensor:
    """Tell points from padding: int32 (..., N, D) to bool (..., N)."""
    return points[..., 0] >= 0


def newton_polytope(points: Tensor) -> Tensor:
    """Return the componentwise-minimal points, canonical; ``points`` may be in any order."""
    live = is_live(points)
    # below[..., i, j]: point j is componentwise at most point i.
    below = (points.unsqueeze(-3) <= points.unsqueeze(-2)).all(-1)
    num_points = points.shape[-2]
    earlier = torch.ones(num_points, num_points, dtype=torch.bool, device=points.device).tril(-1)
    # Of two equal points each is below the other; the earlier one stays.
    removes = below & live.unsqueeze(-2) & (~below.transpose(-1, -2) | earlier)
    minimal = live & ~removes.any(-1)
    return sort_points(torch.where(minimal.unsqueeze(-1), points, PADDING))


def sort_points(points: Tensor) -> Tensor:
    """Order the rows of int32 (..., N, D) descending lexicographically, padding last."""
    for coordinate in reversed(range(points.shape[-1])):
        order = points[..., coordinate].argsort(dim=-1, descending=True, stable=True)
        points = points.gather(-2, order.unsqueeze(-1).expand_as(points))
    return points


def check_move(subset: Tensor, axis: Tensor) -> None:
    """Refuse an illegal move: the host picks two coordinates or more, the agent one of them.

    ``subset`` is bool (..., D), ``axis`` int64 (...). ValueError if a move is illegal (on a CPU);
    on a CUDA device, where reading the result would stall the stream, an assertion of the device
    fails.
    """
    coordinates = torch.arange(subset.shape[-1], device=subset.device)
    chosen = (subset & (coordinates == axis.unsqueeze(-1))).any(-1)
    legal = chosen & (subset.sum(-1) >= 2)
    if legal.device.type != "cpu":
        torch._assert_async(legal.all(), "the agent's axis must lie in the host's subset")
    elif not legal.all():
        game = tuple(torch.nonzero(~legal)[0].tolist())
        members = torch.nonzero(subset.broadcast_to(*legal.shape, -1)[game]).flatten().tolist()
        raise ValueError(
            "a move needs a subset of at least two coordinates and an axis in it, "
            f"got subset={members}, axis={axis.broadcast_to(legal.shape)[game].item()} "
            f"in game {game}"
        )


def shift(points: Tensor, subset: Tensor, axis: Tensor) -> Tensor:
    """Replace coordinate ``axis`` of every point by its sum over ``subset``; reduce nothing.

    Arguments and errors as for `check_move`. Sums are exact up to ``MAX_COORDINATE``; larger ones
    become ``MAX_COORDINATE + 1``, which `is_capped` recognises: no sum ever wraps.
    """
    check_move(subset, axis)
    total = torch.where(subset.unsqueeze(-2), points, 0).sum(-1, dtype=torch.int64)
    total = total.clamp(max=MAX_COORDINATE + 1).to(torch.int32)
    coordinates = torch.arange(points.shape[-1], device=points.device)
    replaced = (coordinates == axis.unsqueeze(-1)).unsqueeze(-2) & is_live(points).unsqueeze(-1)
    return sort_points(torch.where(replaced, total.unsqueeze(-1), points))


def move(points: Tensor, subset: Tensor, axis: Tensor) -> Tensor:
    """Play one move: `shift`, then `newton_polytope`. Arguments and errors as for `shift`."""
    return newton_polytope(shift(points, subset, axis))


def reposition(points: Tensor) -> Tensor:
    """Subtract from each coordinate its minimum over the game's points.

    This changes no game's length, since moves and reductions commute with translations. Ask
    `is_capped` before: a capped coordinate is only a lower bound, its difference says nothing.
    """
    live = is_live(points).unsqueeze(-1)
    largest = torch.iinfo(points.dtype).max
    minimum = torch.where(live, points, largest).amin(-2, keepdim=True)
    return torch.where(live, points - minimum, PADDING)


def is_over(points: Tensor) -> Tensor:
    """Return which games have at most one point left, bool (...)."""
    return is_live(points).sum(-1) <= 1


def is_capped(points: Tensor) -> Tensor:
    """Return which games exceed `MAX_COORDINATE`, bool (...).

    Points that were removed because of a saturated coordinate leave one behind that has it, so
    asking after the reduction misses nothing.
    """
    return (points > MAX_COORDINATE).flatten(-2).any(-1)


def observe(points: Tensor) -> Tensor:
    """Return what a host sees of a game, float32 (..., N * D) in [0, 1]; padding stays -1.

    Its points divided by their largest coordinate (0 counts as 1).
    """
    largest = points.amax((-2, -1), keepdim=True).clamp(min=1)
    scaled = points.to(torch.float32) / largest.to(torch.float32)
    return torch.where(is_live(points).unsqueeze(-1), scaled, float(PADDING)).flatten(-2)


MAX_DIMENSION = 16
"""The table has 2^D rows and a host's network as many outputs; more cannot be meant."""


class HostActionEncoder:
    """Translate between action indices and subsets of at least two of D coordinates.

    A subset I is the bit set n = sum of 2^k over k in I. The admissible n, those that are neither 0
    nor a power of two, in ascending order, are the actions 0, 1, 2, ...; below n lie n - 1 smaller
    positive numbers, of which floor(log2 n) + 1 are powers of two, hence
    index = n - floor(log2 n) - 2. For D = 3: {0,1}, {0,2}, {1,2}, {0,1,2}.
    """

    def __init__(self, dimension: int) -> None:
        check_range("dimension", dimension, 2, MAX_DIMENSION)
        self.dimension = dimension
        self.num_actions = 2**dimension - dimension - 1

    def decode(self, index: Tensor) -> Tensor:
        """Return the subsets of int64 (...) indices as bool (..., D), by a table.

        ValueError if an index is out of range (on a CPU); on a CUDA device, which this must not
        wait for, an assertion of the device fails.
        """
        table = _subset_table(self.dimension, index.device)
        try:
            return torch.embedding(table, index)
        except IndexError:
            raise ValueError(
                f"a host action in {self.dimension} coordinates must be in "
                f"0..{self.num_actions - 1}, got {index.min().item()}..{index.max().item()}"
            ) from None

    def encode(self, subset: Tensor) -> Tensor:
        """Return the indices of bool (..., D) subsets as int64 (...); waits for a CUDA device.

        Raises ValueError if a subset has not D bits or fewer than two coordinates.
        """
        if subset.shape[-1] != self.dimension:
            raise ValueError(f"a subset has {self.dimension} bits, got {tuple(subset.shape)=}")
        if (subset.sum(-1) < 2).any():
            raise ValueError(
                "a host action has at least two coordinates, "
                f"got a subset with {subset.sum(-1).min().item()}"
            )
        coordinates = torch.arange(self.dimension, device=subset.device)
        bits = (subset << coordinates).sum(-1)
        highest = torch.where(subset, coordinates, 0).amax(-1)
        return bits - highest - 2


@cache
def subset_bits(dimension: int) -> tuple[int, ...]:
    """Return the bit sets of all host actions in the order of their indices."""
    return tuple(n for n in range(1, 2**dimension) if n & (n - 1))


@cache
def _subset_table(dimension: int, device: torch.device) -> Tensor:
    """Return bool (num_actions, D) on ``device``: row = action, column = coordinate."""
    bits = torch.tensor(subset_bits(dimension)).unsqueeze(-1)
    return ((bits >> torch.arange(dimension)) & 1).bool().to(device)


Reward = Callable[[Tensor, Tensor, Tensor], Tensor]
"""from points int32 (..., N, D), next_points and done bool (...) to what the host earns, float32
(...); the agent earns the negative. Backends compute the same numbers in their own code."""


def terminal(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    return done.to(torch.float32)


def step_penalty(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    return -torch.ones_like(done, dtype=torch.float32)


def points_removed(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    """Give the host the number of points that the move removed, divided by N."""
    removed = is_live(points).sum(-1) - is_live(next_points).sum(-1)
    # Divided by a tensor: by a number, a GPU multiplies with its reciprocal, which rounds twice.
    return removed.to(torch.float32) / torch.full_like(removed, points.shape[-2])


REWARDS: Final[Parts[Reward]] = Parts(
    "rewards",
    {"terminal": terminal, "step_penalty": step_penalty, "points_removed": points_removed},
)


def reward_function(name: str) -> Reward:
    """Return the reward of that name; a ValueError lists the names there are.

    ExtensionError if that of another package cannot be had.
    """
    if name not in REWARDS:
        raise ValueError(f"a reward must be one of {sorted(REWARDS)}, got {name!r}")
    return REWARDS[name]


COMPACT_BELOW = 10  # coordinates below this are written without anything between them


def points_text(points: Tensor) -> str:
    """Write the points int32 (N, D) of one game, padding left out: ``200 021 003``.

    A set with a coordinate of more than one digit is written ``(12,0,3) (0,2,1)``.
    """
    rows = points[is_live(points)].tolist()
    if max((max(row) for row in rows), default=0) < COMPACT_BELOW:
        return " ".join("".join(map(str, row)) for row in rows)
    return " ".join(f"({','.join(map(str, row))})" for row in rows)


def subset_text(subset: Tensor) -> str:
    members = subset.nonzero().flatten().tolist()
    return f"{{{','.join(map(str, members))}}}"


@dataclass(frozen=True, kw_only=True)
class GameConfig:
    dimension: int  # D, the coordinates of a point, at least 2
    max_num_points: int  # N, the points a start is drawn with, and the rows of its tensor
    max_value: int  # The largest coordinate of a start, itself included, at least 1
    max_steps: int  # A game that is not done after so many moves is truncated, at least 1
    reposition: bool  # Whether each coordinate's minimum is subtracted after each move
    reward: str  # What the host gets for a move, a name in `REWARDS`; the agent gets its negative

    def __post_init__(self) -> None:
        check_range("dimension", self.dimension, 2, MAX_DIMENSION)
        check_range("max_num_points", self.max_num_points, 1, None)
        check_range("max_value", self.max_value, 1, MAX_COORDINATE)
        check_range("max_steps", self.max_steps, 1, 2**31 - 1)
        reward_function(self.reward)


def check_range(name: str, value: int, low: int, high: int | None) -> None:
    """Raise ValueError for what is no whole number from ``low`` to ``high``, both included."""
    if not isinstance(value, Integral):
        raise ValueError(f"{name} must be a whole number, got {name}={value!r}")
    if value < low or (high is not None and value > high):
        upper = "" if high is None else f" and at most {high}"
        raise ValueError(f"{name} must be at least {low}{upper}, got {name}={value}")


def zeillinger(points: Tensor) -> Tensor:
    """Choose the host's action from the most balanced pair of points.

    Source: D. Zeillinger, "A short solution to Hironaka's polyhedra game" (2006).
    Of all pairs a, b of points, v = a - b, take the one with the lexicographically smallest
    (max v - min v, #{v = max v} + #{v = min v}), the first of equals in canonical order; the
    action is {argmin v, argmax v}, first indices, or {0, 1} where these are the same. A game
    without two points gets {0, 1}. ``points`` is canonical; the actions are int64 (...).
    """
    num_points, dimension = points.shape[-2:]
    # Always one column at least, so that a game of one row has a pair too, albeit a dead one.
    padded = torch.nn.functional.pad(points, (0, 0, 0, 1), value=PADDING)
    first, second = torch.triu_indices(num_points, num_points + 1, 1, device=points.device)
    difference = padded.index_select(-2, first) - padded.index_select(-2, second)
    live = is_live(padded).index_select(-1, second)  # live points come first: both live

    high, low = difference.amax(-1, keepdim=True), difference.amin(-1, keepdim=True)
    spread = (high.long() - low.long()).squeeze(-1)
    ties = (difference == high).sum(-1) + (difference == low).sum(-1)
    key = torch.where(live, spread * (2 * dimension + 1) + ties, torch.iinfo(torch.int64).max)

    best = key.argmin(-1, keepdim=True)  # the first of equals
    vector = difference.take_along_dim(best.unsqueeze(-1), dim=-2).squeeze(-2)
    action = pair_action(vector.argmin(-1), vector.argmax(-1))
    return torch.where(live.any(-1), action, 0)


def pair_action(first: Tensor, second: Tensor) -> Tensor:
    """Return the index of the host action {first, second}, or of {0, 1} where they are equal.

    That is 2^first + 2^second - max(first, second) - 2, as in `HostActionEncoder`; int64 (...).
    """
    ones = torch.ones_like(first)
    index = (ones << first) + (ones << second) - torch.maximum(first, second) - 2
    return torch.where(first == second, 0, index)
