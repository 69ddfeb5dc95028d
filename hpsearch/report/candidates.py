"""The configurations of a search that are worth a second look: its best, each once."""

from dataclasses import dataclass
from typing import Any

from hpsearch.report.best import best_trial
from hpsearch.report.view import StudyView
from hpsearch.study.confirming import key
from hpsearch.study.records import COMPLETE, Trial


@dataclass(frozen=True)
class Candidate:
    """A configuration, and the best trial that had it."""

    trial: Trial
    values: dict[str, Any]
    """of its parameters"""

    @property
    def key(self) -> str:
        """Return what tells it from other configurations."""
        return key(self.values)


def all_candidates(view: StudyView) -> list[Candidate]:
    """Return the configurations of all finished trials, best first by the first objective.

    Raises:
        HpsearchError: if no trial has finished.
    """
    best_trial(view)  # says why where there is none
    found: dict[str, Candidate] = {}
    for trial in view.ranked(view.state.told(COMPLETE)):
        candidate = Candidate(trial, view.study.space.decode(trial.last_params))
        found.setdefault(candidate.key, candidate)
    return list(found.values())


def best_candidates(view: StudyView, count: int) -> list[Candidate]:
    """Return the ``count`` best configurations, or those there are; raises as `all_candidates`."""
    return all_candidates(view)[:count]
