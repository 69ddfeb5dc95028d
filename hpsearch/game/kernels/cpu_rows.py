"""One game on a CPU: ``rows`` is its int32 array (N, D), worked on in place.

The first ``count`` rows are points. Everything here costs what the live points cost, of which a
game soon has three or four.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.rules import MAX_COORDINATE, PADDING

Rows = NDArray[np.int32]


@scalar
def reduce_rows(rows: Rows, count: int) -> int:
    """Apply `rules.newton_polytope` to the first ``count`` rows; return how many are left."""
    kept = 0
    for candidate in range(count):
        kept = _admit(rows, kept, candidate)
    _sort_descending(rows, kept)
    pad_rows(rows, kept)
    return kept


@scalar
def _admit(rows: Rows, kept: int, candidate: int) -> int:
    """Add a later row to the first ``kept`` rows, none of which is below another.

    A candidate that lies above one of them is left out. Otherwise it replaces all above it.
    """
    for row in range(kept):
        if _is_below(rows, row, candidate):
            return kept
    remaining = 0
    for row in range(kept):
        if not _is_below(rows, candidate, row):
            _copy_row(rows, row, remaining)
            remaining += 1
    _copy_row(rows, candidate, remaining)
    return remaining + 1


@scalar
def _is_below(rows: Rows, low: int, high: int) -> bool:
    """Say whether row ``low`` is componentwise at most row ``high``."""
    for k in range(rows.shape[1]):  # noqa: SIM110 - numba has no all() over a generator
        if rows[low, k] > rows[high, k]:
            return False
    return True


@scalar
def _copy_row(rows: Rows, source: int, target: int) -> None:
    if source != target:
        for k in range(rows.shape[1]):
            rows[target, k] = rows[source, k]


@scalar
def _sort_descending(rows: Rows, count: int) -> None:
    """Insertion sort: the rows are few, and after a move almost in order."""
    for end in range(1, count):
        row = end
        while row > 0 and _is_smaller(rows, row - 1, row):
            for k in range(rows.shape[1]):
                rows[row - 1, k], rows[row, k] = rows[row, k], rows[row - 1, k]
            row -= 1


@scalar
def _is_smaller(rows: Rows, first: int, second: int) -> bool:
    """Compare two rows lexicographically."""
    for k in range(rows.shape[1]):
        if rows[first, k] != rows[second, k]:
            return bool(rows[first, k] < rows[second, k])
    return False


@scalar
def pad_rows(rows: Rows, count: int) -> None:
    """Fill all rows but the first ``count`` with padding."""
    for row in range(count, rows.shape[0]):
        for k in range(rows.shape[1]):
            rows[row, k] = PADDING


@scalar
def compact_rows(source: Rows, target: Rows) -> int:
    """Copy the points of ``source`` to the first rows of ``target``; return their number."""
    count = 0
    for row in range(source.shape[0]):
        if source[row, 0] >= 0:
            for k in range(source.shape[1]):
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
def copy_rows(source: NDArray[Any], target: NDArray[Any], count: int) -> None:
    """Copy the first ``count`` rows, padding included."""
    for row in range(count):
        for k in range(source.shape[1]):
            target[row, k] = source[row, k]


@scalar
def shift_rows(rows: Rows, count: int, subset: int, axis: int) -> None:
    """Apply `rules.shift` to the first ``count`` rows; bit k of ``subset`` is coordinate k."""
    for row in range(count):
        total = 0  # int64: the sum of a few int32 cannot wrap
        for k in range(rows.shape[1]):
            if (subset >> k) & 1:
                total += rows[row, k]
        rows[row, axis] = min(total, MAX_COORDINATE + 1)


@scalar
def reposition_rows(rows: Rows, count: int) -> None:
    """Apply `rules.reposition` to the first ``count`` rows."""
    for k in range(rows.shape[1]):
        minimum = rows[0, k]
        for row in range(1, count):
            minimum = min(minimum, rows[row, k])
        for row in range(count):
            rows[row, k] -= minimum


@scalar
def is_capped(rows: Rows, count: int) -> bool:
    """Apply `rules.is_capped` to the first ``count`` rows."""
    for row in range(count):
        for k in range(rows.shape[1]):
            if rows[row, k] > MAX_COORDINATE:
                return True
    return False


@scalar
def scale_rows(rows: Rows, scaled: NDArray[np.float32]) -> None:
    """Apply `rules.observe`."""
    largest = 1
    for row in range(rows.shape[0]):
        if rows[row, 0] >= 0:
            for k in range(rows.shape[1]):
                largest = max(largest, rows[row, k])
    divisor = np.float32(largest)
    for row in range(rows.shape[0]):
        if rows[row, 0] >= 0:
            for k in range(rows.shape[1]):
                scaled[row, k] = np.float32(rows[row, k]) / divisor
        else:  # padding stays as it is
            for k in range(rows.shape[1]):
                scaled[row, k] = np.float32(rows[row, k])
