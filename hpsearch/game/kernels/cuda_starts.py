"""Start positions on a GPU, by Philox4x32-10; see `hpsearch.game.starts` and `philox`."""

import math

import triton
import triton.language as tl

from hpsearch.game import philox, starts
from hpsearch.game.kernels.cuda_rows import (
    PADDING,
    are_over,
    canonical_places,
    reduce_points,
    scale_points,
    store_points,
)

MAX_ATTEMPTS = tl.constexpr(starts.MAX_ATTEMPTS)
WORDS_PER_BLOCK = tl.constexpr(philox.WORDS_PER_BLOCK)


@triton.constexpr_function
def num_blocks_of_a_point(dimension: int) -> int:
    """Count the Philox blocks that the words of one point may lie in.

    Point i has the words D i to D i + D - 1. The first of them may stand at every multiple of
    gcd(D, 4) in its block, of which the last is 4 - gcd(D, 4).
    """
    return (4 - math.gcd(dimension, 4) + dimension + 3) // 4


@triton.jit
def write_starts(
    target: tl.tensor,
    observation: tl.tensor,
    games: tl.tensor,
    chosen: tl.tensor,
    keys: tl.tensor,
    lanes: tl.tensor,
    numbers: tl.tensor,
    max_value: tl.tensor,
    OBSERVES: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Write start ``numbers`` of ``lanes`` under ``keys`` to the ``chosen`` games of ``target``.

    With OBSERVES also what it looks like to ``observation``, float32 of the same shape.

    As `starts.random_starts`. What is over is drawn again as long as the block has such a game.
    """
    pending = chosen
    attempt = 0
    while (attempt < MAX_ATTEMPTS) & (tl.max(pending.to(tl.int32), axis=0) > 0):
        drawn = _draw(keys, lanes, numbers, attempt, max_value, N, D, ROWS)
        drawn = reduce_points(drawn, D, ROWS)
        success = pending & ~are_over(drawn)
        places = canonical_places(drawn, D, ROWS)
        store_points(target, games, success, drawn, places, N, D, ROWS)
        if OBSERVES:
            scaled = scale_points(drawn, D)
            store_points(observation, games, success, scaled, places, N, D, ROWS)
        pending = pending & ~success
        attempt += 1
    places = games[:, None] * 0 + tl.arange(0, ROWS)[None, :]
    simplest = _simplest_start(places, max_value, D)
    store_points(target, games, pending, simplest, places, N, D, ROWS)
    if OBSERVES:
        scaled = scale_points(simplest, D)
        store_points(observation, games, pending, scaled, places, N, D, ROWS)


@triton.jit
def _draw(
    keys: tl.tensor,
    lanes: tl.tensor,
    numbers: tl.tensor,
    attempt: tl.tensor,
    max_value: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
) -> tl.tuple:
    """Draw one attempt for every game of the block, not reduced.

    Each row computes the blocks that hold its own words: they are at most one or two, and no
    words change lanes.
    """
    rows = tl.arange(0, ROWS)[None, :]
    lane = lanes.to(tl.int32)[:, None]
    number = numbers.to(tl.int32)[:, None]  # its low word
    num_blocks: tl.constexpr = num_blocks_of_a_point(D)
    words = ()
    for b in tl.static_range(num_blocks):
        block = rows * D // WORDS_PER_BLOCK + b
        words = words + tl.philox(keys[:, None], block, lane, number, attempt)
    drawn = ()
    for k in tl.static_range(D):
        position = rows * D % WORDS_PER_BLOCK + k
        word = words[0]
        for w in tl.static_range(1, num_blocks * WORDS_PER_BLOCK):
            word = tl.where(position == w, words[w], word)
        coordinate = tl.umulhi(word, (max_value + 1).to(tl.uint32)).to(tl.int32)
        drawn = drawn + (tl.where(rows < N, coordinate, PADDING),)
    return drawn


@triton.jit
def _simplest_start(rows: tl.tensor, max_value: tl.tensor, D: tl.constexpr) -> tl.tuple:
    """Return `starts.simplest_start` for every game; ``rows`` (BLOCK, ROWS) are their numbers."""
    simplest = ()
    for k in tl.static_range(D):
        coordinate = tl.where(rows == k, max_value, 0)
        simplest = simplest + (tl.where(rows < 2, coordinate, PADDING),)
    return simplest
