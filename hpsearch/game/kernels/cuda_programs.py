"""The Triton programs of the GPU backend, and what they do to a block of games.

``points`` is a tuple of D tiles int32 (BLOCK, ROWS), one for each coordinate, so that no register
is spent on a padded D; ROWS is N rounded up to a power of two. As in `rules`, a row whose first
coordinate is negative is no point. Rows stand in any order until `store_points` puts each in its
canonical place.

Every pair of points is compared by a loop over the rows of one side, which ends at the last point
of the block: a game soon has three or four. A tile (BLOCK, ROWS, ROWS) would compare all the
padding, too.

Axes: G games of all members, P members, B games of one, N points, D coordinates.
"""

import math

import triton
import triton.language as tl

from hpsearch.game import random, rules

INTERPRETED: bool = triton.knobs.runtime.interpret
"""Whether the programs run in Triton's interpreter, also on tensors on the CPU."""

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
    is_inside = inside[:, None] & (rows < N)
    points = ()
    for k in tl.static_range(D):
        points = points + (tl.load(first + k, mask=is_inside, other=PADDING),)
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
    is_inside = chosen[:, None] & (places < N)
    for k in tl.static_range(D):
        tl.store(first + k, points[k], mask=is_inside)


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
    return tl.sum((points[0] >= 0).to(tl.int32), axis=1)


@triton.jit
def _largest_coordinate(points: tl.tuple, D: tl.constexpr) -> tl.tensor:
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

    As `random.random_starts`. What is over is drawn again as long as the block has such a game.
    """
    pending = chosen
    attempt = 0
    while (attempt < MAX_ATTEMPTS) & (tl.max(pending.to(tl.int32), axis=0) > 0):
        drawn = _draw(keys, lanes, numbers, attempt, max_value, N, D, ROWS)
        drawn = reduce_points(drawn, D, ROWS)
        success = pending & (count_points(drawn) > 1)
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
    """Return `random.simplest_start` for every game; ``rows`` (BLOCK, ROWS) are their numbers."""
    simplest = ()
    for k in tl.static_range(D):
        coordinate = tl.where(rows == k, max_value, 0)
        simplest = simplest + (tl.where(rows < 2, coordinate, PADDING),)
    return simplest


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
    is_inside = inside[:, None] & (place < size)
    coordinate = tl.load(points + first + place, mask=is_inside, other=PADDING)
    live = tl.load(points + first + place // D * D, mask=is_inside, other=PADDING) >= 0
    largest = tl.maximum(tl.max(coordinate, axis=1), 1)[:, None]
    # As IEEE 754 has it: a plain division may be off by a unit in the last place.
    scaled = tl.div_rn(coordinate.to(tl.float32), largest.to(tl.float32))
    tl.store(result + first + place, tl.where(live, scaled, -1.0), mask=is_inside)


@triton.jit(do_not_specialize=["num_games", "games_per_member", "max_value"])
def random_starts(
    keys: tl.tensor,
    starts: tl.tensor,
    lanes: tl.tensor,
    result: tl.tensor,
    num_games: tl.tensor,
    games_per_member: tl.tensor,
    max_value: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Draw a start for every lane.

    ``keys`` is (P,), ``starts`` (G,), ``lanes`` (G / P,), ``result`` (G, N, D).
    """
    games, inside = block_of_games(num_games, BLOCK)
    key = tl.load(keys + games // games_per_member, mask=inside, other=0)
    start = tl.load(starts + games, mask=inside, other=0)
    lane = tl.load(lanes + games % games_per_member, mask=inside, other=0)
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
        is_inside = inside & (number < num_numbers)
        tl.store(result + member.to(tl.int64) * num_numbers + number, value, mask=is_inside)


@triton.jit(do_not_specialize=["num_games"])
def move(
    points: tl.tensor,
    subsets: tl.tensor,
    axes: tl.tensor,
    result: tl.tensor,
    capped: tl.tensor,
    num_games: tl.tensor,
    REPOSITION: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Play one legal move in every game; see `Backend.move`.

    ``points`` and ``result`` are (G, N, D); ``subsets``, bit sets, and all others are (G,).
    """
    games, inside = block_of_games(num_games, BLOCK)
    subset = tl.load(subsets + games, mask=inside, other=0)
    axis = tl.load(axes + games, mask=inside, other=0)
    present = load_points(points, games, inside, N, D, ROWS)
    moved, are_now_capped = _move(present, subset, axis, REPOSITION, D, ROWS)
    places = canonical_places(moved, D, ROWS)
    store_points(result, games, inside, moved, places, N, D, ROWS)
    tl.store(capped + games, are_now_capped, mask=inside)


# The assertion needs debug. The launch (`cuda._run`) turns off debug's checks of every sum.
@triton.jit(
    do_not_specialize=["num_games", "games_per_member", "max_value", "max_steps"], debug=True
)
def step(
    points: tl.tensor,
    lengths: tl.tensor,
    starts: tl.tensor,
    keys: tl.tensor,
    lanes: tl.tensor,
    observation: tl.tensor,
    actions: tl.tensor,
    axes: tl.tensor,
    next_points: tl.tensor,
    done: tl.tensor,
    truncated: tl.tensor,
    last: tl.tensor,
    reward: tl.tensor,
    next_observation: tl.tensor,
    num_games: tl.tensor,
    games_per_member: tl.tensor,
    max_value: tl.tensor,
    max_steps: tl.tensor,
    REPOSITION: tl.constexpr,
    REWARD: tl.constexpr,
    OBSERVES: tl.constexpr,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Play one move in every game, and start again those that ended; see `Backend.step`.

    ``points`` and ``next_points`` are (G, N, D), ``keys`` is (P,), ``lanes`` (G / P,), all others
    are (G,); the observations are (G, N * D), or not touched without OBSERVES. Trips an assertion
    where a move is illegal.
    """
    games, inside = block_of_games(num_games, BLOCK)
    action = tl.load(actions + games, mask=inside, other=0)
    axis = tl.load(axes + games, mask=inside, other=0)
    length = tl.load(lengths + games, mask=inside, other=0) + 1
    start = tl.load(starts + games, mask=inside, other=0)
    key = tl.load(keys + games // games_per_member, mask=inside, other=0)
    present = load_points(points, games, inside, N, D, ROWS)

    subset = _decode(action, D)
    tl.device_assert(
        _is_legal(action, subset, axis, D), "the agent's axis must lie in the host's subset"
    )
    moved, capped = _move(present, subset, axis, REPOSITION, D, ROWS)
    num_left = count_points(moved)
    ends_well = (num_left <= 1) & ~capped
    is_last = capped | (length >= max_steps)
    ends_early = is_last & ~ends_well
    ended = ends_well | ends_early

    places = canonical_places(moved, D, ROWS)
    store_points(next_points, games, inside, moved, places, N, D, ROWS)
    tl.store(done + games, ends_well, mask=inside)
    tl.store(truncated + games, ends_early, mask=inside)
    tl.store(last + games, is_last, mask=inside)
    host_reward = _host_reward(REWARD, count_points(present) - num_left, ends_well, N)
    tl.store(reward + games, host_reward, mask=inside)
    if OBSERVES:
        scaled = scale_points(moved, D)
        store_points(next_observation, games, inside, scaled, places, N, D, ROWS)

    tl.debug_barrier()  # no thread overwrites the state before all have read it
    start += ended.to(tl.int64)
    tl.store(lengths + games, tl.where(ended, 0, length), mask=inside)
    tl.store(starts + games, start, mask=inside)
    store_points(points, games, inside & ~ended, moved, places, N, D, ROWS)
    if OBSERVES:
        store_points(observation, games, inside & ~ended, scaled, places, N, D, ROWS)
    write_starts(
        points,
        observation,
        games,
        inside & ended,
        key,
        tl.load(lanes + games % games_per_member, mask=inside & ended, other=0),
        start,
        max_value,
        OBSERVES,
        N,
        D,
        ROWS,
    )


@triton.jit
def _move(
    points: tl.tuple,
    subset: tl.tensor,
    axis: tl.tensor,
    REPOSITION: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
) -> tl.tuple:
    """Play one move; return the points, in any order, and which games are capped."""
    moved = reduce_points(shift_points(points, subset, axis, D), D, ROWS)
    capped = _largest_coordinate(moved, D) > MAX_COORDINATE
    if REPOSITION:
        moved = reposition_points(moved, D)
    return moved, capped


@triton.jit
def _host_reward(
    REWARD: tl.constexpr, num_removed: tl.tensor, done: tl.tensor, N: tl.constexpr
) -> tl.tensor:
    """Apply one of `rules.REWARDS`; float32 (BLOCK,)."""
    if REWARD == "terminal":
        return done.to(tl.float32)
    elif REWARD == "step_penalty":
        return done.to(tl.float32) * 0.0 - 1.0
    else:
        tl.static_assert(REWARD == "points_removed")
        return tl.div_rn(num_removed.to(tl.float32), tl.full(num_removed.shape, N, tl.float32))


@triton.jit
def _decode(action: tl.tensor, D: tl.constexpr) -> tl.tensor:
    """Return the bit sets of host actions; see `HostActionEncoder`.

    With highest bit h a bit set n has the index n - h - 2, and the first of them, 2^h + 1, has
    2^h - h - 1. So h is 1 and one more for each h from 2 on whose first index is reached.
    """
    subset = action + 3
    for h in tl.static_range(2, D):
        subset += (action >= 2**h - h - 1).to(tl.int64)
    return subset


@triton.jit
def _is_legal(action: tl.tensor, subset: tl.tensor, axis: tl.tensor, D: tl.constexpr) -> tl.tensor:
    """Say which actions exist and have ``axis`` in their subset."""
    chosen = action < 0  # none yet
    for k in tl.static_range(D):
        chosen = chosen | ((axis == k) & (((subset >> k) & 1) != 0))
    return chosen & (action >= 0) & (action < 2**D - D - 1)


WORST = tl.constexpr(2**63 - 1)


@triton.jit(do_not_specialize=["num_games"])
def zeillinger(
    points: tl.tensor,
    result: tl.tensor,
    num_games: tl.tensor,
    N: tl.constexpr,
    D: tl.constexpr,
    ROWS: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Choose the action of every canonical game; ``points`` is (G, N, D), ``result`` (G,).

    Each row is the second point of its pairs, and keeps the best of them. A pair's key is followed
    by its number, so no two are equal: the least is the first of the best.
    """
    games, inside = block_of_games(num_games, BLOCK)
    present = load_points(points, games, inside, N, D, ROWS)
    rows = tl.arange(0, ROWS)[None, :]
    live = present[0] >= 0
    best = tl.full(present[0].shape, WORST, tl.int64)
    action = tl.zeros(present[0].shape, tl.int32)
    num_used = num_used_rows(present, ROWS)
    j = 0
    while j < num_used:
        key, candidate = _pair(present, j, D)
        key = key * (ROWS * ROWS) + (j * ROWS + rows)
        better = live & (rows > j) & (key < best)
        best = tl.where(better, key, best)
        action = tl.where(better, candidate, action)
        j += 1
    # Without any pair all rows hold the action 0.
    is_best = best == tl.min(best, axis=1)[:, None]
    chosen = tl.max(tl.where(is_best, action, 0), axis=1)
    tl.store(result + games, chosen.to(tl.int64), mask=inside)


@triton.jit
def _pair(points: tl.tuple, j: tl.tensor, D: tl.constexpr) -> tuple[tl.tensor, tl.tensor]:
    """Return the key of every row's pair with row ``j``, int64, and the pair's action, int32."""
    row_j = tl.full(points[0].shape, j, tl.int32)
    least = tl.gather(points[0], row_j, axis=1) - points[0]
    greatest = least
    low = tl.zeros(least.shape, tl.int32)
    high = low
    for k in tl.static_range(1, D):
        difference = tl.gather(points[k], row_j, axis=1) - points[k]
        low = tl.where(difference < least, k, low)
        high = tl.where(difference > greatest, k, high)
        least = tl.minimum(least, difference)
        greatest = tl.maximum(greatest, difference)
    ties = tl.zeros(least.shape, tl.int32)
    for k in tl.static_range(D):
        difference = tl.gather(points[k], row_j, axis=1) - points[k]
        ties += (difference == least).to(tl.int32) + (difference == greatest).to(tl.int32)
    spread = greatest.to(tl.int64) - least.to(tl.int64)
    ones = low * 0 + 1
    action = (ones << low) + (ones << high) - tl.maximum(low, high) - 2  # `rules.pair_action`
    return spread * (2 * D + 1) + ties, tl.where(low == high, 0, action)
