"""Philox4x32-10 and start positions on a CPU; see `hpsearch.game.philox` and `starts`."""

import numpy as np

from hpsearch.game import philox
from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.kernels.cpu_rows import Rows, pad_rows, reduce_rows
from hpsearch.game.starts import MAX_ATTEMPTS

Block = tuple[np.uint64, np.uint64, np.uint64, np.uint64]

# numba makes a float of uint64 and int64, so every constant is an uint64.
WORD = np.uint64(philox.WORD)
WORD_BITS = np.uint64(32)
LEFT_MULTIPLIER = np.uint64(philox.MULTIPLIERS[0])
RIGHT_MULTIPLIER = np.uint64(philox.MULTIPLIERS[1])
LOW_KEY_STEP = np.uint64(philox.KEY_STEPS[0])
HIGH_KEY_STEP = np.uint64(philox.KEY_STEPS[1])
NUM_ROUNDS = philox.NUM_ROUNDS
WORDS_PER_BLOCK = philox.WORDS_PER_BLOCK


@scalar
def philox4x32(c0: int, c1: int, c2: int, c3: int, key: int) -> Block:
    """Encrypt the low words of four int64 numbers under a key of 64 bits."""
    w0, w1 = np.uint64(c0) & WORD, np.uint64(c1) & WORD
    w2, w3 = np.uint64(c2) & WORD, np.uint64(c3) & WORD
    k0, k1 = np.uint64(key) & WORD, np.uint64(key) >> WORD_BITS
    for _ in range(NUM_ROUNDS):
        left, right = LEFT_MULTIPLIER * w0, RIGHT_MULTIPLIER * w2
        w0, w2 = (right >> WORD_BITS) ^ w1 ^ k0, (left >> WORD_BITS) ^ w3 ^ k1
        w1, w3 = right & WORD, left & WORD
        k0, k1 = (k0 + LOW_KEY_STEP) & WORD, (k1 + HIGH_KEY_STEP) & WORD
    return w0, w1, w2, w3


@scalar
def draw_start(rows: Rows, key: int, lane: int, start: int, max_value: int) -> None:
    """Fill ``rows`` with start ``start`` of a lane; see `starts.random_starts`."""
    for attempt in range(MAX_ATTEMPTS):
        _draw_coordinates(rows, key, lane, start, attempt, max_value)
        if reduce_rows(rows, rows.shape[0]) > 1:
            return
    _fill_simplest_start(rows, max_value)


@scalar
def _fill_simplest_start(rows: Rows, max_value: int) -> None:
    """As `starts.simplest_start`."""
    for row in range(2):
        for k in range(rows.shape[1]):
            rows[row, k] = max_value if k == row else 0
    pad_rows(rows, 2)


@scalar
def _draw_coordinates(
    rows: Rows, key: int, lane: int, start: int, attempt: int, max_value: int
) -> None:
    num_values = np.uint64(max_value + 1)
    coordinates = rows.reshape(rows.size)
    for first in range(0, rows.size, WORDS_PER_BLOCK):
        words = philox4x32(first // WORDS_PER_BLOCK, lane, start, attempt, key)
        for i in range(min(WORDS_PER_BLOCK, rows.size - first)):
            coordinates[first + i] = (words[i] * num_values) >> WORD_BITS
