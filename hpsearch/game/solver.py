"""Exact values: of a position under best play, and of a fixed player against the best opponent.

The value of a position is 0 when it is over, else the least over the host's subsets of the greatest
over the agent's axes of 1 + the value of what the move leads to. `Solver` finds it by deepening:
can the host win within 1 move, within 2, ... ? What was proved of a position is kept, by a
name that all positions of equal value share: repositioned, and of the D! orders of the coordinates
the one whose points come first. Neither changes the value, because the agent may answer anything.

With one deterministic player fixed, the positions form a graph: from each, an edge for every choice
of the other player. A game is a path; the longest and the shortest one to an end are looked for.
The graph grows level by level, a level a call of the player, until the length is certain. Each
start has its own graph, so no limit depends on the other starts. Positions are not permuted,
because a learned player is not symmetric in the coordinates.

Axes: S starts, B positions of a batch, C choices of the player who is not fixed, M positions of a
graph, N points, D coordinates.
"""

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import permutations
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS, cpu_loops, default_backend
from hpsearch.game.kernels.interface import scalar
from hpsearch.game.rules import (
    MAX_COORDINATE,
    MAX_DIMENSION,
    HostActionEncoder,
    check_range,
    subset_bits,
)

PositionKey = bytes  # the rows of a position in its shared form; empty when the game is over
Replies = tuple[PositionKey, ...]  # what the agent's answers to one subset lead to

MAX_DEPTH: Final = 40
"""No known start needs a third of this; a deeper search would not end in a lifetime."""
OVER: Final = b""


class Solver:
    """Values of positions in D coordinates; what is proved of one serves the next."""

    def __init__(self, dimension: int) -> None:
        check_range("dimension", dimension, 2, MAX_DIMENSION)
        self.dimension = dimension
        self._coordinates = cpu_loops.unrolled(dimension)
        self._at_least: dict[PositionKey, int] = {}
        self._at_most: dict[PositionKey, int] = {}
        self._moves: dict[PositionKey, tuple[Replies, ...]] = {}

    def depth(self, points: Sequence[Sequence[int]]) -> int:
        """Return the value of a position given by its points, rows of D natural numbers.

        Raises ValueError if the rows are no such points, the value exceeds MAX_DEPTH, or a
        coordinate exceeds 2^30 on the way.
        """
        position = self.position(points)
        for limit in range(self._at_least.get(position, 0), MAX_DEPTH + 1):
            if self._wins_within(position, limit):
                return limit
        raise ValueError(f"the value exceeds {MAX_DEPTH=}, which is as deep as the solver looks")

    def position(self, points: Sequence[Sequence[int]]) -> PositionKey:
        array = np.array(None)
        with suppress(ValueError):  # rows of several lengths
            array = np.array(points)
        is_known = array.dtype.kind == "i" and ((array >= 0) & (array <= MAX_COORDINATE)).all()
        if not is_known or array.ndim != 2 or array.shape[1] != self.dimension:
            numbers = f"{self.dimension} natural numbers up to 2^30"
            raise ValueError(f"points are rows of {numbers}, got {points!r}")
        rows = array.astype(np.int32)
        count = cpu_loops.reduce_rows(rows, len(rows), self._coordinates)
        return _shared_form(rows, count, self._coordinates)

    def _wins_within(self, position: PositionKey, limit: int) -> bool:
        """Return whether the host can win in at most ``limit`` moves, whatever the agent does."""
        if position == OVER:
            return True
        if self._at_most.get(position, MAX_DEPTH + 1) <= limit:
            return True
        if limit == 0 or self._at_least.get(position, 1) > limit:
            return False
        for replies in self._replies(position):
            # What is known to take too long refutes a subset without a search.
            if any(self._at_least.get(reply, 0) >= limit for reply in replies):
                continue
            if all(self._wins_within(reply, limit - 1) for reply in replies):
                self._at_most[position] = limit
                return True
        self._at_least[position] = limit + 1
        return False

    def _replies(self, position: PositionKey) -> tuple[Replies, ...]:
        """Return what every subset can lead to, the positions of most points first."""
        if position not in self._moves:
            self._moves[position] = tuple(
                tuple(sorted(self._children(position, subset), key=len, reverse=True))
                for subset in subset_bits(self.dimension)
            )
        return self._moves[position]

    def _children(self, position: PositionKey, subset: int) -> set[PositionKey]:
        rows = np.frombuffer(position, dtype=np.int32).reshape(-1, self.dimension)
        children = set()
        for axis in range(self.dimension):
            if subset >> axis & 1:
                child = rows.copy()
                cpu_loops.shift_rows(child, len(child), subset, axis, self._coordinates)
                if cpu_loops.is_capped(child, len(child), self._coordinates):
                    raise ValueError("a coordinate exceeds 2^30, where the game has no value")
                count = cpu_loops.reduce_rows(child, len(child), self._coordinates)
                children.add(_shared_form(child, count, self._coordinates))
        return children


def _shared_form(
    rows: cpu_loops.Rows, count: int, coordinates: cpu_loops.Coordinates
) -> PositionKey:
    """Return the reduced first ``count`` rows as bytes, the same for all orders of coordinates."""
    if count <= 1:
        return OVER
    cpu_loops.reposition_rows(rows, count, coordinates)
    return _first_order(rows[:count], _orders(len(coordinates)), coordinates).tobytes()


@scalar
def _first_order(
    rows: cpu_loops.Rows, orders: NDArray[np.int64], coordinates: cpu_loops.Coordinates
) -> cpu_loops.Rows:
    """Return the rows under the order of coordinates that makes them lexicographically greatest."""
    best = rows.copy()
    other = np.empty_like(rows)
    for order in range(1, len(orders)):
        for k in range(rows.shape[1]):
            for row in range(rows.shape[0]):
                other[row, k] = rows[row, orders[order, k]]
        cpu_loops.reduce_rows(other, len(other), coordinates)  # sorts; nothing is removed
        if _is_greater(other, best):
            cpu_loops.copy_rows(other, best, len(other), coordinates)
    return best


@scalar
def _is_greater(first: cpu_loops.Rows, second: cpu_loops.Rows) -> bool:
    for row in range(first.shape[0]):
        for k in range(first.shape[1]):
            if first[row, k] != second[row, k]:
                return bool(first[row, k] > second[row, k])
    return False


@cache
def _orders(dimension: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(dimension))), dtype=np.int64)


Bools = NDArray[np.bool_]
Indices = NDArray[np.int64]
Expand = Callable[[Tensor], tuple[Tensor, Tensor]]
"""points int32 (B, N, D) to the moves there are: subsets bool (B, C, D) and axes int64 (B, C)"""

OVER_INDEX: Final = 0
CAPPED: Final = 1


class PositionGraph:
    """Positions and where their moves lead; equal positions are one.

    Position 0 stands for every game that is over, position 1 for every game beyond the bound of the
    rules, which leads to itself for ever. A level of new positions is expanded as a whole, so the
    first positions are expanded and all others are not.
    """

    def __init__(self, start: Tensor, reposition: bool) -> None:
        """Begin with ``start`` int32 (N, D), canonical, not yet expanded."""
        self._reposition = reposition
        self._index: dict[bytes, int] = {}
        self._points = torch.full((2, *start.shape), rules.PADDING, dtype=torch.int32)
        self._children = np.array([[OVER_INDEX], [CAPPED]])
        self.num_levels = 0  # how often it grew
        (place,) = self._positions(start.cpu().unsqueeze(0), torch.zeros(1, dtype=torch.bool))
        self.start = int(place)  # the position that the game begins from

    @property
    def size(self) -> int:
        return len(self._points)

    @property
    def num_unexpanded(self) -> int:
        return len(self._points) - len(self._children)

    @property
    def is_over(self) -> Bools:
        """Say which positions are those of games that are over, bool (M,)."""
        return np.equal(np.arange(self.size), OVER_INDEX)

    def leads_to(self, goal: Bools) -> Bools:
        """Say which positions have a move into ``goal`` bool (M,)."""
        leads = np.zeros(self.size, dtype=np.bool_)
        leads[: len(self._children)] = goal[self._children].any(axis=1)
        leads[OVER_INDEX] = False
        return leads

    def grow(self, expand: Expand) -> None:
        """Find where the moves of all positions lead that have not been expanded."""
        self.num_levels += 1
        points = self._points[len(self._children) :]
        subset, axis = expand(points)
        move = BACKENDS[default_backend(points.device)].move
        before = points.unsqueeze(1).expand(*axis.shape, *points.shape[1:])
        after, capped = move(before, subset, axis, self._reposition)
        children = self._positions(after.flatten(0, 1), capped.flatten()).reshape(axis.shape)
        if self.num_levels == 1:  # the two special positions have as many moves, all alike
            self._children = self._children.repeat(axis.shape[1], axis=1)
        self._children = np.concatenate([self._children, children])

    def _positions(self, points: Tensor, capped: Tensor) -> Indices:
        """Return the positions (B,) of ``points`` int32 (B, N, D); new ones are added."""
        uncapped = torch.where(rules.is_over(points), OVER_INDEX, -1)
        kind = uncapped.masked_fill(capped, CAPPED).numpy()
        rows = points.contiguous().numpy().reshape(len(points), -1)
        known = self.size
        places = kind.copy()
        new: list[int] = []
        for row in np.flatnonzero(kind < 0):
            key = rows[row].tobytes()
            places[row] = self._index.setdefault(key, known + len(new))
            if places[row] == known + len(new):
                new.append(int(row))
        self._points = torch.cat([self._points, points[torch.tensor(new, dtype=torch.int64)]])
        return places


GameLengths = NDArray[np.float64]
Solve = Callable[[PositionGraph], tuple[float, bool]]
"""a graph to the length of its start's game, and whether that is certain"""

LEVELS_A_LOOK = 8  # levels between two searches for a circle, which cost more than a level does

Host = Callable[[Tensor], Tensor]
"""points int32 (B, N, D) to actions int64 (B,), always the same for the same points"""
Agent = Callable[[Tensor, Tensor], Tensor]
"""points and subset bool (B, D) to axes int64 (B,), always the same for the same arguments"""


@dataclass(frozen=True, kw_only=True)
class SearchLimits:
    max_moves: int  # games that take longer count as unbounded
    max_positions: int
    """what is undecided when so many positions of a start have been found counts as unbounded"""
    reposition: bool
    """subtract each coordinate's minimum after a move, as in the games the player knows"""


def longest_game(host: Host, starts: Tensor, limits: SearchLimits) -> GameLengths:
    """Return how many moves ``host`` needs when the agent delays best, float64 (S,).

    Inf where the agent can go on for ever (a cycle, or a coordinate beyond the bound of the rules)
    or the limits end the search. ``starts`` is int32 (S, N, D), canonical.
    """
    encoder = HostActionEncoder(starts.shape[-1])

    def replies(points: Tensor) -> tuple[Tensor, Tensor]:
        subset = encoder.decode(host(points))
        axes = torch.arange(subset.shape[-1], device=points.device)
        # A reply outside the subset is no move; a legal one, twice, changes nothing.
        first = subset.to(torch.uint8).argmax(-1, keepdim=True)
        return subset.unsqueeze(1).expand(-1, len(axes), -1), axes.where(subset, first)

    return np.array([_length(start, replies, _longest_path, limits) for start in starts])


def shortest_game(agent: Agent, starts: Tensor, limits: SearchLimits) -> GameLengths:
    """Return how many moves the best host needs against ``agent``, float64 (S,).

    Inf where no host ends the game within the limits; never more than `Solver.depth`. ``starts``
    is int32 (S, N, D), canonical.
    """
    encoder = HostActionEncoder(starts.shape[-1])

    def choices(points: Tensor) -> tuple[Tensor, Tensor]:
        subsets = encoder.decode(torch.arange(encoder.num_actions, device=points.device))
        subset = subsets.expand(len(points), -1, -1)
        repeated = points.repeat_interleave(len(subsets), dim=0)
        return subset, agent(repeated, subset.flatten(0, 1)).unflatten(0, subset.shape[:2])

    return np.array([_length(start, choices, _shortest_path, limits) for start in starts])


def _length(start: Tensor, expand: Expand, solve: Solve, limits: SearchLimits) -> float:
    """Grow a graph until the length of its start's game is certain, or a limit is met."""
    graph = PositionGraph(start, limits.reposition)
    for level in range(limits.max_moves + 1):
        length, is_certain = solve(graph)
        if is_certain:
            return length if length <= limits.max_moves else math.inf
        if level == limits.max_moves or graph.size + graph.num_unexpanded > limits.max_positions:
            break
        graph.grow(expand)
    return math.inf


def _longest_path(graph: PositionGraph) -> tuple[float, bool]:
    """Return the start's longest path to an end, inf if it can circle; and if it is certain.

    A position that has not been expanded counts as one move before the end. While there are such
    positions only a circle is certain, and it is as certain some levels later.
    """
    if graph.num_unexpanded and graph.num_levels % LEVELS_A_LOOK:
        return math.nan, False
    lengths = np.zeros(graph.size)
    longer = ~graph.is_over  # the positions with a path of more than so many moves
    while longer.any():
        lengths += longer
        still_longer = graph.leads_to(longer)
        if (still_longer == longer).all():
            lengths[longer] = np.inf
            break
        longer = still_longer
    length = float(lengths[graph.start])
    return length, math.isinf(length) or not graph.num_unexpanded


def _shortest_path(graph: PositionGraph) -> tuple[float, bool]:
    """Return the start's shortest path to an end, inf if there is none; and if it is certain.

    Positions are found in the order of their distance, so no shorter path can appear.
    """
    lengths = np.full(graph.size, np.inf)
    new, moves = graph.is_over, 0
    while new.any():
        lengths[new] = moves
        new, moves = graph.leads_to(new) & np.isinf(lengths), moves + 1
    length = float(lengths[graph.start])
    return length, math.isfinite(length) or not graph.num_unexpanded
