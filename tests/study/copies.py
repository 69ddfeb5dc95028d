"""Copies of studies in Optuna's memory, and what plain Optuna and plain SQL read from them."""

import copy
import sqlite3
from contextlib import closing
from pathlib import Path

import optuna
from optuna.distributions import FloatDistribution
from optuna.storages import RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpsearch.study.copy.file import Head

HEAD = Head(7, "large", (StudyDirection.MAXIMIZE,), ("rho/host/choose_first",))
LR = {"lr": FloatDistribution(0.0, 1.0)}


def trial_of(number: int, **changes) -> FrozenTrial:
    """Return a finished trial whose id is no consequence of its number."""
    given = {"params": {"lr": number / 10_000}, "distributions": LR, "value": number / 10}
    trial = create_trial(**(given | changes))
    trial.number, trial._trial_id = number, 1_000 + 2 * number
    return trial


def running(number: int) -> FrozenTrial:
    return trial_of(number, state=TrialState.RUNNING, value=None)


def changed(trials: list[FrozenTrial], number: int, **attributes) -> list[FrozenTrial]:
    """Return the trials, one of which is another object, as the mirror replaces it."""
    other = list(trials)
    other[number] = copy.copy(trials[number])
    for name, value in attributes.items():
        setattr(other[number], name, value)
    return other


def optuna_reads(path: Path) -> list[FrozenTrial]:
    """Return the trials as plain Optuna reads them from a copy."""
    storage = RDBStorage(f"sqlite:///{path}")
    try:
        return optuna.load_study(study_name=HEAD.name, storage=storage).trials
    finally:
        storage.remove_session()
        storage.engine.dispose()


def query(path: Path, question: str) -> list[tuple]:
    with closing(sqlite3.connect(path)) as file:
        return file.execute(question).fetchall()
