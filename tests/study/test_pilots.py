"""Pilots: jobs that take more trials when they have trained some."""

from pathlib import Path
from typing import Any

import pytest
from drives import (
    SPACE,
    check_books,
    deaths_at_all_events,
    drive,
    new_study,
    opened,
    schedule,
    stored_events,
    tick_until,
)
from fakes import FakeExecutor, Fault

from hpsearch.cluster.study_dir import JobDir
from hpsearch.study.spec import Study


def pilots(**options: Any) -> FakeExecutor:
    return FakeExecutor(pilot_seconds=1.0, **options)


def study_of(folder: Path, jobs: int = 1, members: int = 2, **changes: Any) -> Study:
    executor = {"name": "local", "jobs": jobs, "members_per_job": members}
    given = {"executor": executor, "budget": {"trials": 8}, "sampler": {"name": "tpe"}}
    return new_study(folder, **(given | changes))


def groups_of(study: Study) -> list[tuple[str, tuple[int, ...]]]:
    """Return the job and the trials of each announcement."""
    return [
        (job, tuple(one["trial"] for one in data["trials"]))
        for _, _, job, data in stored_events(study, "announced")
    ]


def test_one_job_trains_all_of_a_study(tmp_path: Path) -> None:
    study, executor = study_of(tmp_path), pilots()
    assert drive(study, executor).status == "finished"
    assert groups_of(study) == [("00001", pair) for pair in ((0, 1), (2, 3), (4, 5), (6, 7))]
    assert executor.submitted == ["00001"]
    assert len(stored_events(study, "job_closed")) == 1
    check_books(study, executor)


def test_pilots_change_no_suggestion(tmp_path: Path) -> None:
    plain, study = study_of(tmp_path / "plain"), study_of(tmp_path / "pilots")
    drive(plain, FakeExecutor())
    drive(study, pilots())
    assert schedule(study) == schedule(plain)


def test_several_pilots_share_the_trials(tmp_path: Path) -> None:
    study, executor = study_of(tmp_path, jobs=3, members=1, budget={"trials": 10}), pilots()
    drive(study, executor)
    assert len(executor.submitted) == 3
    check_books(study, executor)


def test_other_shapes_get_jobs_of_their_own(tmp_path: Path) -> None:
    nets = {"type": "categorical", "choices": [[8], [16]]}
    study = study_of(
        tmp_path, jobs=2, space=SPACE | {"host.net_arch": nets}, sampler={"name": "random"}
    )
    executor = pilots()
    assert drive(study, executor).counts()["finished"] == 8
    check_books(study, executor)
    net_of = {row[1]: row[3]["params"]["host.net_arch"] for row in stored_events(study, "asked")}
    for name in executor.submitted:
        trained = [n for job, numbers in groups_of(study) if job == name for n in numbers]
        assert len({net_of[number] for number in trained}) == 1


@pytest.mark.parametrize("pruner", ["none", "median"])
def test_a_death_at_every_event(tmp_path: Path, pruner: str) -> None:
    options = {"pruner": {"name": pruner}}
    plain, study = study_of(tmp_path / "plain", **options), study_of(tmp_path / "killed", **options)
    drive(plain, pilots())
    executor = pilots()
    with deaths_at_all_events() as died:
        drive(study, executor, max_lives=200)
    assert {"announced", "job_closed", "job_ended"} <= set(died)
    assert schedule(study) == schedule(plain)
    check_books(study, executor)


@pytest.mark.parametrize("kind", ["vanish", "zombie", "half"])
def test_a_pilot_that_is_lost_with_its_second_trials(tmp_path: Path, kind: str) -> None:
    study, executor = study_of(tmp_path), pilots(faults={(2, 1): Fault(kind, 8)})
    state = drive(study, executor)
    assert state.counts()["finished"] == 8
    assert [state.trials[number].attempts for number in range(4)] == [1, 1, 2, 2]
    check_books(study, executor)


def test_trials_that_a_pilot_never_took_up_are_not_lost(tmp_path: Path) -> None:
    """It left, tired of waiting, just when it was given more."""

    class Tired(FakeExecutor):
        def _waits(self, known: Any) -> bool:
            return False

    study, executor = study_of(tmp_path, budget={"trials": 4}), Tired(pilot_seconds=1.0)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: not driver.is_busy)
        trials = driver.state.trials.values()
    assert [trial.told for trial in trials] == ["finished"] * 4
    assert all(trial.lost == 0 for trial in trials)
    assert all(loss.kind == "interrupted" for trial in trials for loss in trial.losses)


def test_paused_and_stopped_studies_let_idle_pilots_go(tmp_path: Path) -> None:
    from hpsearch.cluster.study_dir import StudyDir
    from hpsearch.study import requests
    from hpsearch.study.requests import Request

    study, executor = study_of(tmp_path), pilots()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(executor.live()))
        requests.leave(StudyDir(tmp_path / "runs" / study.spec.name), Request("pause"))
        tick_until(driver, lambda: not driver.is_busy)
    assert executor.live() == []
    assert driver.state.counts()["finished"] == 2


def test_a_study_that_looks_ahead_gives_before_the_end(tmp_path: Path) -> None:
    """At the last rung but the end, so that nobody waits for a driver that comes now and then."""
    study, executor = study_of(tmp_path, budget={"trials": 4}), pilots()
    with opened(study, executor) as driver:
        driver._pilots._looks_ahead = driver._pilots._refills = True
        tick_until(driver, lambda: len(groups_of(study)) == 2)
        assert driver.state.counts()["finished"] == 0
        reached = {max(driver.state.trials[number].reported) for number in (0, 1)}
        assert reached == {12}  # of 16 steps, a rung every four
        tick_until(driver, lambda: not driver.is_busy)
    assert driver.state.counts()["finished"] == 4
    check_books(study, executor)
    given = JobDir(tmp_path / "runs" / study.spec.name / "jobs" / "00001").read_next(1)
    assert given is not None
    assert [one.trial for one in given] == [2, 3]
