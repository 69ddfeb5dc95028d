"""Zeillinger's host for one game on a CPU; see `hpsearch.game.zeillinger`."""

import numpy as np

from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.kernels.cpu_rows import Rows

WORST_KEY = np.iinfo(np.int64).max


@scalar
def zeillinger_action(rows: Rows) -> int:
    """Choose the action for one canonical game."""
    best_key = WORST_KEY
    action = 0
    for first in range(rows.shape[0]):
        for second in range(first + 1, rows.shape[0]):
            if rows[second, 0] < 0:
                break
            low, high = _extremes(rows, first, second)
            key = _key(rows, first, second, low, high)
            if key < best_key:
                best_key, action = key, _pair_action(low, high)
    return action


@scalar
def _extremes(rows: Rows, first: int, second: int) -> tuple[int, int]:
    """Return where the difference of two rows is least and where greatest, first indices."""
    low = high = 0
    for k in range(1, rows.shape[1]):
        value = _difference(rows, first, second, k)
        if value < _difference(rows, first, second, low):
            low = k
        if value > _difference(rows, first, second, high):
            high = k
    return low, high


@scalar
def _key(rows: Rows, first: int, second: int, low: int, high: int) -> int:
    """Order pairs by spread, then by how often the difference attains its extremes."""
    least = _difference(rows, first, second, low)
    greatest = _difference(rows, first, second, high)
    dimension: int = rows.shape[1]
    ties = 0
    for k in range(dimension):
        value = _difference(rows, first, second, k)
        ties += int(value == least) + int(value == greatest)
    return (greatest - least) * (2 * dimension + 1) + ties


@scalar
def _difference(rows: Rows, first: int, second: int, k: int) -> int:
    return int(rows[first, k]) - int(rows[second, k])  # int64, which holds every difference


@scalar
def _pair_action(first: int, second: int) -> int:
    if first == second:
        return 0
    return (1 << first) + (1 << second) - max(first, second) - 2
