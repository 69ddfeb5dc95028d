"""Zeillinger's host on a GPU; see `hpsearch.game.zeillinger`."""

import triton
import triton.language as tl

from hpsearch.game.kernels.cuda_rows import block_of_games, load_points, num_used_rows

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
    return spread * (2 * D + 1) + ties, _pair_action(low, high)


@triton.jit
def _pair_action(first: tl.tensor, second: tl.tensor) -> tl.tensor:
    """As `zeillinger.pair_action`, int32."""
    one = first * 0 + 1
    index = (one << first) + (one << second) - tl.maximum(first, second) - 2
    return tl.where(first == second, 0, index)
