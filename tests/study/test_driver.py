"""The driver over a fake executor: whole studies, what goes wrong in jobs, and its limits."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from drives import (
    METRIC,
    SPACE,
    Clock,
    check_books,
    drive,
    new_study,
    opened,
    query,
    schedule,
    stored_events,
    stored_trials,
    tick_until,
    trial_folder,
)
from fakes import FakeExecutor, Fault
from optuna.trial import TrialState

from hpsearch.cluster.member import Member
from hpsearch.study.observe import CurveReport
from hpsearch.study.records import Trial
from hpsearch.study.spec import Study
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials
from hpsearch.trainers.evaluation import Evaluation

ALONE = {"name": "local", "jobs": 1, "members_per_job": 1}


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def jobs_of(study: Study) -> list[tuple[int, ...]]:
    """Return the trials of each job, in the order of the announcements."""
    announced = stored_events(study, "announced")
    return [tuple(trial["trial"] for trial in event[3]["trials"]) for event in announced]


# A whole study.


def test_the_last_evaluation_before_an_early_end_does_not_prune(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a trial that has reached its target could be given up for it."""
    write, report, told = Member.report, Trials.report, dict[int, bool]()

    def ends_at_8(self: Member, step: int, evaluation: Evaluation) -> None:
        write(self, step, evaluation, is_last=step == 8)

    def noted(self: Trials, trial: Trial, seen: CurveReport, *, last: bool) -> bool:
        told[seen.step] = last
        return report(self, trial, seen, last=last)

    monkeypatch.setattr(Member, "report", ends_at_8)
    monkeypatch.setattr(Trials, "report", noted)
    pruner = {"name": "median", "n_startup_trials": 2}
    drive(new_study(tmp_path, pruner=pruner, budget={"trials": 1}), FakeExecutor())
    assert told == {4: False, 8: True, 12: False, 16: True}


@pytest.fixture(scope="module")
def sixteen(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, FakeExecutor, StudyState]:
    study = new_study(
        tmp_path_factory.mktemp("sixteen"),
        sampler={"name": "tpe", "n_startup_trials": 4},
        executor={"name": "local", "jobs": 2, "members_per_job": 3},
        budget={"trials": 16},
    )
    executor = FakeExecutor()
    return study, executor, drive(study, executor)


def test_a_study_ends_with_every_trial_told_once(
    sixteen: tuple[Study, FakeExecutor, StudyState],
) -> None:
    study, executor, state = sixteen
    assert state.status == "finished"
    expected = {"finished": 16, "running": 0, "waiting": 0, "pruned": 0, "failed": 0}
    assert state.counts() == expected
    assert sorted(event[1] for event in stored_events(study, "told")) == list(range(16))
    assert len(executor.submitted) == 6  # 3 + 3 members at once: five jobs of three, one of one
    assert executor.live() == []
    check_books(study, executor)
    assert query(study, "SELECT state FROM hpsearch_studies") == [("finished",)]


def test_plain_optuna_reads_what_the_driver_wrote(
    sixteen: tuple[Study, FakeExecutor, StudyState],
) -> None:
    trials = stored_trials(sixteen[0])
    assert [trial.state for trial in trials] == [TrialState.COMPLETE] * 16
    for trial in trials:
        config = sixteen[0].trial_config(trial.number, trial.params)
        assert config["seed"] == 1_000_000 + trial.number
        assert list(trial.intermediate_values) == [4, 8, 12, 16]
        low, high = trial.user_attrs[f"{METRIC} 95%"]
        assert low < trial.value < high


def test_the_command_line_of_optuna_reads_it_too(
    sixteen: tuple[Study, FakeExecutor, StudyState],
) -> None:
    spec = sixteen[0].spec
    command = [str(Path(sys.executable).parent / "optuna"), "trials", "--storage", spec.storage]
    done = subprocess.run(
        [*command, "--study-name", spec.name, "--format", "json"],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ | {"PYTHONWARNINGS": "always::FutureWarning,always::UserWarning"},
    )
    # The command itself is experimental; it has nothing to say about the study.
    warned = [line for line in done.stderr.splitlines() if "warning:" in line.lower()]
    assert all("'trials' is an experimental CLI command" in line for line in warned)
    assert [row["state"] for row in json.loads(done.stdout)] == ["COMPLETE"] * 16


def test_curves_in_sql_have_at_most_twenty_values(tmp_path: Path) -> None:
    study = new_study(tmp_path, {"steps": 200}, budget={"trials": 2})
    executor = FakeExecutor()
    drive(study, executor)
    # 50 evaluations, every third of which is told.
    assert list(stored_trials(study)[1].intermediate_values) == list(range(12, 200, 12))
    check_books(study, executor)


def test_several_objectives_are_told_and_never_prune(tmp_path: Path) -> None:
    objectives = [{"metric": METRIC, "goal": goal} for goal in ("maximize", "minimize")]
    objectives[1]["metric"] = "rho_sampled/host/choose_first"
    study = new_study(
        tmp_path, objectives=objectives, sampler={"name": "random"}, budget={"trials": 3}
    )
    assert drive(study, FakeExecutor()).counts()["finished"] == 3
    assert all(len(trial.values) == 2 for trial in stored_trials(study))


# What goes wrong in jobs.


def run_with(folder: Path, faults: dict[tuple[int, int], Fault], **changes: Any) -> StudyState:
    """Drive a study of four trials, one in a job, and check its books."""
    study = new_study(folder, **({"budget": {"trials": 4}, "executor": ALONE} | changes))
    executor = FakeExecutor(faults=faults)
    state = drive(study, executor)
    check_books(study, executor)
    return state


def ends(state: StudyState) -> list[str | None]:
    return [trial.told for trial in state.trials.values()]


@pytest.mark.parametrize("kind", ["vanish", "half", "wrong", "zombie"])
@pytest.mark.parametrize("step", [0, 6, 16])
def test_an_attempt_without_a_credible_result_is_repeated(
    tmp_path: Path, kind: str, step: int
) -> None:
    state = run_with(tmp_path, {(1, 1): Fault(kind, step)})
    assert ends(state) == ["finished"] * 4
    assert [trial.attempts for trial in state.trials.values()] == [1, 2, 1, 1]


def test_a_late_result_of_a_fenced_attempt_is_never_told(tmp_path: Path) -> None:
    state = run_with(tmp_path, {(1, 1): Fault("zombie", 8)})
    late = read(tmp_path / "runs/quick/trials/1/attempt-1/result.json")
    assert (late["status"], late["metrics"][METRIC]["value"]) == ("finished", 99.0)
    assert state.trials[1].attempts == 2
    assert state.trials[1].value is not None
    assert state.trials[1].value < 1


def test_three_attempts_lost_in_a_row_fail_the_trial(tmp_path: Path) -> None:
    state = run_with(tmp_path, {(2, attempt): Fault("vanish") for attempt in (1, 2, 3)})
    assert ends(state) == ["finished", "finished", "failed", "finished"]
    lost = state.trials[2]
    assert (lost.attempts, lost.failure) == (3, "lost")
    assert lost.message.startswith("the job ended without a result; see ")


def test_progress_between_losses_starts_the_count_anew(tmp_path: Path) -> None:
    steps = [4, 4, 4, 8, 8, 8]  # each first one got further: never three in a row without
    faults = {(0, index + 1): Fault("vanish", step) for index, step in enumerate(steps)}
    state = run_with(tmp_path, faults)
    assert ends(state) == ["finished"] * 4
    assert state.trials[0].attempts == 7


@pytest.mark.parametrize(
    ("fault", "failure", "message"),
    [
        (Fault("nan", 8), "nan", "the weights became NaN"),
        (Fault("error", 8), "code", "RuntimeError: no such layer"),
    ],
)
def test_what_would_fail_again_is_not_repeated(
    tmp_path: Path, fault: Fault, failure: str, message: str
) -> None:
    state = run_with(tmp_path, {(3, 1): fault})
    assert ends(state) == ["finished", "finished", "finished", "failed"]
    failed = state.trials[3]
    assert (failed.attempts, failed.failure, failed.message) == (1, failure, message)
    assert read(tmp_path / "runs/quick/trials/3/result.json")["failure"] == failure


def test_a_neighbour_that_became_nan_leaves_the_others_alone(tmp_path: Path) -> None:
    executor = {"name": "local", "members_per_job": 4}
    state = run_with(tmp_path, {(1, 1): Fault("nan", 8)}, executor=executor)
    assert ends(state) == ["finished", "failed", "finished", "finished"]
    assert [trial.attempts for trial in state.trials.values()] == [1] * 4


def test_too_many_failures_end_the_study(tmp_path: Path) -> None:
    study = new_study(
        tmp_path,
        budget={"trials": 12},
        max_failures=1,
        executor={"name": "local", "jobs": 2, "members_per_job": 2},
    )
    executor = FakeExecutor(faults={(0, 1): Fault("nan", 8), (2, 1): Fault("nan", 8)})
    state = drive(study, executor)
    assert state.status == "failed"
    assert ends(state) == ["failed", None, "failed", None]
    assert len(state.trials) == 4  # nothing was asked after the second failure
    assert executor.live() == []
    # The interrupted ones go on if the study may fail more.
    more = new_study(
        tmp_path,
        budget={"trials": 12},
        max_failures=2,
        executor={"name": "local", "members_per_job": 2},
    )
    state = drive(more, executor)
    assert (state.counts()["finished"], state.counts()["failed"]) == (10, 2)


def test_a_trial_that_measures_no_objective_fails(tmp_path: Path) -> None:
    study = new_study(
        tmp_path,
        budget={"trials": 1},
        space=SPACE
        | {"evaluation.opponents": {"type": "categorical", "choices": [["choose_last"]]}},
    )
    state = drive(study, FakeExecutor())
    assert (state.trials[0].told, state.trials[0].failure) == ("failed", "code")
    other = METRIC.replace("choose_first", "choose_last")
    assert state.trials[0].message == (
        f"the trial measured no {METRIC} (did you mean {other!r}?); "
        f"it measured {other}, rho_sampled/host/choose_last"
    )


def test_a_pruned_trial_is_told_and_its_worker_leaves(tmp_path: Path) -> None:
    study = new_study(
        tmp_path,
        pruner={"name": "median", "n_startup_trials": 2},
        sampler={"name": "random"},
        budget={"trials": 9},
    )
    executor = FakeExecutor()
    state = drive(study, executor)
    check_books(study, executor)
    pruned = [trial for trial in state.trials.values() if trial.told == "pruned"]
    assert 0 < len(pruned) < 9
    for trial in pruned:
        attempt = read(trial_folder(study, trial.number) / "attempt-1/result.json")
        assert attempt["status"] == "pruned"
        assert attempt["step"] < 16
        assert max(trial.reported) < 16
        assert trial.value is None


def test_lines_that_stand_twice_in_a_curve_count_once(tmp_path: Path) -> None:
    pruner = {"name": "successive_halving", "min_resource": 4, "reduction_factor": 2}
    results = []
    for twice in (False, True):
        study = new_study(tmp_path / str(twice), pruner=pruner, budget={"trials": 9})
        executor = FakeExecutor(twice=twice)
        drive(study, executor)
        check_books(study, executor)
        results.append(schedule(study))
    assert results[0] == results[1]


@pytest.mark.parametrize("ticks", [1, 2, 4])
def test_an_interrupted_study_goes_on_as_if_it_had_not_been(tmp_path: Path, ticks: int) -> None:
    plain, study = (
        new_study(tmp_path / name, budget={"trials": 7}, sampler={"name": "tpe"})
        for name in ("plain", "interrupted")
    )
    drive(plain, FakeExecutor())
    executor = FakeExecutor()
    for _ in range(3):
        with opened(study, executor) as driver:
            for _ in range(ticks):
                driver.tick()
            driver.interrupt()
            while driver.state.live_jobs():
                driver.collect()
            assert executor.live() == []
    drive(study, executor)
    check_books(study, executor)
    assert schedule(study) == schedule(plain)
    assert set(jobs_of(study)) == {(0, 1, 2), (3, 4, 5), (6,)}  # always the same together


def test_interruptions_before_the_first_step_are_no_losses(tmp_path: Path) -> None:
    """A job that is asked to leave while it still starts goes without a word."""
    study = new_study(tmp_path, budget={"trials": 1})
    executor = FakeExecutor(faults={(0, attempt): Fault("vanish") for attempt in range(1, 6)})
    for _ in range(1, 6):
        with opened(study, executor) as driver:
            driver.tick()
            driver.interrupt()
            driver.interrupt()  # may be repeated
            while driver.state.live_jobs():
                driver.collect()
    state = drive(study, executor)
    assert ends(state) == ["finished"]
    assert (state.trials[0].attempts, state.trials[0].lost) == (6, 0)
    assert len(stored_events(study, "interrupting")) == 5
    check_books(study, executor)


# Jobs and limits.


def test_trials_of_one_shape_share_a_job(tmp_path: Path) -> None:
    nets = {"type": "categorical", "choices": [[8], [16]]}
    study = new_study(
        tmp_path,
        space=SPACE | {"host.net_arch": nets},
        sampler={"name": "random"},
        executor={"name": "local", "jobs": 2, "members_per_job": 4},
    )
    executor = FakeExecutor(faults={(3, 1): Fault("vanish", 4)})
    drive(study, executor)
    check_books(study, executor)
    net_of = {t.number: t.params["host.net_arch"] for t in stored_trials(study)}
    shapes = [{net_of[number] for number in job} for job in jobs_of(study)]
    assert all(len(shape) == 1 for shape in shapes)
    assert len(set.union(*shapes)) == 2
    together = next(job for job in jobs_of(study) if 3 in job)
    assert len(together) > 1
    assert jobs_of(study).count(together) == 2  # thrown out together, and together again


def test_a_grown_budget_reopens_a_finished_study(tmp_path: Path) -> None:
    small = new_study(tmp_path, budget={"trials": 4})
    executor = FakeExecutor()
    drive(small, executor)
    before = schedule(small)
    with opened(small, executor) as driver:
        assert driver.state.status == "finished"  # nothing is left to do: nothing begins
    grown = new_study(tmp_path, budget={"trials": 6})
    with opened(grown, executor) as driver:
        assert query(grown, "SELECT state FROM hpsearch_studies") == [("running",)]
        tick_until(driver, lambda: driver.state.status != "running")
    check_books(grown, executor)
    assert len(schedule(grown)) == 6
    assert schedule(grown)[:4] == before
    assert [event[0] for event in stored_events(grown, "started", "ended")] == [
        "started",
        "ended",
    ] * 2


def test_nothing_is_asked_after_the_hours_of_the_wall(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 100, "wall_hours": 1.0})
    executor, clock = FakeExecutor(), Clock()
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 6)
        clock.now += 3599
        tick_until(driver, lambda: len(driver.state.trials) == 9)
        clock.now += 1
        state = tick_until(driver, lambda: driver.state.status != "running")
    assert state.status == "finished"
    assert state.counts()["finished"] == len(state.trials) == 9
    check_books(study, executor)


def test_no_job_is_started_after_the_hours_of_gpus(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 100, "gpu_hours": 10.0}, executor=ALONE)
    executor, clock = FakeExecutor(gpus_per_job=2.0), Clock()
    with opened(study, executor, clock) as driver:
        while driver.is_busy:
            driver.tick()
            clock.now += 3600
    assert driver.state.status == "finished"
    # What runs when the hours are spent still finishes: four hours on two GPUs, twice.
    assert driver.state.counts()["finished"] == 2
    assert driver.state.gpu_seconds(clock.now) / 3600 == pytest.approx(16, abs=4)
    check_books(study, executor)


@pytest.mark.parametrize(("room", "at_once"), [(9, 4), (2, 2), (0, 1)])
def test_no_more_jobs_than_the_executor_has_room_for(
    tmp_path: Path, room: int, at_once: int
) -> None:
    """Nor are more trials asked for; with no room at all the executor says why it takes none."""
    study = new_study(tmp_path, budget={"trials": 8}, executor=ALONE | {"jobs": 4})
    executor = FakeExecutor(max_jobs=room)
    with opened(study, executor) as driver:
        driver.tick()
        assert len(driver.state.trials) == at_once
        tick_until(driver, lambda: driver.state.status == "finished")
    assert executor.most_alive == at_once
    check_books(study, executor)


def test_the_threads_of_a_job(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    with opened(study, FakeExecutor(num_threads=3)) as driver:
        driver.tick()
    assert read(tmp_path / "runs/quick/jobs/00001/job.json")["num_threads"] == 3
