"""A move in every game and all that follows from it, in one launch.

G games of all members, P members, B games of one, N points, D coordinates.
"""

import triton
import triton.language as tl

from hpsearch.game.kernels.cuda_rows import (
    are_capped,
    block_of_games,
    canonical_places,
    count_points,
    load_points,
    reduce_points,
    reposition_points,
    scale_points,
    shift_points,
    store_points,
)
from hpsearch.game.kernels.cuda_starts import write_starts


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


# Assertions need debug; the launch switches off what else that would check.
@triton.jit(
    do_not_specialize=["num_games", "games_per_member", "max_value", "max_steps"], debug=True
)
def step(
    points: tl.tensor,
    lengths: tl.tensor,
    starts: tl.tensor,
    keys: tl.tensor,
    observation: tl.tensor,
    actions: tl.tensor,
    axes: tl.tensor,
    next_points: tl.tensor,
    done: tl.tensor,
    truncated: tl.tensor,
    next_lengths: tl.tensor,
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

    ``points`` and ``next_points`` are (G, N, D), ``keys`` is (P,), all others are (G,); the
    observations are (G, N * D), or not touched without OBSERVES. Trips an assertion where a move
    is illegal.
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
    ends_early = (capped | (length >= max_steps)) & ~ends_well
    ended = ends_well | ends_early

    places = canonical_places(moved, D, ROWS)
    store_points(next_points, games, inside, moved, places, N, D, ROWS)
    tl.store(done + games, ends_well, mask=inside)
    tl.store(truncated + games, ends_early, mask=inside)
    tl.store(next_lengths + games, length, mask=inside)
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
        games % games_per_member,
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
    capped = are_capped(moved, D)
    if REPOSITION:
        moved = reposition_points(moved, D)
    return moved, capped


@triton.jit
def _host_reward(
    REWARD: tl.constexpr, num_removed: tl.tensor, done: tl.tensor, N: tl.constexpr
) -> tl.tensor:
    """Apply one of `rewards.REWARDS`; float32 (BLOCK,)."""
    if REWARD == "terminal":
        return done.to(tl.float32)
    elif REWARD == "step_penalty":
        return done.to(tl.float32) * 0.0 - 1.0
    else:
        tl.static_assert(REWARD == "points_removed")
        return tl.div_rn(num_removed.to(tl.float32), tl.full(num_removed.shape, N, tl.float32))


@triton.jit
def _decode(action: tl.tensor, D: tl.constexpr) -> tl.tensor:
    """Return the bit sets of host actions; see `encoding`.

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
