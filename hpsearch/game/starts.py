"""Start positions as a pure function of (key, lane, start number).

Axes: P members, B games (lanes), N points, D coordinates.
"""

from typing import Final

import torch
from torch import Tensor

from hpsearch.game import rules
from hpsearch.game.philox import WORD, num_blocks, philox4x32, split_words

MAX_ATTEMPTS: Final = 16
"""How often a start that is already over is drawn again.

A fixed number, so that a batch needs no look at its own results. At 20 points in 3 coordinates
2 % of the draws are over, and sixteen in a row never happen; the worst case is two points in two
coordinates, half of which are over. What is still over then becomes `simplest_start`.
"""


def random_starts(
    keys: Tensor, starts: Tensor, *, num_points: int, dimension: int, max_value: int
) -> Tensor:
    """Draw start positions: uniform on {0..max_value}, reduced, never over.

    The words of attempt ``a`` for start ``s`` of lane ``b`` under key ``k`` are the Philox blocks
    of key ``k`` with counters (block, b, s, a).

    Args:
        keys: int64 (P,), one for each member.
        starts: int64 (P, B), the number of each lane's start.
        num_points: N, at least 2.
        dimension: D, at least 2.
        max_value: The largest coordinate, included, at least 1.

    Returns:
        int32 (P, B, N, D), canonical.
    """
    fallback = simplest_start(num_points, dimension, max_value, starts.device)
    points = fallback.expand(*starts.shape, -1, -1)
    over = torch.ones_like(starts, dtype=torch.bool)
    for attempt in range(MAX_ATTEMPTS):
        if over.device.type == "cpu" and not over.any():  # elsewhere, looking would wait
            break
        drawn = _draw(keys, starts, attempt, (num_points, dimension), max_value)
        reduced = rules.newton_polytope(drawn)
        success = over & ~rules.is_over(reduced)
        points = torch.where(success[..., None, None], reduced, points)
        over = over & ~success
    return points


def simplest_start(num_points: int, dimension: int, max_value: int, device: torch.device) -> Tensor:
    """Return the two points max_value on axis 0 and on axis 1, int32 (N, D), canonical."""
    points = torch.full((num_points, dimension), rules.PADDING, dtype=torch.int32, device=device)
    points[:2] = max_value * torch.eye(2, dimension, dtype=torch.int32, device=device)
    return points


def _draw(
    keys: Tensor, starts: Tensor, attempt: int, shape: tuple[int, int], max_value: int
) -> Tensor:
    """Draw one attempt for every lane: int32 (P, B, *shape), not reduced."""
    num_words = shape[0] * shape[1]
    blocks = torch.arange(num_blocks(num_words), device=starts.device)
    lanes = torch.arange(starts.shape[1], device=starts.device)
    counter = torch.empty(*starts.shape, len(blocks), 4, dtype=torch.int64, device=starts.device)
    counter[..., 0] = blocks
    counter[..., 1] = lanes[:, None]
    counter[..., 2] = (starts & WORD)[..., None]
    counter[..., 3] = attempt
    words = philox4x32(counter, split_words(keys)[:, None, None, :])
    coordinates = (words.flatten(-2)[..., :num_words] * (max_value + 1)) >> 32
    return coordinates.to(torch.int32).reshape(*starts.shape, *shape)
