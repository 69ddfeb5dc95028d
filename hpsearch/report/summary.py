"""What a study has come to, as plain data: the keys here are published and stay."""

from typing import Any

from hpsearch.report.view import StudyView
from hpsearch.study.state import Trial


def status_summary(view: StudyView) -> dict[str, Any]:
    """Return study, state, trials by state, budget, best, and failures by kind."""
    best = view.best()
    failures: dict[str, int] = {}
    for trial in view.state.told("failed"):
        kind = trial.failure or "unknown"
        failures[kind] = failures.get(kind, 0) + 1
    return {
        "study": view.study.spec.name,
        "state": view.status,
        "trials": view.state.counts(),
        "budget": view.study.spec.budget.trials,
        "failures": failures,
        "best": None if best is None else trial_summary(view, best),
        "folder": str(view.folder.root),
    }


def trial_summary(view: StudyView, trial: Trial) -> dict[str, Any]:
    """Return trial, state, value, metrics, params, the complete config, and the failure if any."""
    return {
        "trial": trial.number,
        "state": trial_state(trial),
        "value": trial.value,
        "metrics": trial.metrics,
        "params": view.study.space.decode(trial.params),
        "attempts": trial.attempts,
        "failure": trial.failure,
        "message": trial.message,
        "config": view.config(trial),
    }


def trial_state(trial: Trial) -> str:
    """Return finished, running, waiting, pruned or failed."""
    if trial.told is not None:
        return trial.told
    return "waiting" if trial.waits else "running"
