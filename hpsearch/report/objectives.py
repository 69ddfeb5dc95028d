"""Finished trials by all objectives of their study, and those that no other one beats."""

import numpy as np

from hpsearch.population.selection.pareto import front_of_each
from hpsearch.report.view import StudyView
from hpsearch.study.records import COMPLETE, Trial


def finished(view: StudyView) -> list[Trial]:
    """Return the finished trials that have a value of every objective."""
    names = [one.metric for one in view.study.spec.objectives]
    return [
        trial for trial in view.state.told(COMPLETE) if all(name in trial.metrics for name in names)
    ]


def front(view: StudyView) -> list[Trial]:
    """Return those that no other one beats in every objective, the best by the first one first.

    Of trials that are equal in all objectives, each is returned.
    """
    trials, objectives = finished(view), view.study.spec.objectives
    if not trials:
        return []
    signs = np.array([1.0 if one.goal == "maximize" else -1.0 for one in objectives])
    measured = [[trial.metrics[one.metric]["value"] for one in objectives] for trial in trials]
    values = signs * measured  # (trials, objectives)
    in_front = np.flatnonzero(front_of_each(values) == 0)
    return [trials[place] for place in sorted(in_front, key=lambda place: -values[place, 0])]
