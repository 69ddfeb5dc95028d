"""Opponents of a learning role: the other role as it is or as it was, or several players."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Final, Literal

from hpsearch.schema import Positive, Range
from hpsearch.trainers.config.numbers import NonNegativeNumber, PositiveNumber
from hpsearch.trainers.config.players import OpponentName

LEARNER: Final = "learner"
"""the other learning role, in a list of opponents"""
Weight = Annotated[float, Range(low=0.0, open_low=True)]
"""how often a player is drawn, beside the weights of the others"""


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


@dataclass(frozen=True)
class ListedPlayer:
    """A player that follows a rule, or the other learning role as it is."""

    player: Literal[OpponentName, "learner"]
    """the rule; or learner: the other role, which learns too"""
    weight: Weight
    """how often a game is played against it, beside the weights of the others"""


@dataclass(frozen=True)
class ListedCheckpoint:
    """A player that learned before, unchanging; both of a pair where both roles learn."""

    checkpoint: str
    """path of a checkpoint's folder, from the folder that the command is given in"""
    weight: Weight
    """how often a game is played against it, beside the weights of the others"""


@dataclass(frozen=True)
class ListedSnapshots:
    """The other learning role as it was."""

    snapshots: OpponentPool
    """which of its snapshots are kept and met"""
    weight: Weight
    """how often a game is played against one of them, beside the weights of the others"""


ListedOpponent = ListedPlayer | ListedCheckpoint | ListedSnapshots
