"""A block of games on a GPU: their points in registers, and what a move does to them.

``points`` is a tuple of D tiles int32 (BLOCK, ROWS), one for each coordinate, so that no register
is spent on a padded D; ROWS is N rounded up to a power of two. As in `rules`, a row whose first
coordinate is negative is no point. Rows stand in any order until `store_points` puts each in its
canonical place.

Every pair of points is compared by a loop over the rows of one side, which ends at the last point
of the block: a game soon has three or four. A tile (BLOCK, ROWS, ROWS) would compare all the
padding, too.

Start positions on a GPU, by Philox4x32-10; see `hpsearch.game.random` and `philox`.
"""

import math

import triton
import triton.language as tl

from hpsearch.game import random, rules

PADDING = tl.constexpr(rules.PADDING)
MAX_COORDINATE = tl.constexpr(rules.MAX_COORDINATE)
SATURATED = tl.constexpr(rules.MAX_COORDINATE + 1)
LARGEST_INT = tl.constexpr(2**31 - 1)


@triton.jit
def block_of_games(num_games: tl.tensor, BLOCK: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Return the games of this program, int32 (BLOCK,), and which of them there are."""
    games = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    return games, games < num_games


@triton.jit
def load_points(
    pointer: tl.tensor,
    games: tl.tensor,
    inside: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
) -> tl.tuple:
    """Read the points of ``games`` from int32 (G, N, D)."""
    rows = tl.arange(0, ROWS)[None, :]
    first = pointer + games.to(tl.int64)[:, None] * (N * D) + rows * D
    there = inside[:, None] & (rows < N)
    points = ()
    for k in tl.static_range(D):
        points = points + (tl.load(first + k, mask=there, other=PADDING),)
    return points


@triton.jit
def store_points(
    pointer: tl.tensor,
    games: tl.tensor,
    chosen: tl.tensor,
    points: tl.tuple,
    places: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
) -> None:
    """Write the rows of the ``chosen`` games to (G, N, D), each to its place."""
    first = pointer + games.to(tl.int64)[:, None] * (N * D) + places * D
    there = chosen[:, None] & (places < N)
    for k in tl.static_range(D):
        tl.store(first + k, points[k], mask=there)


@triton.jit
def shift_points(points: tl.tuple, subset: tl.tensor, axis: tl.tensor, D: tl.constexpr) -> tl.tuple:
    """Apply `rules.shift`, but for the order; ``subset`` (BLOCK,) are bit sets."""
    total = tl.zeros(points[0].shape, tl.int64)
    for k in tl.static_range(D):
        chosen = ((subset >> k) & 1) != 0
        total += tl.where(chosen[:, None], points[k], 0)
    total = tl.minimum(total, SATURATED).to(tl.int32)
    live = points[0] >= 0
    shifted = ()
    for k in tl.static_range(D):
        replaced = (axis == k)[:, None] & live
        shifted = shifted + (tl.where(replaced, total, points[k]),)
    return shifted


@triton.jit
def reduce_points(points: tl.tuple, D: tl.constexpr, ROWS: tl.constexpr) -> tl.tuple:
    """Apply `rules.newton_polytope`, but for the order: what is removed becomes padding."""
    rows = tl.arange(0, ROWS)[None, :]
    live = points[0] >= 0
    removed = points[0] < PADDING  # of no row: padding is -1
    num_used = num_used_rows(points, ROWS)
    j = 0
    while j < num_used:  # not a range: numpy 2.4 ends the interpreter's with an error
        row_j = tl.full(points[0].shape, j, tl.int32)
        below = tl.gather(points[0], row_j, axis=1) >= 0
        equal = below
        for k in tl.static_range(D):
            other = tl.gather(points[k], row_j, axis=1)
            below &= other <= points[k]
            equal &= other == points[k]
        # Of two equal points the earlier one stays.
        removed |= below & ((rows > row_j) | ~equal)
        j += 1
    reduced = ()
    for k in tl.static_range(D):
        reduced = reduced + (tl.where(live & ~removed, points[k], PADDING),)
    return reduced


@triton.jit
def canonical_places(points: tl.tuple, D: tl.constexpr, ROWS: tl.constexpr) -> tl.tensor:
    """Return in which row each row stands in canonical order, int32 (BLOCK, ROWS).

    The place of a row is the number of rows before it: those lexicographically greater, and those
    equal and earlier. Padding is less than every point.
    """
    rows = tl.arange(0, ROWS)[None, :]
    num_used = num_used_rows(points, ROWS)
    # Rows that no loop sees are padding, and stay in order after all others.
    places = tl.zeros(points[0].shape, tl.int32) + tl.maximum(rows - num_used, 0)
    j = 0
    while j < num_used:
        row_j = tl.full(points[0].shape, j, tl.int32)
        before = rows > row_j
        for k in tl.static_range(D - 1, -1, -1):
            other = tl.gather(points[k], row_j, axis=1)
            before = (other > points[k]) | ((other == points[k]) & before)
        places += before.to(tl.int32)
        j += 1
    return places


@triton.jit
def reposition_points(points: tl.tuple, D: tl.constexpr) -> tl.tuple:
    """Apply `rules.reposition`."""
    live = points[0] >= 0
    repositioned = ()
    for k in tl.static_range(D):
        minimum = tl.min(tl.where(live, points[k], LARGEST_INT), axis=1)
        moved = tl.where(live, points[k] - minimum[:, None], PADDING)
        repositioned = repositioned + (moved,)
    return repositioned


@triton.jit
def scale_points(points: tl.tuple, D: tl.constexpr) -> tl.tuple:
    """Apply `rules.observe`: D tiles float32 (BLOCK, ROWS)."""
    live = points[0] >= 0
    largest = tl.maximum(_largest_coordinate(points, D), 1).to(tl.float32)[:, None]
    scaled = ()
    for k in tl.static_range(D):
        # As IEEE 754 has it: a plain division may be off by a unit in the last place.
        share = tl.div_rn(points[k].to(tl.float32), largest)
        scaled = scaled + (tl.where(live, share, -1.0),)
    return scaled


@triton.jit
def count_points(points: tl.tuple) -> tl.tensor:
    """Count the points of every game, int32 (BLOCK,)."""
    return tl.sum((points[0] >= 0).to(tl.int32), axis=1)


@triton.jit
def are_over(points: tl.tuple) -> tl.tensor:
    """Apply `rules.is_over`."""
    return count_points(points) <= 1


@triton.jit
def are_capped(points: tl.tuple, D: tl.constexpr) -> tl.tensor:
    """Apply `rules.is_capped`."""
    return _largest_coordinate(points, D) > MAX_COORDINATE


@triton.jit
def _largest_coordinate(points: tl.tuple, D: tl.constexpr) -> tl.tensor:
    """Return the largest coordinate of every game, int32 (BLOCK,)."""
    largest = points[0]
    for k in tl.static_range(1, D):
        largest = tl.maximum(largest, points[k])
    return tl.max(largest, axis=1)


@triton.jit
def num_used_rows(points: tl.tuple, ROWS: tl.constexpr) -> tl.tensor:
    """Return how many rows there are up to the last point of any game of the block."""
    rows = tl.arange(0, ROWS)[None, :]
    return tl.max(tl.max(tl.where(points[0] >= 0, rows + 1, 0), axis=1), axis=0)


MAX_ATTEMPTS = tl.constexpr(random.MAX_ATTEMPTS)
WORDS_PER_BLOCK = tl.constexpr(random.WORDS_PER_BLOCK)


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
