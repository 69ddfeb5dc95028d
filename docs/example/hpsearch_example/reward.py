"""A reward: to win counts, and to win soon counts more."""

from torch import Tensor

PRICE = 0.05
"""of a move"""


def short_games(points: Tensor, next_points: Tensor, done: Tensor) -> Tensor:
    """Return what the host earns for each move, float32 (...): 1 for the last, less its price.

    ``points`` and ``next_points`` are int32 (..., N, D), ``done`` is bool (...).
    """
    return done.float() - PRICE
