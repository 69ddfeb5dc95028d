"""Host actions as numbers: an index for every subset of at least two coordinates.

A subset I is the bit set n = sum of 2^k over k in I. The admissible n, those that are neither 0
nor a power of two, in ascending order, are the actions 0, 1, 2, ...; below n lie n - 1 smaller
positive numbers, of which floor(log2 n) + 1 are powers of two, hence
index = n - floor(log2 n) - 2. For D = 3: {0,1}, {0,2}, {1,2}, {0,1,2}.
"""

from functools import cache

import torch
from torch import Tensor

MAX_DIMENSION = 16
"""The table has 2^D rows and a host's network as many outputs; more cannot be meant."""


class HostActionEncoder:
    """Translate between action indices and subsets of D coordinates."""

    def __init__(self, dimension: int) -> None:
        """Prepare the encoder for ``dimension`` coordinates, 2 to `MAX_DIMENSION`."""
        if not 2 <= dimension <= MAX_DIMENSION:
            raise ValueError(f"dimension must be in 2..{MAX_DIMENSION}, got {dimension=}")
        self.dimension = dimension
        self.num_actions = 2**dimension - dimension - 1

    def decode(self, index: Tensor) -> Tensor:
        """Return the subsets of int64 (...) indices as bool (..., D).

        A table lookup that waits for nothing. On a CUDA device an index out of range therefore
        trips an assertion of the device rather than an exception here.

        Raises:
            ValueError: An index is out of range (tensors on the CPU).
        """
        if index.device.type == "cpu" and ((index < 0) | (index >= self.num_actions)).any():
            raise ValueError(
                f"a host action in {self.dimension} coordinates must be in "
                f"0..{self.num_actions - 1}, got {index.min().item()}..{index.max().item()}"
            )
        table = _subset_table(self.dimension, index.device)
        return table.index_select(0, index.flatten()).reshape(*index.shape, -1)

    def encode(self, subset: Tensor) -> Tensor:
        """Return the indices of bool (..., D) subsets as int64 (...).

        Checks its input, so on a CUDA device it waits for the stream.

        Raises:
            ValueError: A subset has not D bits or fewer than two coordinates.
        """
        if subset.shape[-1] != self.dimension:
            raise ValueError(f"a subset has {self.dimension} bits, got {tuple(subset.shape)=}")
        if (subset.sum(-1) < 2).any():
            raise ValueError(
                "a host action has at least two coordinates, "
                f"got a subset with {subset.sum(-1).min().item()}"
            )
        coordinates = torch.arange(self.dimension, device=subset.device)
        bits = (subset << coordinates).sum(-1)
        highest = torch.where(subset, coordinates, 0).amax(-1)
        return bits - highest - 2


@cache
def subset_bits(dimension: int) -> tuple[int, ...]:
    """List the bit sets of all host actions in the order of their indices."""
    return tuple(n for n in range(1, 2**dimension) if n & (n - 1))


@cache
def _subset_table(dimension: int, device: torch.device) -> Tensor:
    """Return bool (num_actions, D) on ``device``: row = action, column = coordinate."""
    bits = torch.tensor(subset_bits(dimension)).unsqueeze(-1)
    return ((bits >> torch.arange(dimension)) & 1).bool().to(device)
