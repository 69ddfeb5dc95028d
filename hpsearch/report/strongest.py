"""The checkpoints of a study's best trials, each role for itself."""

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from hpsearch.errors import UsageError
from hpsearch.report.best import best_trial
from hpsearch.report.view import StudyView
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.trainers import checkpoint
from hpsearch.trainers.best_checkpoint import is_maximized
from hpsearch.trainers.metrics import MODES, panel_name


@dataclass(frozen=True)
class Found:
    """A trial's newest whole checkpoint."""

    trial: int
    checkpoint: Path
    roles: tuple[str, ...]
    """in which the trial is one of the best"""


def strongest_checkpoints(view: StudyView, count: int) -> list[Found]:
    """Return the newest checkpoints of the ``count`` best finished trials of each role.

    The role of the first objective is ranked by it, the other by its panel, or by what else was
    measured of it. Those of a population that were judged go before, by their strength in the
    newest match that they played; a later match before an earlier one, whose opponents were others.
    A trial whose checkpoints are gone makes room for the next one.

    Raises:
        HpsearchError: if no trial has finished.
        UsageError: if none that has finished has a checkpoint.
    """
    best_trial(view)  # says why where there is none
    chosen: dict[int, tuple[str, ...]] = {}
    paths: dict[int, Path] = {}
    for role, metric in _metrics(view).items():
        ranked = _with_checkpoint(view, _ranked(view, metric))
        for trial, path in islice(ranked, count):
            chosen[trial] = (*chosen.get(trial, ()), role)
            paths[trial] = path
    if not chosen:
        raise UsageError(
            f"the study {view.study.spec.name} has no whole checkpoint of a trial that finished; "
            "run one of them again with: hpsearch train CONFIG, which is config.yaml in its folder "
            f"below {view.folder.trials}"
        )
    return [Found(trial, paths[trial], roles) for trial, roles in chosen.items()]


def _metrics(view: StudyView) -> dict[str, str]:
    """Return what each role that was measured is ranked by."""
    measured = {name for trial in _finished(view) for name in trial.metrics}
    objective = view.study.spec.objectives[0].metric
    roles = sorted({_role(name) for name in measured}, reverse=True)  # hosts first
    return {role: _metric(role, measured, objective) for role in roles}


def _metric(role: str, measured: set[str], objective: str) -> str:
    if objective in measured and _role(objective) == role:
        return objective
    panel = panel_name(MODES[0], role)
    return panel if panel in measured else min(n for n in measured if _role(n) == role)


def _role(metric: str) -> str:
    return metric.split("/")[1]


def _finished(view: StudyView) -> list[Trial]:
    return [trial for trial in view.state.told(COMPLETE) if trial.value is not None]


def _ranked(view: StudyView, metric: str) -> list[Trial]:
    """Return the finished trials that the metric was measured of, the strongest first."""
    trials = [trial for trial in _finished(view) if metric in trial.metrics]
    sign, judged = -1.0 if is_maximized(metric) else 1.0, _judged(view)

    def place(trial: Trial) -> tuple[int, float]:
        if trial.number in judged:
            match, strength = judged[trial.number]
            return -match, -strength
        return 0, sign * _value(trial.metrics[metric])  # matches are numbered from 1

    return sorted(trials, key=place)


def _judged(view: StudyView) -> dict[int, tuple[int, float]]:
    """Return the newest match that each trial of a population played, and its strength there."""
    found: dict[int, tuple[int, float]] = {}
    for number, match in sorted(view.state.population.matches.items()):
        found |= {trial: (number, strength) for trial, strength in match.strengths.items()}
    return found


def _value(rho: Mapping[str, float]) -> float:
    return rho["value"]


def _with_checkpoint(view: StudyView, trials: list[Trial]) -> Iterator[tuple[int, Path]]:
    """Yield the trials that have a whole checkpoint, with it; name the others on stderr."""
    for trial in trials:
        folder = view.folder.trial(trial.number).checkpoints
        path = checkpoint.newest(folder)
        if path is None:
            name = view.study.spec.name
            print(f"hpsearch: {name}/{trial.number} has no whole checkpoint", file=sys.stderr)
            continue
        yield trial.number, path
