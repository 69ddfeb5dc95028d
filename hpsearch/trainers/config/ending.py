"""What ends training before its steps are made."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal

from hpsearch.errors import unknown_fault
from hpsearch.schema import Positive, Range

Ending = Literal["games", "seconds", "target", "plateau"]
"""a key of `EndConfig`"""


@dataclass(frozen=True)
class Target:
    metric: str
    """that evaluations measure"""
    value: float
    """that is enough: of a host's metric so much or more, of an agent's so much or less"""


@dataclass(frozen=True)
class Plateau:
    metric: str
    """that evaluations measure"""
    evaluations: Positive
    """in a row that are no better than the best before them"""
    min_delta: Annotated[float, Range(low=0.0)]
    """what is better by less than this does not count as better"""


@dataclass(frozen=True)
class EndConfig:
    """What ends training before `steps` are made, the first of these; null: it does not."""

    games: Positive | None
    """games that have ended, over or truncated, of all in which roles learn; training ends with
    the step by which it is so many"""
    seconds: Annotated[float | None, Range(low=0.0, open_low=True)]
    """of making steps, in all attempts; measuring and saving do not count"""
    target: Target | None
    """a value that an evaluation reaches"""
    plateau: Plateau | None
    """evaluations without anything better"""

    def faults(self, metrics: Sequence[str]) -> Iterator[str]:
        """Yield what is wrong where evaluations measure these metrics, after ``end.``."""
        for key, rule in (("target", self.target), ("plateau", self.plateau)):
            if rule is not None and rule.metric not in metrics:
                yield f"{key}.metric {unknown_fault('metric', rule.metric, metrics)}"


NEVER: Final[dict[str, Any]] = {"games": None, "seconds": None, "target": None, "plateau": None}
"""the block, as plain data, of a training that ends with its steps"""
