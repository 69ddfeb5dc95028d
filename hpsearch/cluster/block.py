"""One piece of memory with equal places, each for tensors of one layout."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.errors import DiskError
from hpsearch.trainers.acting import Tensors

ALIGNMENT = 64  # bytes; more than any type of number needs

Layout = Sequence[tuple[str, torch.dtype, torch.Size]]


class Block(NamedTuple):
    """Tensors in one piece of memory, which is one open file where processes share it."""

    data: Tensor  # uint8
    layout: Layout  # of each of its equal places

    @classmethod
    def shared(cls, layout: Layout, count: int) -> "Block":
        """Make room for such tensors ``count`` times, or raise DiskError."""
        size = _size(layout)
        try:
            return cls(torch.zeros(count, size, dtype=torch.uint8).share_memory_(), layout)
        except RuntimeError as error:  # of torch
            raise DiskError(
                f"the memory that processes share (/dev/shm) has no room for {count * size} bytes "
                f"of actors ({error}); enlarge it, lower rollouts.actors or "
                "rollouts.max_staleness, or write rollouts: {mode: inline}"
            ) from error

    @classmethod
    def local(cls, device: str, layout: Layout) -> "Block":
        """Make room for such tensors once, in memory of this process alone."""
        size = _size(layout)
        return cls(torch.zeros(1, size, dtype=torch.uint8, device=device), layout)

    @classmethod
    def filled(cls, tensors: Tensors) -> "Block":
        block = cls.shared(layout_of(tensors), 1)
        block.fill(0, tensors)
        return block

    def fill(self, number: int, tensors: Tensors) -> None:
        for name, own in self.place(number).items():
            own.copy_(tensors[name])

    def place(self, number: int) -> dict[str, Tensor]:
        """Return the tensors of one place, by name."""
        tensors, first = {}, 0
        for name, dtype, shape in self.layout:
            last = first + shape.numel() * dtype.itemsize
            tensors[name] = self.data[number, first:last].view(dtype).view(shape)
            first += _room(dtype, shape)
        return tensors


def layout_of(tensors: Tensors) -> Layout:
    return [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]


def _size(layout: Layout) -> int:
    return sum(_room(dtype, shape) for _, dtype, shape in layout)


def _room(dtype: torch.dtype, shape: torch.Size) -> int:
    return -(-shape.numel() * dtype.itemsize // ALIGNMENT) * ALIGNMENT
