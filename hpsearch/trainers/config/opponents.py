"""Whom two learning roles meet: each other as they are, or as they were."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from hpsearch.schema import Positive, Range
from hpsearch.trainers.config.numbers import NonNegativeNumber, PositiveNumber


@dataclass(frozen=True)
class UniformChoice:
    """Every snapshot alike."""

    mode: Literal["uniform"]


@dataclass(frozen=True)
class PrioritisedChoice:
    """Snapshots that are hard to beat more often."""

    mode: Literal["prioritised"]
    power: NonNegativeNumber
    """of the result by which a snapshot is weighed; 0 is uniform"""


@dataclass(frozen=True)
class FixedSync:
    """A snapshot at regular steps."""

    mode: Literal["fixed"]
    interval: Positive
    """steps between two snapshots"""


@dataclass(frozen=True)
class DynamicSync:
    """A snapshot whenever the role has become better."""

    mode: Literal["dynamic"]
    interval: Positive
    """steps between two looks at the results"""
    margin: PositiveNumber
    """share by which rho in the training games must have improved since the last snapshot"""


@dataclass(frozen=True)
class OpponentPool:
    """Snapshots of each role that the other one trains against."""

    size: Annotated[int, Range(low=1)]
    """snapshots kept of each role, K"""
    at_once: Positive
    """snapshots met at the same time, each in an equal share of the games, S"""
    choice: UniformChoice | PrioritisedChoice
    """which snapshots are met"""
    sync: FixedSync | DynamicSync
    """when snapshots are taken"""
    max_staleness: Positive
    """steps after which a snapshot is not met any more; at the latest then a new one is taken"""

    def check(self) -> Iterator[str]:
        """Yield what disagrees between the fields."""
        if self.max_staleness < self.sync.interval:
            yield (
                f"max_staleness must be at least sync.interval={self.sync.interval}, "
                f"but is {self.max_staleness}"
            )
