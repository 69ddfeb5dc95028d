"""Where a trial comes from, as its folder says: parents, operator, seed."""

from dataclasses import dataclass
from typing import Literal

from hpsearch.population.operators.options import OperatorOptions
from hpsearch.population.options import Adoption
from hpsearch.schema import NonNegative
from hpsearch.trainers.checkpoint_name import step_of


@dataclass(frozen=True)
class Fresh:
    """No parents: a trial that begins with new networks."""

    name: Literal["fresh"] = "fresh"


@dataclass(frozen=True)
class Parent:
    """Whom a trial inherits from."""

    trial: int | None
    """of the same study, None where it comes from elsewhere"""
    checkpoint: str
    """folder, from the study's or absolute"""

    @property
    def step(self) -> int:
        """Return the step of the checkpoint, which is in its name.

        Raises:
            ValueError: if it is not.
        """
        return step_of(self.checkpoint)


@dataclass(frozen=True)
class Lineage:
    """Where a trial comes from."""

    operator: Fresh | OperatorOptions
    seed: NonNegative
    """of what the operator draws; also the trial's own"""
    parents: tuple[Parent, ...] = ()
    """as many as the operator takes; the first gives all that the operator does not make"""
    generation: NonNegative = 0
    """matches that decided over the trial's ancestors"""
    member: NonNegative = 0
    """place in the population"""
    trying: Adoption | None = None
    """how the child is tried before it is adopted; None adopts it untried"""

    @property
    def first_step(self) -> int:
        """Return the step at which the trial begins: that of its first parent's checkpoint.

        Raises:
            ValueError: if the name of that checkpoint does not tell.
        """
        return self.parents[0].step if self.parents else 0


@dataclass(frozen=True)
class Birth:
    """What became of a child, as its job found."""

    operator: str
    adopted: bool
    """else a copy of the first parent took its place"""
    chance: float | None
    """that the copy is stronger, None where it was not tried"""
