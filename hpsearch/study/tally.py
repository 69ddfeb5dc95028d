"""What the trials of a study add up to, so that a summary need not look at each of them."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final

from hpsearch.study.records import COMPLETE, FAIL, Loss, Trial
from hpsearch.study.space_checks import ALGORITHM

NUM_NEWEST: Final = 10
"""failed trials that are remembered one by one"""

Length = int | tuple[Any, Any]
"""the steps of a trial of a population; of others what they depend on, as Optuna stores it: steps
and algorithm, None where they are not searched"""


@dataclass(frozen=True)
class Lost:
    """Training of attempts that ended in one way, and that is of no use."""

    attempts: int
    seconds: float
    """of training, of all trials together"""
    gpu_seconds: float


@dataclass
class Tally:
    """Sums over trials, kept up by the fold over the events."""

    lengths: Counter[Length] = field(default_factory=Counter)
    """of the trials that have been told"""
    failed: Counter[str] = field(default_factory=Counter)
    """trials by the kind of their failure"""
    newest_failed: list[int] = field(default_factory=list)
    """the last that failed, at most NUM_NEWEST of them, in that order"""
    lost: dict[str, Lost] = field(default_factory=dict)
    """by kind of failure"""
    least: tuple[float, int] | None = None
    """value and number of the finished trial with the lowest value, the first of several"""
    greatest: tuple[float, int] | None = None
    """the same with the highest value"""
    children: Counter[str] = field(default_factory=Counter)
    """children by operator, without those that failed before they were adopted"""

    def ask(self, trial: Trial) -> None:
        """Count a trial that has been asked for."""
        if is_made(trial):
            self.children[_operator(trial)] += 1

    def lose(self, loss: Loss) -> None:
        """Count an attempt that did not finish its trial."""
        self._lose(loss, loss.seconds, num_attempts=1)

    def lose_more(self, loss: Loss, seconds: float) -> None:
        """Count more seconds as lost with an attempt that has been counted."""
        self._lose(loss, seconds, num_attempts=0)

    def _lose(self, loss: Loss, seconds: float, *, num_attempts: int) -> None:
        before = self.lost.get(loss.kind, Lost(0, 0.0, 0.0))
        self.lost[loss.kind] = Lost(
            before.attempts + num_attempts,
            before.seconds + seconds,
            before.gpu_seconds + seconds * loss.gpus,
        )

    def tell(self, trial: Trial) -> None:
        """Count a trial that has ended, when all that was told of it is known."""
        self.lengths[length(trial)] += 1
        if trial.told == FAIL:
            self.failed[trial.failure or "unknown"] += 1
            self.newest_failed = [*self.newest_failed, trial.number][-NUM_NEWEST:]
            if is_made(trial) and not trial.is_adopted:
                self.children -= Counter([_operator(trial)])
        if trial.told == COMPLETE and trial.value is not None:
            ours = (trial.value, trial.number)
            self.least = min(self.least or ours, ours)
            self.greatest = max(self.greatest or ours, ours, key=lambda it: (it[0], -it[1]))


def length(trial: Trial) -> Length:
    """Return the steps of a trial, or what they depend on."""
    if trial.origin is not None:
        return trial.origin.steps - trial.first_step
    return trial.params.get("steps"), trial.params.get(ALGORITHM)


def is_made(trial: Trial) -> bool:
    """Return whether an operator made the trial's networks of its parents'."""
    return trial.origin is not None and trial.origin.is_child and bool(trial.origin.parents)


def _operator(trial: Trial) -> str:
    assert trial.origin is not None
    return str(trial.origin.operator["name"])
