"""The compiled code of the CPU backend: what is done to one game, and the loops over games.

``rows`` is the int32 array (N, D) of one game, worked on in place. The first ``count`` rows are
points, and functions touch no other row, so everything costs what the points cost, of which a game
soon has three or four. What the loops write points or observations to holds padding everywhere
before: to fill memory as a whole is cheaper than to fill every game after its last point.

``coordinates``, from `unrolled`, only carry the number D, as their length. For the usual D they are
a tuple, whose length the compiler knows, so it unrolls loops over them; otherwise an array.

Axes: G games of all members, P members, B games of one, N points, D coordinates.
"""

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from hpsearch.game import random
from hpsearch.game.kernels.interface import Bools, Floats, Int32s, Int64s, batched, scalar
from hpsearch.game.random import MAX_ATTEMPTS, NUM_ROUNDS, WORDS_PER_BLOCK
from hpsearch.game.rules import MAX_COORDINATE, PADDING

Rows = Int32s
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
    below = True
    for k in range(len(coordinates)):  # to the end: where it would break off cannot be foreseen
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
            for k in range(len(coordinates)):
                rows[row - 1, k], rows[row, k] = rows[row, k], rows[row - 1, k]
            row -= 1


@scalar
def _is_smaller(rows: Rows, first: int, second: int, coordinates: Coordinates) -> bool:
    for k in range(len(coordinates)):
        if rows[first, k] != rows[second, k]:
            return bool(rows[first, k] < rows[second, k])
    return False


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
    return _largest(rows, count, coordinates) > MAX_COORDINATE


@scalar
def scale_rows(rows: Rows, count: int, scaled: Floats, coordinates: Coordinates) -> None:
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


WORST_KEY = np.iinfo(np.int64).max


@scalar
def zeillinger_action(rows: Rows) -> int:
    best_key = WORST_KEY
    action = 0
    for first in range(rows.shape[0]):
        for second in range(first + 1, rows.shape[0]):
            if rows[second, 0] < 0:
                break
            key, low, high = _pair(rows, first, second)
            if key < best_key:
                best_key = key
                action = 0 if low == high else (1 << low) + (1 << high) - max(low, high) - 2
    return action


@scalar
def _pair(rows: Rows, first: int, second: int) -> tuple[int, int, int]:
    """Return a pair's key, and where its difference is least and greatest, first indices.

    Keys order by spread, then by how often the difference attains its extremes.
    """
    low = high = 0
    least = greatest = _difference(rows, first, second, 0)
    for k in range(1, rows.shape[1]):
        value = _difference(rows, first, second, k)
        if value < least:
            low, least = k, value
        if value > greatest:
            high, greatest = k, value
    ties = 0
    for k in range(rows.shape[1]):
        value = _difference(rows, first, second, k)
        ties += int(value == least) + int(value == greatest)
    return (greatest - least) * (2 * rows.shape[1] + 1) + ties, low, high


@scalar
def _difference(rows: Rows, first: int, second: int, k: int) -> int:
    return int(rows[first, k]) - int(rows[second, k])  # int64, which holds every difference


# numba makes a float of uint64 and int64, so every constant is an uint64.
WORD = np.uint64(random.WORD)
WORD_BITS = np.uint64(32)
LEFT_MULTIPLIER = np.uint64(random.MULTIPLIERS[0])
RIGHT_MULTIPLIER = np.uint64(random.MULTIPLIERS[1])
LOW_KEY_STEP = np.uint64(random.KEY_STEPS[0])
HIGH_KEY_STEP = np.uint64(random.KEY_STEPS[1])
SIMD_BLOCKS = 8  # blocks that a processor with AVX-512 handles at once


@scalar
def draw_words(key: int, counter: int, c2: int, c3: int, num_blocks: int) -> NDArray[np.uint64]:
    """Encrypt counters of 64 bits in a row, each followed by two words, under a key of 64 bits.

    Returns:
        The words of at least ``num_blocks`` blocks, uint64 (blocks, 4).
    """
    # The compiler does several blocks at once, but those that are left over one by one.
    size = -(-num_blocks // SIMD_BLOCKS) * SIMD_BLOCKS
    words = np.empty((size, WORDS_PER_BLOCK), dtype=np.uint64)
    for block in range(len(words)):
        low = np.uint64(counter + block)
        w0, w1 = low & WORD, low >> WORD_BITS
        w2, w3 = np.uint64(c2) & WORD, np.uint64(c3) & WORD
        k0, k1 = np.uint64(key) & WORD, np.uint64(key) >> WORD_BITS
        for _ in range(NUM_ROUNDS):
            left, right = LEFT_MULTIPLIER * w0, RIGHT_MULTIPLIER * w2
            w0, w2 = (right >> WORD_BITS) ^ w1 ^ k0, (left >> WORD_BITS) ^ w3 ^ k1
            w1, w3 = right & WORD, left & WORD
            k0, k1 = (k0 + LOW_KEY_STEP) & WORD, (k1 + HIGH_KEY_STEP) & WORD
        words[block, 0] = w0
        words[block, 1] = w1
        words[block, 2] = w2
        words[block, 3] = w3
    return words


@scalar
def draw_start(
    rows: Rows, key: int, lane: int, start: int, max_value: int, coordinates: Coordinates
) -> int:
    """Draw start ``start`` of a lane into the first of ``rows``; return how many points it has.

    See `random.random_starts`. The rows after these hold anything.
    """
    for attempt in range(MAX_ATTEMPTS):
        _draw_coordinates(rows, key, lane, start, attempt, max_value, coordinates)
        count = reduce_rows(rows, len(rows), coordinates)
        if count > 1:
            return count
    for row in range(2):  # the simplest start
        for k in range(len(coordinates)):
            rows[row, k] = max_value if k == row else 0
    return 2


@scalar
def _draw_coordinates(
    rows: Rows,
    key: int,
    lane: int,
    start: int,
    attempt: int,
    max_value: int,
    coordinates: Coordinates,
) -> None:
    num_blocks = -(-rows.size // WORDS_PER_BLOCK)
    words = draw_words(key, lane << 32, start, attempt, num_blocks).reshape(-1)
    num_values = np.uint64(max_value + 1)
    for row in range(len(rows)):
        for k in range(len(coordinates)):
            word = words[row * len(coordinates) + k]
            rows[row, k] = (word * num_values) >> WORD_BITS


FLOAT_BITS = np.uint64(8)  # of the 32 bits of a word, 24 fit a float32
FLOAT_UNIT = np.float32(2.0**-24)
BLOCKS_OF_PIECE = 256  # of random numbers, whose words stay in a core's cache

TERMINAL, STEP_PENALTY, POINTS_REMOVED = range(3)
REWARD_KINDS = {
    "terminal": TERMINAL,
    "step_penalty": STEP_PENALTY,
    "points_removed": POINTS_REMOVED,
}
"""the rewards by name, as a step knows them: numba handles numbers faster"""


@batched
def newton_polytope(points: Int32s, result: Int32s, coordinates: Coordinates) -> None:
    """Reduce every game; ``points`` and ``result`` are (G, N, D)."""
    for game in numba.prange(len(points)):
        count = compact_rows(points[game], result[game], coordinates)
        kept = reduce_rows(result[game], count, coordinates)
        pad_rows(result[game], kept, count, coordinates)


@batched
def move(
    points: Int32s,
    subsets: Int64s,
    axes: Int64s,
    reposition: bool,
    result: Int32s,
    capped: Bools,
    coordinates: Coordinates,
) -> None:
    """Play one legal move in every game; ``subsets`` (G,) are bit sets."""
    for game in numba.prange(len(points)):
        count = compact_rows(points[game], result[game], coordinates)
        _, capped[game] = _move_rows(
            result[game], count, subsets[game], axes[game], reposition, coordinates
        )


@scalar
def _move_rows(
    rows: Rows, count: int, subset: int, axis: int, reposition: bool, coordinates: Coordinates
) -> tuple[int, bool]:
    """Play one move; return how many points are left and whether the game is capped."""
    shift_rows(rows, count, subset, axis, coordinates)
    kept = reduce_rows(rows, count, coordinates)
    pad_rows(rows, kept, count, coordinates)
    capped = is_capped(rows, kept, coordinates)
    if reposition:
        reposition_rows(rows, kept, coordinates)
    return kept, capped


@batched
def observe(points: Int32s, result: Floats, coordinates: Coordinates) -> None:
    for game in numba.prange(len(points)):
        scale_rows(points[game], len(points[game]), result[game], coordinates)


@scalar
def _split(index: int, size: int) -> tuple[int, int]:
    """Divide; the index of a prange is unsigned, and numba would make floats of it."""
    return divmod(np.int64(index), size)  # type: ignore[return-value]


@batched
def random_starts(
    keys: Int64s,
    starts: Int64s,
    lanes: Int64s,
    max_value: int,
    result: Int32s,
    coordinates: Coordinates,
) -> None:
    """Draw a start for every lane; ``starts`` is (P, B), ``lanes`` (B,), ``result`` (G, N, D)."""
    num_games = starts.shape[1]
    for game in numba.prange(starts.size):
        member, place = _split(game, num_games)
        rows, start = result[game], starts[member, place]
        count = draw_start(rows, keys[member], lanes[place], start, max_value, coordinates)
        pad_rows(rows, count, len(rows), coordinates)


@batched
def uniform(keys: Int64s, counters: Int64s, result: Floats) -> None:
    """Draw numbers in [0, 1) for every member; ``result`` is (P, n)."""
    num_members, num_numbers = result.shape
    blocks_of_member = -(-num_numbers // WORDS_PER_BLOCK)
    pieces_of_member = -(-blocks_of_member // BLOCKS_OF_PIECE)
    for index in numba.prange(num_members * pieces_of_member):
        member, piece = _split(index, pieces_of_member)
        block = BLOCKS_OF_PIECE * piece
        count = min(BLOCKS_OF_PIECE, blocks_of_member - block)
        words = draw_words(keys[member], counters[member] + block, 0, 0, count).reshape(-1)
        first = WORDS_PER_BLOCK * block
        for i in range(min(WORDS_PER_BLOCK * count, num_numbers - first)):
            result[member, first + i] = np.float32(words[i] >> FLOAT_BITS) * FLOAT_UNIT


@batched
def zeillinger(points: Int32s, result: Int64s) -> None:
    for game in numba.prange(len(points)):
        result[game] = zeillinger_action(points[game])


@batched
def step(
    points: Int32s,
    lengths: Int32s,
    starts: Int64s,
    keys: Int64s,
    lanes: Int64s,
    observation: Floats,
    subset_bits: Int64s,
    actions: Int64s,
    axes: Int64s,
    max_value: int,
    max_steps: int,
    reposition: bool,
    reward_kind: int,
    next_points: Int32s,
    done: Bools,
    truncated: Bools,
    last: Bools,
    reward: Floats,
    next_observation: Floats,
    coordinates: Coordinates,
) -> int:
    """Play one move in every game, and start again those that ended.

    ``subset_bits`` is by action, the other shapes are as in `GameState`, `Backend.step` and `Step`.
    Only rows that held points before the move or after it are touched. Return the number of the
    first game with an illegal move, p * B + b, where nothing is played then, or else -1.
    """
    num_members, num_games, num_points, dimension = points.shape
    for p in range(num_members):
        for b in range(num_games):
            if not _is_legal(subset_bits, actions[p, b], axes[p, b]):
                return int(p * num_games + b)
    rows = (num_members, num_games, observation.shape[2] // dimension, dimension)
    seen, seen_next = observation.reshape(rows), next_observation.reshape(rows)
    observes = rows[2] > 0
    for game in numba.prange(num_members * num_games):
        p, b = _split(game, num_games)
        present, moved = points[p, b], next_points[p, b]
        num_before = count_rows(present)
        copy_rows(present, moved, num_before, coordinates)
        subset = subset_bits[actions[p, b]]
        count, capped = _move_rows(moved, num_before, subset, axes[p, b], reposition, coordinates)
        length = lengths[p, b] + 1
        is_done = count <= 1 and not capped
        is_last = capped or length >= max_steps
        is_truncated = is_last and not is_done
        done[p, b], truncated[p, b], last[p, b] = is_done, is_truncated, is_last
        reward[p, b] = _host_reward(reward_kind, num_before - count, num_points, is_done)
        if observes:
            scale_rows(moved, count, seen_next[p, b], coordinates)
        if is_done or is_truncated:
            starts[p, b] += 1
            count = draw_start(present, keys[p], lanes[b], starts[p, b], max_value, coordinates)
            pad_rows(present, count, num_points, coordinates)
            lengths[p, b] = 0
            if observes:
                scale_rows(present, count, seen[p, b], coordinates)
                pad_rows(seen[p, b], count, num_before, coordinates)
        else:
            copy_rows(moved, present, num_before, coordinates)
            lengths[p, b] = length
            if observes:
                copy_rows(seen_next[p, b], seen[p, b], num_before, coordinates)
    return -1


@scalar
def _is_legal(subset_bits: Int64s, action: int, axis: int) -> bool:
    if not (0 <= action < len(subset_bits) and 0 <= axis < 64):
        return False
    return bool((subset_bits[action] >> axis) & 1)


@scalar
def _host_reward(kind: int, num_removed: int, num_points: int, done: bool) -> float:
    """Apply one of `rules.REWARDS`; float32."""
    if kind == TERMINAL:
        return np.float32(done)  # type: ignore[return-value]
    if kind == STEP_PENALTY:
        return np.float32(-1)  # type: ignore[return-value]
    return np.float32(num_removed) / np.float32(num_points)  # type: ignore[return-value]
