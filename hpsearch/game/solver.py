"""The exact value of a game: how many moves the host needs when the agent delays best.

The value of a position is 0 when it is over, else the least over the host's subsets of the greatest
over the agent's axes of 1 + the value of what the move leads to. It is found by deepening: can the
host win within 1 move, within 2, ... ? What was proved of a position is kept in a table, under a
name that all positions of equal value share: repositioned, and of the D! orders of the coordinates
the one whose points come first. Neither changes the value, because the agent may answer anything.

Axes: N points, D coordinates.
"""

from collections.abc import Sequence
from functools import cache
from itertools import permutations
from typing import Final

import numpy as np
from numpy.typing import NDArray

from hpsearch.game.encoding import subset_bits
from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.kernels.cpu_rows import (
    Coordinates,
    Rows,
    copy_rows,
    is_capped,
    reduce_rows,
    reposition_rows,
    shift_rows,
    unrolled,
)

Position = bytes
"""the rows of a position in its shared form; empty when the game is over"""
Replies = tuple[Position, ...]
"""what the agent's answers to one subset lead to"""

MAX_DEPTH: Final = 40
"""No known start needs a third of this; a deeper search would not end in a lifetime."""
OVER: Final = b""


class Solver:
    """Values of positions in D coordinates; what is proved of one serves the next."""

    def __init__(self, dimension: int) -> None:
        """Begin with nothing proved."""
        self.dimension = dimension
        self._coordinates = unrolled(dimension)
        self._at_least: dict[Position, int] = {}
        self._at_most: dict[Position, int] = {}
        self._moves: dict[Position, tuple[Replies, ...]] = {}

    def depth(self, points: Sequence[Sequence[int]]) -> int:
        """Return the value of a position given by its points, rows of D natural numbers.

        Raises:
            ValueError: if the rows are no points of D coordinates, the value exceeds MAX_DEPTH, or
                a coordinate exceeds 2^30 on the way.
        """
        position = self.position(points)
        for limit in range(self._at_least.get(position, 0), MAX_DEPTH + 1):
            if self._wins_within(position, limit):
                return limit
        raise ValueError(f"the value exceeds {MAX_DEPTH=}, which is as deep as the solver looks")

    def position(self, points: Sequence[Sequence[int]]) -> Position:
        """Return the shared form of the position that the points make."""
        given = np.array(points)
        is_natural = given.dtype.kind == "i" and (given >= 0).all()
        if not is_natural or given.ndim != 2 or given.shape[1] != self.dimension:
            raise ValueError(f"points are rows of {self.dimension} natural numbers, got {points!r}")
        rows = given.astype(np.int32)
        count = reduce_rows(rows, len(rows), self._coordinates)
        return _shared_form(rows, count, self._coordinates)

    def _wins_within(self, position: Position, limit: int) -> bool:
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

    def _replies(self, position: Position) -> tuple[Replies, ...]:
        """Return what every subset can lead to, duplicates left out."""
        if position not in self._moves:
            self._moves[position] = tuple(
                tuple(sorted(set(self._children(position, subset)), key=len, reverse=True))
                for subset in subset_bits(self.dimension)
            )
        return self._moves[position]

    def _children(self, position: Position, subset: int) -> Replies:
        rows = np.frombuffer(position, dtype=np.int32).reshape(-1, self.dimension)
        children = []
        for axis in range(self.dimension):
            if subset >> axis & 1:
                child = rows.copy()
                shift_rows(child, len(child), subset, axis, self._coordinates)
                if is_capped(child, len(child), self._coordinates):
                    raise ValueError("a coordinate exceeds 2^30, where the game has no value")
                count = reduce_rows(child, len(child), self._coordinates)
                children.append(_shared_form(child, count, self._coordinates))
        return tuple(children)


def minimax_depth(points: Sequence[Sequence[int]]) -> int:
    """Return how many moves the host needs from ``points`` when the agent delays best.

    Args:
        points: rows of D natural numbers, one game; not necessarily minimal.
    """
    return Solver(len(points[0])).depth(points)


def _shared_form(rows: Rows, count: int, coordinates: Coordinates) -> Position:
    """Return the name of the position in the first ``count`` rows, which are reduced."""
    if count <= 1:
        return OVER
    reposition_rows(rows, count, coordinates)
    return _first_order(rows[:count], _orders(len(coordinates)), coordinates).tobytes()


@scalar
def _first_order(rows: Rows, orders: NDArray[np.int64], coordinates: Coordinates) -> Rows:
    """Return the rows under the order of coordinates that makes them lexicographically greatest."""
    best = rows.copy()
    other = np.empty_like(rows)
    for order in range(1, len(orders)):
        for k in range(rows.shape[1]):
            for row in range(rows.shape[0]):
                other[row, k] = rows[row, orders[order, k]]
        reduce_rows(other, len(other), coordinates)  # sorts; nothing is removed
        if _is_greater(other, best):
            copy_rows(other, best, len(other), coordinates)
    return best


@scalar
def _is_greater(first: Rows, second: Rows) -> bool:
    for row in range(first.shape[0]):
        for k in range(first.shape[1]):
            if first[row, k] != second[row, k]:
                return bool(first[row, k] > second[row, k])
    return False


@cache
def _orders(dimension: int) -> NDArray[np.int64]:
    return np.array(list(permutations(range(dimension))), dtype=np.int64)
