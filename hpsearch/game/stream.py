"""Streams of random numbers, drawn by the fastest kernel of their device.

Axes: P members.
"""

import torch
from torch import Tensor

from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.random import WORDS_PER_BLOCK, num_blocks


class Stream:
    """P streams of uniform numbers, one for each member, each with its own key and counter."""

    def __init__(self, keys: Tensor, counters: Tensor | None = None) -> None:
        """Continue the streams ``keys``, int64 (P,), at the blocks ``counters``, else at block 0.

        ValueError if the two are not int64 vectors of one length.
        """
        if counters is None:
            counters = torch.zeros_like(keys)
        if keys.ndim != 1 or keys.shape != counters.shape:
            raise ValueError(
                "keys and counters must be vectors of one length, "
                f"got {tuple(keys.shape)=}, {tuple(counters.shape)=}"
            )
        if keys.dtype != torch.int64 or counters.dtype != torch.int64:
            raise ValueError(f"streams need int64, got {keys.dtype=}, {counters.dtype=}")
        self.keys = keys.clone()
        self.counters = counters.clone()

    def uniform(self, num_numbers: int, rows: Tensor | None = None) -> Tensor:
        """Draw the next numbers in [0, 1) of every stream, float32 (P, num_numbers).

        Every call takes whole blocks of four words and drops what is left of the last. Where
        ``rows`` int64 (A,) are given, only these streams' numbers are returned, (A, num_numbers);
        all streams move on.
        """
        backend = BACKENDS[default_backend(self.keys.device)]
        keys, counters = self.keys, self.counters
        if rows is not None:
            keys, counters = keys[rows], counters[rows]
        numbers = backend.uniform(keys, counters, num_numbers)
        self.counters += num_blocks(num_numbers)  # in place: a captured graph holds this tensor
        return numbers

    def repeated_uniform(self, count: int, num_numbers: int) -> Tensor:
        """Return what ``count`` calls of `uniform` would, float32 (count, P, num_numbers)."""
        size = WORDS_PER_BLOCK * num_blocks(num_numbers)
        numbers = self.uniform(count * size).view(-1, count, size)
        # For other strides loops would be compiled once more.
        return numbers[..., :num_numbers].transpose(0, 1).contiguous()
