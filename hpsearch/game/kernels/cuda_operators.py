"""The operators of one line each, a launch for each of them.

G games of all members, P members, B games of one, N points, D coordinates.
"""

import triton
import triton.language as tl

from hpsearch.game import philox
from hpsearch.game.kernels.cuda_rows import (
    PADDING,
    block_of_games,
    canonical_places,
    load_points,
    reduce_points,
    store_points,
)
from hpsearch.game.kernels.cuda_starts import write_starts

WORDS_PER_BLOCK = tl.constexpr(philox.WORDS_PER_BLOCK)


@triton.jit(do_not_specialize=["num_games"])
def newton_polytope(
    points: tl.tensor,
    result: tl.tensor,
    num_games: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Reduce every game; ``points`` and ``result`` are (G, N, D)."""
    games, inside = block_of_games(num_games, BLOCK)
    reduced = reduce_points(load_points(points, games, inside, N, D, ROWS), D, ROWS)
    places = canonical_places(reduced, D, ROWS)
    store_points(result, games, inside, reduced, places, N, D, ROWS)


@triton.jit(do_not_specialize=["num_games"])
def observe(
    points: tl.tensor,
    result: tl.tensor,
    num_games: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Scale every game; ``points`` is (G, N, D), ``result`` float32 (G, N * D).

    What one lane does needs no other row, so lanes hold coordinates, and neighbours lie together.
    """
    size: tl.constexpr = N * D
    games, inside = block_of_games(num_games, BLOCK)
    first = games.to(tl.int64)[:, None] * size
    place = tl.arange(0, triton.next_power_of_2(size))[None, :]
    there = inside[:, None] & (place < size)
    coordinate = tl.load(points + first + place, mask=there, other=PADDING)
    live = tl.load(points + first + place // D * D, mask=there, other=PADDING) >= 0
    largest = tl.maximum(tl.max(coordinate, axis=1), 1)[:, None]
    # As IEEE 754 has it: a plain division may be off by a unit in the last place.
    scaled = tl.div_rn(coordinate.to(tl.float32), largest.to(tl.float32))
    tl.store(result + first + place, tl.where(live, scaled, -1.0), mask=there)


@triton.jit(do_not_specialize=["num_games", "games_per_member", "max_value"])
def random_starts(
    keys: tl.tensor,
    starts: tl.tensor,
    result: tl.tensor,
    num_games: tl.tensor,
    games_per_member: tl.tensor,
    max_value: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Draw a start for every lane; ``keys`` is (P,), ``starts`` (G,), ``result`` (G, N, D)."""
    games, inside = block_of_games(num_games, BLOCK)
    key = tl.load(keys + games // games_per_member, mask=inside, other=0)
    start = tl.load(starts + games, mask=inside, other=0)
    lane = games % games_per_member
    write_starts(result, None, games, inside, key, lane, start, max_value, False, N, D, ROWS)


@triton.jit(do_not_specialize=["num_blocks", "num_numbers"])
def uniform(
    keys: tl.tensor,
    counters: tl.tensor,
    result: tl.tensor,
    num_blocks: tl.tensor,
    num_numbers: tl.tensor,
    BLOCK: tl.constexpr,
) -> None:
    """Draw numbers in [0, 1); ``keys`` and ``counters`` are (P,), ``result`` is (P, numbers).

    A lane computes one Philox block, of ``num_blocks`` for all members.
    """
    index = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = index < num_blocks
    blocks_per_member = (num_numbers + WORDS_PER_BLOCK - 1) // WORDS_PER_BLOCK
    member, block = index // blocks_per_member, index % blocks_per_member
    key = tl.load(keys + member, mask=inside, other=0)
    counter = tl.load(counters + member, mask=inside, other=0) + block
    low, high = counter.to(tl.int32), (counter >> 32).to(tl.int32)
    words = tl.philox(key, low, high, low * 0, low * 0)
    for w in tl.static_range(WORDS_PER_BLOCK):
        number = block * WORDS_PER_BLOCK + w
        value = (words[w] >> 8).to(tl.float32) * 2.0**-24
        there = inside & (number < num_numbers)
        tl.store(result + member.to(tl.int64) * num_numbers + number, value, mask=there)
