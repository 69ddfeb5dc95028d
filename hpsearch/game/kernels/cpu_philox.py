"""Philox4x32-10 and start positions on a CPU; see `hpsearch.game.philox` and `starts`."""

import numpy as np
from numpy.typing import NDArray

from hpsearch.game import philox
from hpsearch.game.kernels.compiled import scalar
from hpsearch.game.kernels.cpu_rows import (
    Coordinates,
    Rows,
    reduce_rows,
)
from hpsearch.game.starts import MAX_ATTEMPTS

# numba makes a float of uint64 and int64, so every constant is an uint64.
WORD = np.uint64(philox.WORD)
WORD_BITS = np.uint64(32)
LEFT_MULTIPLIER = np.uint64(philox.MULTIPLIERS[0])
RIGHT_MULTIPLIER = np.uint64(philox.MULTIPLIERS[1])
LOW_KEY_STEP = np.uint64(philox.KEY_STEPS[0])
HIGH_KEY_STEP = np.uint64(philox.KEY_STEPS[1])
NUM_ROUNDS = philox.NUM_ROUNDS
WORDS_PER_BLOCK = philox.WORDS_PER_BLOCK
SIMD_BLOCKS = 8  # blocks that a processor with AVX-512 handles at once


@scalar
def draw_words(key: int, counter: int, c2: int, c3: int, num_blocks: int) -> NDArray[np.uint64]:
    """Encrypt counters of 64 bits in a row, each followed by two words, under a key of 64 bits.

    Returns:
        The words of at least ``num_blocks`` blocks, uint64 (blocks, 4).
    """
    # The compiler does several blocks at once, but those that are left over one by one.
    words = np.empty(
        (-(-num_blocks // SIMD_BLOCKS) * SIMD_BLOCKS, WORDS_PER_BLOCK), dtype=np.uint64
    )
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

    See `starts.random_starts`. The rows after these hold anything.
    """
    for attempt in range(MAX_ATTEMPTS):
        _draw_coordinates(rows, key, lane, start, attempt, max_value, coordinates)
        count = reduce_rows(rows, len(rows), coordinates)
        if count > 1:
            return count
    _fill_simplest_start(rows, max_value, coordinates)
    return 2


@scalar
def _fill_simplest_start(rows: Rows, max_value: int, coordinates: Coordinates) -> None:
    """As `starts.simplest_start`."""
    for row in range(2):
        for k in range(len(coordinates)):
            rows[row, k] = max_value if k == row else 0


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
