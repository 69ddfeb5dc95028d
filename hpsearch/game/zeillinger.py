"""Zeillinger's host: shorten the smallest difference of two points.

Source: D. Zeillinger, "A short solution to Hironaka's polyhedra game" (2006).
Axes: N points, D coordinates, M pairs of points.
"""

import torch
from torch import Tensor

from hpsearch.game import rules


def zeillinger(points: Tensor) -> Tensor:
    """Choose the host's action from the most balanced pair of points.

    Of all pairs a, b of points, v = a - b, take the one with the lexicographically smallest
    (max v - min v, #{v = max v} + #{v = min v}), the first of equals in canonical order; the
    action is {argmin v, argmax v}, first indices, or {0, 1} where these are the same. A game
    without two points gets {0, 1}.

    Args:
        points: int32 (..., N, D), canonical.

    Returns:
        Action indices, int64 (...).
    """
    num_points, dimension = points.shape[-2:]
    # Always one column at least, so that a game of one row has a pair too, albeit a dead one.
    padded = torch.nn.functional.pad(points, (0, 0, 0, 1), value=rules.PADDING)
    first, second = torch.triu_indices(num_points, num_points + 1, 1, device=points.device)
    difference = padded.index_select(-2, first) - padded.index_select(-2, second)
    live = rules.is_live(padded).index_select(-1, second)  # live points come first: both live

    high, low = difference.amax(-1, keepdim=True), difference.amin(-1, keepdim=True)
    spread = (high.long() - low.long()).squeeze(-1)
    ties = (difference == high).sum(-1) + (difference == low).sum(-1)
    key = torch.where(live, spread * (2 * dimension + 1) + ties, torch.iinfo(torch.int64).max)

    best = key.argmin(-1, keepdim=True)  # the first of equals
    vector = difference.take_along_dim(best.unsqueeze(-1), dim=-2).squeeze(-2)
    action = pair_action(vector.argmin(-1), vector.argmax(-1))
    return torch.where(live.any(-1), action, 0)


def pair_action(first: Tensor, second: Tensor) -> Tensor:
    """Return the index of the host action {first, second}, or of {0, 1} where they are equal.

    Args:
        first: Coordinates, int64 (...).
        second: Coordinates, int64 (...).

    Returns:
        int64 (...): 2^first + 2^second - max(first, second) - 2, as in `HostActionEncoder`.
    """
    ones = torch.ones_like(first)
    index = (ones << first) + (ones << second) - torch.maximum(first, second) - 2
    return torch.where(first == second, 0, index)
