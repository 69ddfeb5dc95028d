"""Pilots: jobs that take more trials than their first ones."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from drives import (
    SPACE,
    Killed,
    check_books,
    deaths_at_all_events,
    drive,
    new_study,
    opened,
    refills,
    schedule,
    stored_events,
    tick_until,
)
from fakes import FakeExecutor, Fault
from test_population_study import population_study, teaching
from tried import tried

from hpsearch.cluster.executor import JobStatus
from hpsearch.cluster.records import Assignment
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.study import driver as driver_module
from hpsearch.study import jobs as jobs_module
from hpsearch.study.jobs import Pilots
from hpsearch.study.observe import Observation
from hpsearch.study.records import Job
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
        (job, tuple(trial["trial"] for trial in data["trials"]))
        for _, _, job, data in stored_events(study, "announced")
    ]


def test_one_job_trains_all_of_a_study(tmp_path: Path) -> None:
    study, executor = study_of(tmp_path), pilots()
    assert drive(study, executor).status == "finished"
    assert groups_of(study) == [("00001", pair) for pair in ((0, 1), (2, 3), (4, 5), (6, 7))]
    assert executor.submitted == ["00001"]
    assert len(stored_events(study, "job_closed")) == 1
    check_books(study, executor)


def test_a_new_job_needs_no_lineage_of_new_networks(tmp_path: Path) -> None:
    """But a pilot of an older version that is given more trials does."""
    study = study_of(tmp_path)
    drive(study, pilots())
    folder = StudyDir(tmp_path / "runs" / study.spec.name)
    written = [number for number in range(8) if folder.trial(number).lineage.path.exists()]
    assert written == [*range(2, 8)]
    assert folder.job("00001").plan.required().descend is False


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


@pytest.mark.parametrize("pruner", tried(["none", "median"], slow=["median"]))
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


class Tired(FakeExecutor):
    """An executor whose pilots wait for no more trials."""

    def _waits(self, known: Any) -> bool:
        return False


def test_trials_that_a_pilot_never_took_up_are_not_lost(tmp_path: Path) -> None:
    """It left, tired of waiting, just when it was given more."""
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


def test_idle_pilots_are_kept_for_trials_that_the_round_will_ask_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, a round too short for all trials let those pilots go for which it had none yet."""
    monkeypatch.setattr(driver_module, "ASKED_AT_ONCE", 2)
    monkeypatch.setattr(driver_module, "SUBMITTING_SECONDS", 0.0)
    study, executor = study_of(tmp_path, jobs=3, budget={"trials": 12}), pilots()
    drive(study, executor)
    assert executor.submitted == ["00001", "00002", "00003"]
    check_books(study, executor)


def test_no_trial_is_lost_to_a_pilot_that_the_same_look_found_gone(tmp_path: Path) -> None:
    """It was given one after the first part of the look, and its end was recorded with another."""
    study, executor = study_of(tmp_path, budget={"trials": 4}), pilots()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: any(job.began_at for job in driver.state.live_jobs()))
        (job,) = driver.state.live_jobs()
        seen = Observation({job.name: JobStatus("17", "ended")}, frozenset({job.name}))
        driver._jobs.end(seen)
        assert driver.state.live_jobs() == driver._pilots._open() == [job]
        driver._pilots.ended = seen.ended
        assert driver._pilots._open() == []
        tick_until(driver, lambda: not driver.is_busy)
    check_books(study, executor)


def test_a_study_that_looks_ahead_gives_before_the_end(tmp_path: Path) -> None:
    """At the last rung but the end, so that no trial waits for a driver that comes now and then."""
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
    assert [assignment.trial for assignment in given.assignments] == [2, 3]


# Places that are filled while others train.

UNEVEN = SPACE | {"steps": {"type": "int", "low": 4, "high": 16, "step": 4}}


def several(folder: Path, **changes: Any) -> Study:
    """Return a study of two jobs, whose trials take different times."""
    given = {"space": UNEVEN, "sampler": {"name": "random"}, "budget": {"trials": 12}}
    return study_of(folder, jobs=2, **(given | changes))


def test_a_place_is_filled_while_others_train(tmp_path: Path) -> None:
    study, executor = several(tmp_path), pilots()
    assert drive(study, executor).counts()["finished"] == 12
    assert len(refills(study)) >= 3
    assert executor.submitted == ["00001", "00002"]
    check_books(study, executor)


@pytest.mark.parametrize(("jobs", "seconds"), [(2, 1.0), (2, 0.0), (1, 1.0)])
def test_a_job_is_told_whether_others_may_join(tmp_path: Path, jobs: int, seconds: float) -> None:
    """Where none do, trials train in step and go on together after a kill."""
    study, executor = study_of(tmp_path, jobs), FakeExecutor(pilot_seconds=seconds)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(executor.submitted))
    plan = JobDir(tmp_path / "runs" / study.spec.name / "jobs" / "00001").plan.required()
    assert plan.refills == (jobs == 2 and seconds > 0)


def test_the_only_job_of_a_machine_is_given_more_when_all_have_ended(tmp_path: Path) -> None:
    """So the same seed gives the same trials, killed or not."""
    study, executor = study_of(tmp_path, space=UNEVEN), pilots()
    drive(study, executor)
    assert refills(study) == []
    assert [len(numbers) for _, numbers in groups_of(study)] == [2] * 4


def test_places_change_no_suggestion(tmp_path: Path) -> None:
    plain, study = several(tmp_path / "plain"), several(tmp_path / "pilots")
    drive(plain, FakeExecutor())
    drive(study, pilots())
    assert schedule(study) == schedule(plain)


class Slow(FakeExecutor):
    """Its jobs still train when the drivers that die over one trial's end have come and gone."""

    def advance(self) -> None:
        if len(self.looks) % 40 == 0:
            super().advance()


@pytest.mark.parametrize("pruner", tried(["none", "median"], slow=["median"]))
def test_a_death_at_every_event_among_places(tmp_path: Path, pruner: str) -> None:
    study = several(tmp_path, pruner={"name": pruner}, budget={"trials": 6})
    executor = Slow(pilot_seconds=1.0)
    with deaths_at_all_events() as died:
        state = drive(study, executor, max_lives=300)
    assert {"announced", "job_closed", "job_ended"} <= set(died)
    assert state.counts()["finished"] + state.counts()["pruned"] == 6
    assert refills(study)
    check_books(study, executor)


@pytest.mark.parametrize("kind", ["vanish", "zombie", "half"])
def test_a_pilot_that_is_lost_with_trials_of_several_groups(tmp_path: Path, kind: str) -> None:
    study = several(tmp_path)
    drive(several(tmp_path / "whole"), pilots())
    (_, (refilling, *_)), *_ = refills(several(tmp_path / "whole"))
    executor = pilots(faults={(refilling, 1): Fault(kind, 4)})
    state = drive(study, executor)
    assert state.counts()["finished"] == 12
    again = [trial for trial in state.trials.values() if trial.attempts > 1]
    assert refilling in {trial.number for trial in again}
    assert all(trial.attempts <= 2 for trial in again)
    assert schedule(study) == schedule(several(tmp_path / "whole"))
    check_books(study, executor)


class Deaf(FakeExecutor):
    """Its jobs never look whether they were given more while they train."""

    def _refill(self, known: Any) -> None:
        pass


def test_what_waits_in_a_job_that_dies_waits_again(tmp_path: Path) -> None:
    """It was given and never begun, which is no loss, whatever the job died of."""
    study, executor = several(tmp_path, budget={"trials": 6}), Deaf(pilot_seconds=1.0)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(refills(study)))
        job, given = refills(study)[0]
        executor.cancel([(JobDir(tmp_path / "none"), f"fake-{job}")])
        driver.tick()
        waiting = [driver.state.trials[number] for number in given]
        assert all(trial.waits or trial.attempts == 2 for trial in waiting)
        assert all([loss.kind for loss in t.losses] == ["interrupted"] for t in waiting)
        assert all(trial.lost == 0 for trial in waiting)
        tick_until(driver, lambda: not driver.is_busy)
    assert driver.state.counts()["finished"] == 6


def test_a_driver_that_dies_between_the_event_and_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, executor = several(tmp_path), pilots()
    with opened(study, executor) as driver, monkeypatch.context() as patch:
        patch.setattr(Pilots, "_write", die)
        with pytest.raises(Killed):
            tick_until(driver, lambda: not driver.is_busy)
    (job, given), *_ = refills(study)
    number = sum(name == job for name, _ in groups_of(study)) - 1
    files = JobDir(tmp_path / "runs" / study.spec.name / "jobs" / job)
    assert files.read_next(number) is None
    with opened(study, executor) as driver:
        driver.tick()
        written = files.read_next(number)
        assert written is not None
        assert tuple(assignment.trial for assignment in written.assignments) == given
        tick_until(driver, lambda: not driver.is_busy)
    assert driver.state.counts()["finished"] == 12
    check_books(study, executor)


def test_a_driver_that_dies_among_the_files_of_several_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One transaction announces trials for all of them; the next driver writes what is missing."""
    study, executor = study_of(tmp_path, jobs=2), pilots()
    write, written = Pilots._write, []

    def die_at_the_second(self: Pilots, job: Job, attempts: Sequence[Assignment]) -> None:
        if written:
            die()
        written.append(job.name)
        write(self, job, attempts)

    with opened(study, executor) as driver, monkeypatch.context() as patch:
        patch.setattr(Pilots, "_write", die_at_the_second)
        with pytest.raises(Killed):
            tick_until(driver, lambda: not driver.is_busy)
    (first, _), (second, given) = groups_of(study)[-2:]
    jobs = tmp_path / "runs" / study.spec.name / "jobs"
    assert written == [first]
    assert JobDir(jobs / second).read_next(1) is None
    with opened(study, executor) as driver:
        driver._pilots.repair()
        repaired = JobDir(jobs / second).read_next(1)
        assert repaired is not None
        assert tuple(assignment.trial for assignment in repaired.assignments) == given
        tick_until(driver, lambda: not driver.is_busy)
    assert driver.state.counts()["finished"] == 8
    check_books(study, executor)


@pytest.mark.parametrize("at_once", [1, 2])
def test_however_many_are_written_at_once_each_job_is_given_and_closed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
) -> None:
    study, executor = study_of(tmp_path, jobs=3, budget={"trials": 18}), pilots()
    monkeypatch.setattr(jobs_module, "WRITTEN_AT_ONCE", at_once)
    assert drive(study, executor).counts()["finished"] == 18
    given = [trial for _, trials in groups_of(study) for trial in trials]
    assert sorted(given) == list(range(18))
    closed = [job for _, _, job, _ in stored_events(study, "job_closed")]
    assert sorted(closed) == ["00001", "00002", "00003"]
    check_books(study, executor)


def test_a_driver_that_dies_between_the_closing_of_a_job_and_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, executor = study_of(tmp_path, budget={"trials": 4}), pilots()
    with opened(study, executor) as driver, monkeypatch.context() as patch:
        tick_until(driver, lambda: len(groups_of(study)) == 2)
        patch.setattr(JobDir, "write_next", die)
        with pytest.raises(Killed):
            tick_until(driver, lambda: not driver.is_busy)
    files = JobDir(tmp_path / "runs" / study.spec.name / "jobs" / "00001")
    given = files.read_next(1)
    assert given is not None
    assert files.read_next(2) is None
    with opened(study, executor) as driver:
        driver._pilots.repair()
        last = files.read_next(2)
        assert last is not None
        assert (last.assignments, last.match) == ((), None)
        assert files.read_next(1) == given
        tick_until(driver, lambda: not driver.is_busy)
    assert executor.live() == []


def test_a_driver_that_dies_between_a_match_and_its_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, executor = population_study(tmp_path, trials=8), pilots(teaching=teaching)
    with opened(study, executor) as driver, monkeypatch.context() as patch:
        patch.setattr(JobDir, "write_next", die)
        with pytest.raises(Killed):
            tick_until(driver, lambda: not driver.is_busy)
    (*_, (_, _, job, data)) = stored_events(study, "announced")
    assert data["match"] == 1
    files = JobDir(tmp_path / "runs" / study.spec.name / "jobs" / job)
    assert files.read_next(1) is None
    with opened(study, executor) as driver:
        driver._pilots.repair()
        written = files.read_next(1)
        assert written is not None
        assert (written.assignments, written.match) == ((), 1)
        assert files.read_next(2) is None


def die(*arguments: Any, **named: Any) -> None:
    raise Killed


def test_jobs_are_closed_when_there_will_be_no_more(tmp_path: Path) -> None:
    """While they train: they shrink, and leave as soon as they have ended."""
    study, executor = several(tmp_path), pilots()
    drive(study, executor)
    kinds = [event[0] for event in stored_events(study, "job_closed", "attempt_ended")]
    assert kinds.count("job_closed") == 2
    assert "attempt_ended" in kinds[kinds.index("job_closed") :]


def test_a_study_that_looks_ahead_hoards_no_trials(tmp_path: Path) -> None:
    """Before, a trial with no rung but its end counted as ended from its beginning."""
    options = {"name": "local", "jobs": 2, "members_per_job": 2}
    few = {"evaluation.interval": 16}
    study = new_study(tmp_path, few, executor=options, budget={"trials": 24})
    executor = pilots()
    with opened(study, executor) as driver:
        driver._pilots._looks_ahead = True
        most = 0
        while driver.is_busy:
            driver.tick()
            most = max([most, *(len(job.running) for job in driver.state.live_jobs())])
        assert most == 4
    assert driver.state.counts()["finished"] == 24


def test_one_that_needs_a_gpu_of_its_own_gets_no_place_beside_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, an idle job took it; in a slot beside others it would take too much again."""
    study, executor = several(tmp_path), pilots()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(driver._pilots._open()))
        monkeypatch.setattr(driver._pilots, "_places", lambda job: 1)
        trial = driver.state.trials[0]
        trial.is_alone = True
        assert driver._pilots.give([[trial]]) == [[trial]]
        trial.is_alone = False
        assert driver._pilots.give([[trial]]) == []


@pytest.mark.parametrize(
    ("is_refilled", "given", "left"),
    [
        (True, [[100, 101, 105], [106, 107]], [[102], [103, 104], [108, 109]]),
        (False, [[100, 101], [105, 106]], [[102], [103, 104], [107], [108, 109]]),
    ],
)
def test_jobs_take_groups_of_their_shape_in_order(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    is_refilled: bool,
    given: list[list[int]],
    left: list[list[int]],
) -> None:
    """A trial that needs a GPU alone, and groups of another shape, are left, in their order."""
    study, executor = several(tmp_path), pilots()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver._pilots._open()) == 2)
        part, taken = driver._pilots, []
        like = driver.state.trials[0]
        shape_of = driver._trials.shape
        shapes = {103: "another", 104: "another"}
        monkeypatch.setattr(driver._trials, "shape", lambda t: shapes.get(t.number) or shape_of(t))
        first, second = part._open()
        places = {first.name: 3 if is_refilled else 2, second.name: 2}
        monkeypatch.setattr(part, "_places", lambda job: places[job.name])
        monkeypatch.setattr(part, "_refills", is_refilled)
        monkeypatch.setattr(part, "_announce", lambda found: taken.extend(found.values()))
        numbers = [[100, 101], [102], [103, 104], [105, 106, 107], [108, 109]]
        groups = [[replace(like, number=number) for number in group] for group in numbers]
        groups[1][0].is_alone = True
        rest = part.give(groups)
    assert [[attempt.trial for attempt in attempts] for attempts in taken] == given
    assert [[trial.number for trial in group] for group in rest] == left
