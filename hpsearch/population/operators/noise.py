"""Random numbers that operators draw, a function of the stream alone.

Axes: P members, N numbers.
"""

import torch
from torch import Tensor

from hpsearch.game.stream import Stream

_HALF_A_STEP = 2.0**-25
"""half of what uniform numbers are multiples of: it keeps them off 0 and makes them symmetric"""


def normal(stream: Stream, num_numbers: int) -> Tensor:
    """Return the next ``num_numbers`` normal numbers of every member, float32 (P, N)."""
    drawn: Tensor = torch.special.ndtri(stream.uniform(num_numbers).double() + _HALF_A_STEP)
    return drawn.float()


def signs(stream: Stream, num_numbers: int) -> Tensor:
    """Return the next ``num_numbers`` numbers of every member, -1 or 1, float32 (P, N)."""
    return torch.where(stream.uniform(num_numbers) < 0.5, -1.0, 1.0)


def below(stream: Stream, num_numbers: int, bound: int) -> Tensor:
    """Return the next ``num_numbers`` in 0 ... bound - 1 of every member, int64 (P, N)."""
    # A product just below the bound may round up to it.
    return (stream.uniform(num_numbers).double() * bound).long()
