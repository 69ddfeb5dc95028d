"""Ranks: the processes that train one population together, and which games each of them plays.

Every rank holds the same weights and decides the same. Its own are games, and the memory of what
happened in them; what is computed of these alone is averaged or gathered. Games are shared out by
shards, whose number is a key of the configuration: a rank has one or more of them, so the games and
what is learned from them do not depend on how many ranks there are. Axes: P members, B games, S
shards, G ranks.
"""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TypeVar

import torch
from torch import Tensor, distributed

T = TypeVar("T")


class BrokenOffError(RuntimeError):
    """A call that all ranks make together failed, as it does once one of them is gone."""


@dataclass
class Calls:
    """Which a rank has made with all others."""

    num: int = 0
    waited: float = 0.0  # seconds for others; of calls on a CPU alone


@dataclass(frozen=True)
class Ranks:
    """This process among all that train together, by the default group of torch.distributed.

    All ranks make the same calls in the same order.
    """

    rank: int
    size: int  # G
    calls: Calls = field(default_factory=Calls, compare=False)

    def split(self, num: int) -> "list[Ranks]":
        """Return ranks that have equal parts of this one's games, none of which calls another."""
        return [Ranks(self.rank * num + part, self.size * num) for part in range(num)]

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Make a call of all ranks in the block."""
        began = time.perf_counter()
        self.calls.num += 1
        try:
            yield
        except torch.OutOfMemoryError:  # this rank's own failure
            raise
        except RuntimeError as error:
            raise BrokenOffError(f"a call of all ranks was broken off: {error}") from error
        self.calls.waited += time.perf_counter() - began

    def told_by_first(self, data: T) -> T:
        """Return what the first rank says; small plain data."""
        box = [data]
        if self.size > 1:
            with self.calling():
                distributed.broadcast_object_list(box, device=torch.device("cpu"))
        return box[0]

    def told_by_all(self, data: T) -> list[T]:
        """Return what each rank says; small plain data."""
        boxes = [data] * self.size
        if self.size > 1:
            with self.calling():
                distributed.all_gather_object(boxes, data)
        return boxes

    @contextmanager
    def together(self) -> Iterator[None]:
        """Raise on every rank what one of them raises: an OSError that says where and what."""
        failed: OSError | None = None
        try:
            yield
        except OSError as error:
            failed = error
        faults = self.told_by_all(None if failed is None else f"rank {self.rank}: {failed}")
        if failed is not None:
            raise failed
        for fault in faults:
            if fault is not None:
                raise OSError(fault)

    def average(self, tensor: Tensor) -> Tensor:
        """Return the mean of the ranks' tensors, of the same bits on each; changes ``tensor``."""
        if self.size == 1:
            return tensor
        with self.calling():
            distributed.all_reduce(tensor)
        return tensor.div_(self.size)

    def gather(self, tensor: Tensor) -> Tensor:
        """Return the ranks' tensors of one shape as (G, ...); no gradients pass."""
        if self.size == 1:
            return tensor[None]
        parts = [torch.empty_like(tensor) for _ in range(self.size)]
        with self.calling():
            distributed.all_gather(parts, tensor.contiguous())
        return torch.stack(parts)

    def lanes(self, num_games: int, device: torch.device) -> Tensor:
        """Return which of ``num_games`` games this rank plays to measure players, int64 (B,).

        All ranks have as many; those of the last ones may go on beyond the last game.
        """
        num_own = math.ceil(num_games / self.size)
        return self.rank * num_own + torch.arange(num_own, device=device)

    def gather_games(self, own: Tensor, num_games: int) -> Tensor:
        """Return what all ranks have of the games (..., G), each of its own `lanes` (..., B)."""
        games: Tensor = self.gather(own).movedim(0, -2).flatten(-2)
        return games[..., :num_games]

    def moments(self, own: Tensor) -> Tensor:
        """Return the mean and variance (2, ...) of all ranks' numbers, of which each has as many.

        ``own`` are those of this rank's. Chan, Golub, LeVeque, "Updating formulae and a pairwise
        algorithm for computing sample variances" (1979).
        """
        means, variances = self.gather(own).unbind(1)
        mean = means.mean(dim=0)
        return torch.stack([mean, (variances + (means - mean).square()).mean(dim=0)])


ALONE = Ranks(0, 1)


@dataclass(frozen=True)
class Shards:
    """Which shards of all games and memories this rank has.

    Where it has one, methods that sort by shards return the tensor that they got: every view would
    cost as much as a small operation.
    """

    total: int  # S
    first: int
    num_own: int

    @classmethod
    def of(cls, total: int, ranks: Ranks) -> "Shards":
        """Share ``total`` shards out; a ValueError if the ranks cannot have as many each."""
        if total % ranks.size:
            raise ValueError(
                f"the number of ranks must divide shards={total}, but is {ranks.size}; "
                "shards is a key of the trainer's configuration"
            )
        num = total // ranks.size
        return cls(total, ranks.rank * num, num)

    @property
    def own(self) -> slice:
        return slice(self.first, self.first + self.num_own)

    def lanes(self, num_games: int, num_groups: int, device: torch.device) -> Tensor:
        """Return which of ``num_games`` games are this rank's, int64 (B,).

        Of each of ``num_groups`` equal groups of games it has a part.
        """
        lanes = torch.arange(num_games, device=device).view(num_groups, self.total, -1)
        return lanes[:, self.own].flatten()

    def split(self, tensor: Tensor, num_groups: int) -> Tensor:
        """Return (P * S, B / S, ...) of own games (P, B, ...), which `lanes` put in order."""
        if self.num_own == 1:
            return tensor
        by_group: Tensor = tensor.unflatten(1, (num_groups, self.num_own, -1))
        return by_group.transpose(1, 2).flatten(2, 3).flatten(0, 1)

    def own_part(self, tensor: Tensor) -> Tensor:
        """Return (P * own S, n / S) of the numbers (P, n) that are drawn for all shards."""
        if self.total == 1:
            return tensor
        by_shard: Tensor = tensor.unflatten(1, (self.total, -1))
        return by_shard[:, self.own].flatten(0, 1)

    def places(self, size: int, device: torch.device) -> Tensor:
        """Return which of the places of all shards, each of ``size``, are this rank's, int64."""
        places = torch.arange(self.total * size, device=device).view(self.total, size)
        return places[self.own].flatten()

    def of_members(self, tensor: Tensor) -> Tensor:
        """Return (P, own S * n, ...), a view of (P * own S, n, ...)."""
        if self.num_own == 1:
            return tensor
        by_shard: Tensor = tensor.unflatten(0, (-1, self.num_own))
        return by_shard.flatten(1, 2)

    def of_shards(self, tensor: Tensor) -> Tensor:
        """Return (P * own S, n, ...) of (P, own S * n, ...)."""
        if self.num_own == 1:
            return tensor
        by_shard: Tensor = tensor.unflatten(1, (self.num_own, -1))
        return by_shard.flatten(0, 1)

    def rows_of(self, member: int) -> slice:
        """Return one member's rows of (P * own S, ...)."""
        return slice(member * self.num_own, (member + 1) * self.num_own)

    def per_shard(self, numbers: Tensor) -> Tensor:
        """Return (P * own S, ...) of one number for each member (P, ...)."""
        return numbers if self.num_own == 1 else numbers.repeat_interleave(self.num_own, dim=0)


WHOLE = Shards(1, 0, 1)
