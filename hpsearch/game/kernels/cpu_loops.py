"""The loops over games of the CPU backend, on flat arrays.

Axes: G games of all members, P members, B games of one, N points, D coordinates. For
``coordinates`` see `cpu_rows`.

What these loops write points or observations to holds padding everywhere before: to fill memory as
a whole is cheaper than to fill every game after its last point.
"""

import numba
import numpy as np
from numpy.typing import NDArray

from hpsearch.game.kernels.cpu_rows import (
    Coordinates,
    Rows,
    compact_rows,
    copy_rows,
    count_rows,
    draw_start,
    draw_words,
    is_capped,
    pad_rows,
    reduce_rows,
    reposition_rows,
    scale_rows,
    shift_rows,
    zeillinger_action,
)
from hpsearch.game.kernels.interface import batched, scalar
from hpsearch.game.random import WORDS_PER_BLOCK

Int32s = NDArray[np.int32]
Int64s = NDArray[np.int64]
Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

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
    """Scale every game; ``result`` is (G, N, D)."""
    for game in numba.prange(len(points)):
        scale_rows(points[game], len(points[game]), result[game], coordinates)


@scalar
def _split(index: int, size: int) -> tuple[int, int]:
    """Divide; the index of a prange is unsigned, and numba would make floats of it."""
    return divmod(np.int64(index), size)  # type: ignore[return-value]


@batched
def random_starts(
    keys: Int64s, starts: Int64s, max_value: int, result: Int32s, coordinates: Coordinates
) -> None:
    """Draw a start for every lane; ``starts`` is (P, B), ``result`` (P * B, N, D)."""
    num_games = starts.shape[1]
    for game in numba.prange(starts.size):
        member, lane = _split(game, num_games)
        rows = result[game]
        count = draw_start(rows, keys[member], lane, starts[member, lane], max_value, coordinates)
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
    """Choose Zeillinger's action in every canonical game; ``result`` is (G,)."""
    for game in numba.prange(len(points)):
        result[game] = zeillinger_action(points[game])


@scalar
def first_illegal_move(subset_bits: Int64s, actions: Int64s, axes: Int64s) -> int:
    """Return the first game with an illegal move, or -1; ``subset_bits`` is by action."""
    for game in range(len(actions)):
        if not 0 <= actions[game] < len(subset_bits):
            return game
        if not (0 <= axes[game] < 64 and (subset_bits[actions[game]] >> axes[game]) & 1):
            return game
    return -1


@batched
def step(
    points: Int32s,
    lengths: Int32s,
    starts: Int64s,
    keys: Int64s,
    observation: Floats,
    subsets: Int64s,
    axes: Int64s,
    max_value: int,
    max_steps: int,
    reposition: bool,
    reward_kind: int,
    next_points: Int32s,
    done: Bools,
    truncated: Bools,
    next_lengths: Int32s,
    reward: Floats,
    next_observation: Floats,
    coordinates: Coordinates,
) -> None:
    """Play one legal move in every game, and start again those that ended.

    ``points`` and ``next_points`` are (G, N, D), the observations too, or (G, 0, D) where none are
    asked for; ``keys`` is (P,), all others are (G,). Only rows that held points before the move or
    after it are touched.
    """
    num_games = len(points) // len(keys)
    observes = observation.shape[1] > 0
    for game in numba.prange(len(points)):
        present, moved = points[game], next_points[game]
        num_before = count_rows(present)
        copy_rows(present, moved, num_before, coordinates)
        count, capped = _move_rows(
            moved, num_before, subsets[game], axes[game], reposition, coordinates
        )
        length = lengths[game] + 1
        next_lengths[game] = length
        done[game] = count <= 1 and not capped
        truncated[game] = (capped or length >= max_steps) and not done[game]
        reward[game] = _host_reward(reward_kind, num_before - count, len(moved), done[game])
        if observes:
            scale_rows(moved, count, next_observation[game], coordinates)
        if done[game] or truncated[game]:
            member, lane = _split(game, num_games)
            starts[game] += 1
            count = draw_start(present, keys[member], lane, starts[game], max_value, coordinates)
            pad_rows(present, count, len(present), coordinates)
            lengths[game] = 0
            if observes:
                scale_rows(present, count, observation[game], coordinates)
                pad_rows(observation[game], count, num_before, coordinates)
        else:
            copy_rows(moved, present, num_before, coordinates)
            lengths[game] = length
            if observes:
                copy_rows(next_observation[game], observation[game], num_before, coordinates)


@scalar
def _host_reward(kind: int, num_removed: int, num_points: int, done: bool) -> float:
    """Apply one of `rewards.REWARDS`; float32."""
    if kind == TERMINAL:
        return np.float32(done)  # type: ignore[return-value]
    if kind == STEP_PENALTY:
        return np.float32(-1)  # type: ignore[return-value]
    return np.float32(num_removed) / np.float32(num_points)  # type: ignore[return-value]
