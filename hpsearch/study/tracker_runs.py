"""What a tracker is: a place where every trial of a study is also a run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol


class SentPoint(NamedTuple):
    """What was measured at a step."""

    step: int
    at: float  # seconds since the epoch
    values: Mapping[str, float]


@dataclass(frozen=True)
class RunStart:
    """What a run is created with."""

    study: str
    trial: int
    key: str  # which no other trial has, of any study
    params: Mapping[str, Any]  # by dotted path
    began_at: float  # seconds since the epoch

    @property
    def name(self) -> str:
        return f"{self.study} {self.trial}"


class TrackerRuns(Protocol):
    """Where runs go; may raise whatever a library or a network raises."""

    def begin(self, start: RunStart, run: str | None) -> str:
        """Begin a run, or go on with the one that was called ``run``; return what it is called.

        A process that was killed may have begun the run of ``start.key`` already.
        """
        ...

    def log(self, run: str, points: Sequence[SentPoint]) -> None:
        """Add points to a run that has begun, by steps; some may have been added before."""
        ...

    def end(self, run: str, state: str, values: Mapping[str, float]) -> None:
        """End a run as finished, pruned or failed, with its last values."""
        ...

    def close(self) -> None:
        """Leave the runs that have not ended."""
