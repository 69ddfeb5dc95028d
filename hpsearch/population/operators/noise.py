"""Random numbers that operators draw, a function of the stream alone.

Axes: P members.
"""

import torch
from torch import Tensor

from hpsearch.game.philox import Stream

_HALF_A_STEP = 2.0**-25
"""half of what uniform numbers are multiples of: it keeps them off 0 and makes them symmetric"""


def normal(stream: Stream, count: int) -> Tensor:
    """Return the next ``count`` normal numbers of every member, float32 (P, count)."""
    drawn: Tensor = torch.special.ndtri(stream.uniform(count).double() + _HALF_A_STEP)
    return drawn.float()


def signs(stream: Stream, count: int) -> Tensor:
    """Return the next ``count`` numbers of every member, -1 or 1, float32 (P, count)."""
    return torch.where(stream.uniform(count) < 0.5, -1.0, 1.0)


def below(stream: Stream, count: int, bound: int) -> Tensor:
    """Return the next ``count`` numbers in 0 ... bound - 1 of every member, int64 (P, count)."""
    # A product just below the bound may round up to it.
    return (stream.uniform(count).double() * bound).long()
