"""Pruners: they stop the bad and keep the good, and are the same after a restart."""

from pathlib import Path

import optuna
import pytest

from hpsearch.study.options import (
    HyperbandOptions,
    MedianOptions,
    NoPruning,
    Pruner,
    SuccessiveHalvingOptions,
)
from hpsearch.study.samplers import build_pruner
from hpsearch.study.storage import MirroredStorage, open_storage

STEPS = 4
GOOD = [number for number in range(12) if number % 3]
BAD = [number for number in range(12) if number % 3 == 0]
PRUNERS: list[Pruner] = [
    NoPruning(),
    MedianOptions("median", n_startup_trials=2),
    SuccessiveHalvingOptions("successive_halving", reduction_factor=2),
    SuccessiveHalvingOptions("successive_halving", min_resource=1, reduction_factor=3),
    HyperbandOptions("hyperband", max_resource=STEPS, reduction_factor=2),
]


def open_study(storage: MirroredStorage, options: Pruner) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(
        storage=storage,
        study_name="study",
        direction="maximize",
        pruner=build_pruner(options),
        load_if_exists=True,
    )


def steps_reached(path: Path, options: Pruner, *, restart: bool) -> list[int]:
    """Return how far each trial got, if trial n reports n, and the bad ones 0."""
    url = f"sqlite:///{path}"
    storage = open_storage(url)
    study = open_study(storage, options)
    reached = []
    for number in range(12):
        trial = study.ask()
        for step in range(1, STEPS + 1):
            if restart and step % 2:
                storage.close()
                storage = open_storage(url)
                study = open_study(storage, options)
                trial = optuna.trial.Trial(study, trial._trial_id)
            trial.report(number if number in GOOD else 0, step)
            if trial.should_prune():
                study.tell(trial.number, state=optuna.trial.TrialState.PRUNED)
                break
        else:
            study.tell(trial.number, number if number in GOOD else 0)
        reached.append(step)
    storage.close()
    return reached


@pytest.mark.parametrize("options", PRUNERS[1:], ids=lambda options: options.name)
def test_bad_trials_are_stopped_and_the_best_so_far_never(tmp_path: Path, options: Pruner) -> None:
    reached = steps_reached(tmp_path / "study.db", options, restart=False)
    assert {reached[number] for number in GOOD} == {STEPS}
    assert min(reached[number] for number in BAD) < STEPS


def test_nothing_is_stopped_without_a_pruner(tmp_path: Path) -> None:
    assert steps_reached(tmp_path / "study.db", NoPruning(), restart=False) == [STEPS] * 12


@pytest.mark.parametrize(
    "options",
    [pytest.param(PRUNERS[2], marks=pytest.mark.slow), PRUNERS[4]],
    ids=lambda options: options.name,
)
def test_restarts_change_nothing(tmp_path: Path, options: Pruner) -> None:
    whole = steps_reached(tmp_path / "whole.db", options, restart=False)
    assert steps_reached(tmp_path / "parts.db", options, restart=True) == whole


@pytest.mark.parametrize("restart", [False, True])
def test_automatic_rungs_are_those_of_the_trial_that_finished_first(
    tmp_path: Path, *, restart: bool
) -> None:
    """Also where later ones are longer, and a driver begins after they have finished."""
    url, halving = f"sqlite:///{tmp_path}/study.db", SuccessiveHalvingOptions("successive_halving")
    storage = open_storage(url)
    study = open_study(storage, halving)
    for last in (200, 1000):
        trial = study.ask()
        trial.report(1.0, last)
        study.tell(trial.number, 1.0)
        if not restart:
            looking = study.ask()
            looking.report(1.0, 1)
            looking.should_prune()
    if restart:
        study = open_study(storage, halving)
    trial = study.ask()
    trial.report(0.5, 2)
    trial.should_prune()
    assert "completed_rung_0" in storage.get_trial(trial._trial_id).system_attrs, "200 / 100"
    storage.close()
