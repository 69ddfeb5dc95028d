"""A driver that dies anywhere: the next one ends the study as if nothing had happened."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from drives import (
    Killed,
    check_books,
    deaths_at,
    deaths_at_all_events,
    deaths_at_suggestions,
    drive,
    moments_passed,
    new_study,
    query,
    schedule,
    stored_events,
)
from fakes import FakeExecutor
from optuna.trial import TrialState

from hpsearch.cluster.study_dir import JobDir
from hpsearch.study.spec import Study

SAMPLERS: dict[str, dict[str, Any]] = {
    "random": {"name": "random"},
    "tpe": {"name": "tpe", "n_startup_trials": 3},
    "qmc": {"name": "qmc"},
    "grid": {"name": "grid"},
    "cmaes": {"name": "cmaes", "popsize": 4},
    "gp": {"name": "gp", "n_startup_trials": 3},
}
PRUNERS: dict[str, dict[str, Any]] = {
    "none": {"name": "none"},
    "median": {"name": "median", "n_startup_trials": 2},
    "successive_halving": {
        "name": "successive_halving",
        "min_resource": 4,
        "reduction_factor": 2,
    },
    "hyperband": {
        "name": "hyperband",
        "min_resource": 4,
        "max_resource": 12,
        "reduction_factor": 2,
    },
}
GRID = {
    "host.optim.args.lr": {"type": "float", "low": 0.001, "high": 0.091, "step": 0.03},
    "host.gamma": {"type": "float", "low": 0.5, "high": 0.9, "step": 0.2},
}
SEED = 2
"""with which every pair prunes some trials and not all"""
PAIRS = list(itertools.product(SAMPLERS, PRUNERS))
FEW = [("tpe", "successive_halving")]
"""pairs that every test run sees: with the next ones, every sampler and every pruner"""
SLOW = [
    ("grid", "none"),
    ("cmaes", "hyperband"),
    ("qmc", "median"),
    ("gp", "none"),
    ("random", "median"),
]
AT_SUGGESTIONS = [("tpe", "none"), ("gp", "hyperband")]
ALONE = [("tpe", "successive_halving")]
"""pairs with deaths that are few enough for each to have its own consequences"""
NUM_GROUPS = 8
"""studies over which these are spread"""


def all_pairs(fast: list[tuple[str, str]], slow: list[tuple[str, str]]) -> list[Any]:
    """Return every pair, each marked by how often it is tried."""

    def marks(pair: tuple[str, str]) -> Any:
        if pair in fast:
            return ()
        return pytest.mark.slow if pair in slow else pytest.mark.exhaustive

    return [pytest.param(*pair, marks=marks(pair), id="-".join(pair)) for pair in PAIRS]


def make(folder: Path, sampler: str, pruner: str) -> Study:
    changes = {"space": GRID} if sampler == "grid" else {}
    return new_study(
        folder,
        {"steps": 12},
        seed=SEED,
        sampler=SAMPLERS[sampler],
        pruner=PRUNERS[pruner],
        budget={"trials": 6},
        **changes,
    )


def undisturbed(folder: Path, sampler: str, pruner: str) -> tuple[list[tuple[Any, ...]], int]:
    """Return the schedule of a study in which nothing dies, and the number of its events."""
    study, executor = make(folder, sampler, pruner), FakeExecutor()
    drive(study, executor)
    check_books(study, executor)
    expected = schedule(study)
    if pruner != "none":
        assert {trial[3] for trial in expected} == {TrialState.COMPLETE, TrialState.PRUNED}
    return expected, len(stored_events(study))


@pytest.mark.parametrize(("sampler", "pruner"), all_pairs(FEW, SLOW))
def test_a_death_at_every_event(tmp_path: Path, sampler: str, pruner: str) -> None:
    expected, num_events = undisturbed(tmp_path / "whole", sampler, pruner)
    study, executor = make(tmp_path / "killed", sampler, pruner), FakeExecutor()
    with deaths_at_all_events() as died:
        drive(study, executor, max_lives=10 * num_events)
    assert schedule(study) == expected
    check_books(study, executor)
    assert set(died) == {event[0] for event in stored_events(study)}
    assert query(study, "SELECT state FROM hpsearch_studies") == [("finished",)]
    # After events that are written together there is one moment, and the jobs all end the same.
    assert len(died) >= 1.3 * num_events


@pytest.mark.parametrize(("sampler", "pruner"), all_pairs([], ALONE))
def test_one_death_at_each_event(tmp_path: Path, sampler: str, pruner: str) -> None:
    """Before and after it: some ten deaths a study, several events apart.

    A moment that does not come after other deaths has a study of its own.
    """
    with moments_passed() as moments:
        expected, num_events = undisturbed(tmp_path / "whole", sampler, pruner)
    assert len(set(moments)) == 2 * num_events
    groups = [moments[first::NUM_GROUPS] for first in range(NUM_GROUPS)]
    for number, group in enumerate(groups):
        study, executor = make(tmp_path / str(number), sampler, pruner), FakeExecutor()
        with deaths_at(group) as to_come:
            drive(study, executor, max_lives=1 + len(group))
        assert schedule(study) == expected, f"deaths at {group}"
        check_books(study, executor)
        assert len(to_come) < len(group)
        groups += [[moment] for moment in sorted(to_come)]


@pytest.mark.parametrize("rounds_per_look", [3, 100])
def test_jobs_that_went_on_without_a_driver(tmp_path: Path, rounds_per_look: int) -> None:
    """The driver that comes late sees many values at once and decides as one that watched."""
    expected, _ = undisturbed(tmp_path / "whole", "tpe", "successive_halving")
    study = make(tmp_path / "late", "tpe", "successive_halving")
    executor = FakeExecutor(rounds_per_look=rounds_per_look)
    drive(study, executor)
    assert schedule(study) == expected
    check_books(study, executor)


class DyingExecutor(FakeExecutor):
    """Kills the driver inside each first submission of a job: before or after it has started."""

    def __init__(self, *, started: bool) -> None:
        super().__init__()
        self._started = started
        self._num_calls = 0

    def submit(self, jobs: Sequence[JobDir]) -> dict[str, str]:
        self._num_calls += 1
        if self._num_calls % 2:
            if self._started:
                super().submit(jobs)
            raise Killed
        return super().submit(jobs)


@pytest.mark.parametrize("started", [False, True])
def test_a_death_inside_the_submission(tmp_path: Path, started: bool) -> None:
    expected, _ = undisturbed(tmp_path / "whole", "tpe", "median")
    study, executor = make(tmp_path / "killed", "tpe", "median"), DyingExecutor(started=started)
    drive(study, executor, max_lives=20)
    assert schedule(study) == expected
    check_books(study, executor)
    # A job that has started is taken over; one that has not is announced again.
    num_announced = len(stored_events(study, "announced"))
    assert (len(executor.submitted), num_announced) == ((2, 2) if started else (2, 4))


@pytest.mark.parametrize(("sampler", "pruner"), all_pairs([], AT_SUGGESTIONS))
def test_a_death_between_two_suggestions(tmp_path: Path, sampler: str, pruner: str) -> None:
    expected, _ = undisturbed(tmp_path / "whole", sampler, pruner)
    study, executor = make(tmp_path / "killed", sampler, pruner), FakeExecutor()
    # A trial has two: after the second it is asked for again, from the first.
    with deaths_at_suggestions(*range(2, 200, 3), *range(4, 200, 7)):
        drive(study, executor, max_lives=200)
    assert schedule(study) == expected
    check_books(study, executor)
