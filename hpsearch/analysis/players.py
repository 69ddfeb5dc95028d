"""The strongest checkpoints of studies, each role for itself, and founders made of them.

The founders of a population: the best checkpoints of several studies, evenly of each.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, islice, zip_longest
from pathlib import Path
from typing import TypeVar

from hpsearch.errors import ConflictError, UsageError
from hpsearch.study.bred import BredFounder
from hpsearch.study.records import COMPLETE, Trial
from hpsearch.study.state import FINISHED, STOPPED
from hpsearch.study.view import StudyView, best_trial
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import is_maximized, saved_config
from hpsearch.trainers.metrics import MODES, panel_name


@dataclass(frozen=True)
class StrongCheckpoint:
    """A trial's newest whole checkpoint."""

    trial: int
    checkpoint: Path
    roles: tuple[str, ...]
    """in which the trial is one of the best"""


def strongest_checkpoints(view: StudyView, count: int) -> list[StrongCheckpoint]:
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
    return [StrongCheckpoint(trial, paths[trial], roles) for trial, roles in chosen.items()]


def _metrics(view: StudyView) -> dict[str, str]:
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
    best: dict[int, tuple[int, float]] = {}
    for number, match in sorted(view.state.population.matches.items()):
        best |= {trial: (number, strength) for trial, strength in match.strengths.items()}
    return best


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


T = TypeVar("T")


def choose_founders(views: Sequence[StudyView], members: int) -> list[BredFounder]:
    """Return at most as many founders as there will be members, the best of each study first.

    Args:
        views: finished studies.
        members: at least as many as studies; each study has an even share of them.

    Raises:
        ConflictError: if a study has not finished.
        HpsearchError: if one of them has no checkpoint of a trial that finished.
    """
    for view in views:
        _check_finished(view)
    share, more = divmod(members, len(views))
    return _in_turn([_best(view, share + (index < more)) for index, view in enumerate(views)])


def _check_finished(view: StudyView) -> None:
    if view.state.status not in (FINISHED, STOPPED) or view.state.unfinished():
        name = view.study.spec.name
        raise ConflictError(
            f"{name} is {view.status}, so its best may be others yet; look at it with: "
            f"hpsearch status {name}, and breed when it has finished"
        )


def _best(view: StudyView, count: int) -> list[BredFounder]:
    strongest = strongest_checkpoints(view, count)
    roles = dict.fromkeys(chain.from_iterable(strong.roles for strong in strongest))
    by_role = [[strong for strong in strongest if role in strong.roles] for role in roles]
    return [_founder(view, strong) for strong in islice(dict.fromkeys(_in_turn(by_role)), count)]


def _founder(view: StudyView, strongest: StrongCheckpoint) -> BredFounder:
    config = saved_config(strongest.checkpoint)
    return BredFounder(
        view.study.spec.name, strongest.trial, strongest.checkpoint.absolute(), config
    )


def _in_turn(lists: Sequence[Sequence[T]]) -> list[T]:
    return [rank for ranks in zip_longest(*lists) for rank in ranks if rank is not None]
