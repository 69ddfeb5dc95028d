"""One game on a CPU: ``rows`` is its int32 array (N, D), worked on in place.

The first ``count`` rows are points, and nothing here touches any other row, so everything costs
what the points cost, of which a game soon has three or four.

``coordinates``, from `unrolled`, are D of anything. The compiler knows the length of a tuple, as it
does not know that of an array, and unrolls the loops over it.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.rules import MAX_COORDINATE, PADDING

Rows = NDArray[np.int32]
Coordinates = tuple[int, ...] | NDArray[np.int64]

SIMD_WIDTH = 8  # int32 numbers that AVX2 handles at once
MAX_PAIRWISE = SIMD_WIDTH  # points that are compared in pairs: too few to fill vectors
UNROLLED = (3, 4)  # coordinates of the usual games; each number of them costs a compilation


def unrolled(dimension: int) -> Coordinates:
    """Return coordinates for loops that are unrolled where D is usual.

    For every length of a tuple all is compiled anew, which takes seconds; all other D share one
    program.
    """
    return tuple(range(dimension)) if dimension in UNROLLED else np.arange(dimension)


@scalar
def reduce_rows(rows: Rows, count: int, coordinates: Coordinates) -> int:
    """Apply `rules.newton_polytope` to the first ``count`` rows; return how many are left.

    The rows after these hold anything.
    """
    if count > MAX_PAIRWISE:
        kept = _keep_minimal(rows, count, coordinates)
    else:
        kept = 0
        for candidate in range(count):
            kept = _admit(rows, kept, candidate, coordinates)
    _sort_descending(rows, kept, coordinates)
    return kept


@scalar
def _admit(rows: Rows, kept: int, candidate: int, coordinates: Coordinates) -> int:
    """Add a later row to the first ``kept`` rows, none of which is below another.

    A candidate that lies above one of them is left out. Otherwise it replaces all above it.
    """
    for row in range(kept):
        if _is_below(rows, row, candidate, coordinates):
            return kept
    remaining = 0
    for row in range(kept):
        if not _is_below(rows, candidate, row, coordinates):
            _copy_row(rows, row, remaining, coordinates)
            remaining += 1
    _copy_row(rows, candidate, remaining, coordinates)
    return remaining + 1


@scalar
def _is_below(rows: Rows, low: int, high: int, coordinates: Coordinates) -> bool:
    """Say whether row ``low`` is componentwise at most row ``high``."""
    below = True
    for k in range(len(coordinates)):  # to the end: nobody can foresee where it would break off
        below &= rows[low, k] <= rows[high, k]
    return below


@scalar
def _copy_row(rows: Rows, source: int, target: int, coordinates: Coordinates) -> None:
    if source != target:
        for k in range(len(coordinates)):
            rows[target, k] = rows[source, k]


@scalar
def _keep_minimal(rows: Rows, count: int, coordinates: Coordinates) -> int:
    """Do for many rows, as of a start, what `_admit` does for each of a few.

    Every row that lies above no earlier one removes all that lie above it, itself excepted. In
    columns the compiler compares it with `SIMD_WIDTH` others at once.
    """
    width = -(-count // SIMD_WIDTH) * SIMD_WIDTH
    columns = np.empty((len(coordinates), width), dtype=np.int32)
    above = np.zeros(width, dtype=np.int32)
    for row in range(count):
        for k in range(len(coordinates)):
            columns[k, row] = rows[row, k]
    for row in range(count):
        if above[row] == 0:
            for other in range(width):
                is_above = np.int32(1)
                for k in range(len(coordinates)):
                    is_above &= np.int32(columns[k, row] <= columns[k, other])
                above[other] |= is_above
            above[row] = 0
    kept = 0
    for row in range(count):
        if above[row] == 0:
            _copy_row(rows, row, kept, coordinates)
            kept += 1
    return kept


@scalar
def _sort_descending(rows: Rows, count: int, coordinates: Coordinates) -> None:
    """Insertion sort: the rows are few, and after a move almost in order."""
    for end in range(1, count):
        row = end
        while row > 0 and _is_smaller(rows, row - 1, row, coordinates):
            _swap_rows(rows, row - 1, row, coordinates)
            row -= 1


@scalar
def _is_smaller(rows: Rows, first: int, second: int, coordinates: Coordinates) -> bool:
    """Compare two rows lexicographically."""
    for k in range(len(coordinates)):
        if rows[first, k] != rows[second, k]:
            return bool(rows[first, k] < rows[second, k])
    return False


@scalar
def _swap_rows(rows: Rows, first: int, second: int, coordinates: Coordinates) -> None:
    for k in range(len(coordinates)):
        rows[first, k], rows[second, k] = rows[second, k], rows[first, k]


@scalar
def pad_rows(rows: NDArray[Any], first: int, last: int, coordinates: Coordinates) -> None:
    """Fill the rows from ``first`` up to, but not including ``last`` with padding."""
    for row in range(first, last):
        for k in range(len(coordinates)):
            rows[row, k] = PADDING


@scalar
def compact_rows(source: Rows, target: Rows, coordinates: Coordinates) -> int:
    """Copy the points of ``source`` to the first rows of ``target``; return their number."""
    count = 0
    for row in range(source.shape[0]):
        if source[row, 0] >= 0:
            for k in range(len(coordinates)):
                target[count, k] = source[row, k]
            count += 1
    return count


@scalar
def count_rows(rows: Rows) -> int:
    """Return the number of points of a canonical game, which come first."""
    count = 0
    while count < rows.shape[0] and rows[count, 0] >= 0:
        count += 1
    return count


@scalar
def copy_rows(
    source: NDArray[Any], target: NDArray[Any], count: int, coordinates: Coordinates
) -> None:
    """Copy the first ``count`` rows, padding included."""
    for row in range(count):
        for k in range(len(coordinates)):
            target[row, k] = source[row, k]


@scalar
def shift_rows(rows: Rows, count: int, subset: int, axis: int, coordinates: Coordinates) -> None:
    """Apply `rules.shift` to the first ``count`` rows; bit k of ``subset`` is coordinate k."""
    for row in range(count):
        total = 0  # int64: the sum of a few int32 cannot wrap
        for k in range(len(coordinates)):
            if (subset >> k) & 1:
                total += rows[row, k]
        rows[row, axis] = min(total, MAX_COORDINATE + 1)


@scalar
def reposition_rows(rows: Rows, count: int, coordinates: Coordinates) -> None:
    """Apply `rules.reposition` to the first ``count`` rows."""
    for k in range(len(coordinates)):
        minimum = rows[0, k]
        for row in range(1, count):
            minimum = min(minimum, rows[row, k])
        for row in range(count):
            rows[row, k] -= minimum


@scalar
def is_capped(rows: Rows, count: int, coordinates: Coordinates) -> bool:
    """Apply `rules.is_capped` to the first ``count`` rows."""
    return _largest(rows, count, coordinates) > MAX_COORDINATE


@scalar
def scale_rows(
    rows: Rows, count: int, scaled: NDArray[np.float32], coordinates: Coordinates
) -> None:
    """Apply `rules.observe` to the points among the first ``count`` rows."""
    divisor = np.float32(_largest(rows, count, coordinates))
    for row in range(count):
        if rows[row, 0] >= 0:
            for k in range(len(coordinates)):
                scaled[row, k] = np.float32(rows[row, k]) / divisor


@scalar
def _largest(rows: Rows, count: int, coordinates: Coordinates) -> int:
    """Return the largest coordinate of the first ``count`` rows, at least 1."""
    largest = np.int32(1)
    for row in range(count):
        for k in range(len(coordinates)):
            largest = max(largest, rows[row, k])
    return largest  # type: ignore[return-value]
