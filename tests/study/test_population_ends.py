"""Populations whose budget ends within a generation, whose users interfere, whose members fail."""

from collections import Counter
from contextlib import suppress

import pytest
from drives import (
    Clock,
    Killed,
    check_books,
    deaths_at_events,
    drive,
    opened,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor, Fault
from study_files import load
from test_population_study import origins, population_study, skill, teaching
from test_requests import opened_again, request
from tried import tried

from hpsearch import yaml_file
from hpsearch.cli import main
from hpsearch.errors import UsageError
from hpsearch.study.state import CANCELLED, FAILED, FINISHED, PAUSED, RUNNING, STOPPED
from hpsearch.study.view import open_view

ONE_EACH = {"name": "local", "jobs": 4, "members_per_job": 1}


def matches(study):
    """Return (members called, members ended) of each match."""
    called = [data for *_, data in stored_events(study, "match_called")]
    return [(data["members"], data["ended"]) for data in called]


def check_judged(study):
    """Assert that every interval that finished was judged, and that no trial was planned twice."""
    judged = {
        int(trial)
        for *_, data in stored_events(study, "bred") if data["match"]
        for trial in data["strengths"]
    }  # fmt: skip
    told = stored_events(study, "told")
    assert judged == {trial for _, trial, _, data in told if data["state"] == "finished"}
    keys = [data["origin"]["key"] for *_, data in stored_events(study, "asked")]
    assert len(set(keys)) == len(keys)
    champions = [data["champion"] for *_, data in stored_events(study, "bred") if data["match"]]
    assert len(champions) == len(stored_events(study, "match_called"))


def reread(study, **changes):
    """Return the study whose file has other numbers."""
    given = yaml_file.load(study.path)
    return load(study.path.parent, **(given | changes))


@pytest.mark.parametrize("trials", [5, 6, 7, 9, 11])
def test_a_budget_that_ends_within_a_generation(tmp_path, trials):
    study, executor = population_study(tmp_path, trials=trials), FakeExecutor(teaching=teaching)
    state = drive(study, executor)
    assert (state.status, len(state.trials)) == (FINISHED, trials)
    check_books(study, executor)
    check_judged(study)
    *_, (members, ended) = matches(study)
    left = (trials - 1) % 4 + 1
    assert ended == list(range(left))  # those who ended; the others play as they were
    assert sorted(members) == ["0", "1", "2", "3"]
    assert len(state.population.planned) == 4


@pytest.mark.parametrize(("trials", "intervals"), [(6, [5, 5, 4, 3]), (8, [5, 4, 4, 4])])
def test_a_budget_that_is_raised_goes_on(tmp_path, trials, intervals):
    study, executor = population_study(tmp_path, trials=trials), FakeExecutor(teaching=teaching)
    before = len(drive(study, executor).population.matches)
    study = reread(study, budget={"trials": 17})
    state = drive(study, executor)
    assert (state.status, len(state.trials)) == (FINISHED, 17)
    check_books(study, executor)
    check_judged(study)
    for members, ended in matches(study)[before:-1]:
        assert ended == [0, 1, 2, 3], (members, ended)  # who was never asked for is not late
    assert Counter(origin["member"] for origin in origins(study).values()) == dict(
        enumerate(intervals)
    )


def test_a_budget_of_one_generation_is_judged(tmp_path):
    study = population_study(tmp_path, trials=4)
    assert drive(study, FakeExecutor(teaching=teaching)).status == FINISHED
    check_judged(study)
    assert drive(study, FakeExecutor(teaching=teaching)).status == FINISHED
    assert len(matches(study)) == 1


def test_hours_that_end_within_a_generation(tmp_path):
    two = {"name": "local", "jobs": 1, "members_per_job": 2}
    study = population_study(tmp_path, trials=40, executor=two)
    study = reread(study, budget={"trials": 40, "wall_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 6)
        clock.now += 3601
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, len(state.trials)) == (FINISHED, 6)
    check_judged(study)


def test_gpu_hours_that_are_spent_end_all(tmp_path):
    study = population_study(tmp_path, trials=40)
    study = reread(study, budget={"trials": 40, "gpu_hours": 0.25})
    clock, executor = Clock(), FakeExecutor(teaching=teaching, gpus_per_job=1.0)
    with opened(study, executor, clock) as driver:
        for _ in range(200):
            if driver.state.status != RUNNING:
                break
            clock.now += 60
            driver.tick()
        state = driver.state
        spent = state.gpu_seconds(clock())
    assert state.status == FINISHED
    assert len(state.trials) < 40
    assert 900 <= spent < 900 + 10 * 60
    study = reread(study, budget={"trials": 24})
    assert len(drive(study, executor).trials) == 24
    check_judged(study)


def test_a_match_that_gpu_hours_kept_from_being_played_is_played_when_they_are_raised(tmp_path):
    study = population_study(tmp_path, trials=4)
    study = reread(study, budget={"trials": 4, "gpu_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching, gpus_per_job=1.0)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: any(job.began_at for job in driver.state.live_jobs()))
        clock.now += 3600
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
        assert state.status == FINISHED
        assert state.population.match is not None
    study = reread(study, budget={"trials": 4, "gpu_hours": 9.0})
    with opened(study, executor, clock) as driver:
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert state.status == FINISHED
    check_judged(study)


def test_without_gpu_hours_no_match_is_called_for_the_last_champion_alone(tmp_path):
    answered = {"num_games": 64, "num_samples": 100, "archive": 2, "best_response": 8}
    study = population_study(tmp_path, trials=4, matches=answered)
    study = reread(study, budget={"trials": 4, "gpu_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching, gpus_per_job=1.0)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: driver.state.population.match is not None)
        tick_until(driver, lambda: driver.state.population.match.job is not None)
        driver.tick()
        clock.now += 3600
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert state.status == FINISHED
    assert len(matches(study)) == 1
    assert state.population.match is None


# Requests.


def test_pause_ends_what_runs_and_resume_judges_it(tmp_path):
    study, executor = population_study(tmp_path, trials=12), FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(executor.live()))
        request(study, "pause")
        state = tick_until(driver, lambda: not driver.is_busy)
        assert (state.status, state.counts()["finished"]) == (PAUSED, 4)
        assert not matches(study)
    with opened_again(study, executor) as driver:
        driver.tick()
        assert not matches(study)
        request(study, "resume")
        driver.tick()
        state = tick_until(driver, lambda: not driver.is_busy)
    assert (state.status, len(state.trials)) == (FINISHED, 12)
    whole = population_study(tmp_path / "whole", trials=12)
    drive(whole, FakeExecutor(teaching=teaching))
    assert origins(study) == origins(whole)


@pytest.mark.parametrize("verb", ["pause", "stop"])
def test_a_match_that_plays_is_not_lost_by_a_pause(tmp_path, verb):
    study, executor = population_study(tmp_path, trials=8), FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: any(job.match for job in driver.state.live_jobs()))
        request(study, verb)
        state = tick_until(driver, lambda: not driver.is_busy)
        assert state.status == {"pause": PAUSED, "stop": STOPPED}[verb]
        assert state.population.match is not None
    assert drive(study, executor).status == FINISHED
    assert executor.matches_begun == 2
    check_judged(study)


def test_cancel_ends_all_and_resume_fills_the_places(tmp_path):
    study = population_study(tmp_path, trials=16)
    executor = FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 8 and len(executor.live()) == 2)
        request(study, "cancel")
        state = tick_until(driver, lambda: not driver.is_busy)
        assert state.status == CANCELLED
    assert drive(study, executor).status == FINISHED
    check_books(study, executor)
    check_judged(study)
    born = origins(study)
    assert len(born) == 16
    assert all(not set(origin["parents"]) & {4, 5, 6, 7} for origin in born.values())


def test_cancel_before_anybody_has_ended_begins_anew(tmp_path):
    study, executor = population_study(tmp_path, trials=12), FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(executor.live()) == 2)
        request(study, "cancel")
        tick_until(driver, lambda: not driver.is_busy)
    assert drive(study, executor).status == FINISHED
    check_judged(study)
    assert [origin["operator"]["name"] for origin in origins(study).values()][:8] == ["fresh"] * 8


def test_nothing_is_retried_in_a_population(tmp_path):
    study = population_study(tmp_path, trials=8)
    executor = FakeExecutor(teaching=teaching, faults={(1, 1): Fault("nan", 4)})
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(driver.state.num_failures()))
        request(study, "retry", 1)
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, len(state.trials)) == (FINISHED, 8)
    assert not state.retries
    assert state.num_failures() == 1


@pytest.mark.parametrize("verb", ["pause", "cancel"])
def test_a_retry_of_nothing_leaves_a_population_as_it_is(tmp_path, monkeypatch, capsys, verb):
    study = population_study(tmp_path, trials=8)
    executor = FakeExecutor(teaching=teaching, faults={(1, 1): Fault("nan", 4)})
    with opened(study, executor) as driver:
        tick_until(driver, lambda: bool(driver.state.num_failures()))
        request(study, verb)
        held = tick_until(driver, lambda: not driver.is_busy).status
        request(study, "retry", 1)
        driver.tick()
        assert driver.state.status == held
        assert not driver.is_busy
    monkeypatch.setattr("hpsearch.api.background._start_driver", None)
    name, runs = study.spec.name, str(tmp_path / "runs")
    assert main(["retry", name, "--runs", runs]) == UsageError.exit_code
    assert "so nothing is left to try again" in capsys.readouterr().err
    assert open_view(name, tmp_path / "runs").state.status == held


# Failures.


def test_a_generation_that_fails_whole_begins_anew(tmp_path):
    study = population_study(tmp_path, trials=12)
    study = reread(study, max_failures=4)
    faults = {(trial, 1): Fault("nan", 4) for trial in range(4)}
    executor = FakeExecutor(teaching=teaching, faults=faults)
    assert drive(study, executor).status == FINISHED
    check_books(study, executor)
    check_judged(study)
    born = origins(study)
    assert [born[trial]["operator"]["name"] for trial in range(8)] == ["fresh"] * 8
    assert len({trial.params["host.gamma"] for trial in stored_trials(study)[:8]}) == 8
    assert matches(study)[0][0] == {str(member): 4 + member for member in range(4)}


def test_a_population_that_always_fails_ends_the_study(tmp_path, monkeypatch, capsys):
    study = population_study(tmp_path, trials=100)
    faults = {(trial, 1): Fault("nan", 4) for trial in range(100)}
    assert drive(study, FakeExecutor(teaching=teaching, faults=faults)).status == FAILED
    name, runs = study.spec.name, str(tmp_path / "runs")
    assert main(["resume", name, "--runs", runs]) == UsageError.exit_code
    refusal = capsys.readouterr().err
    assert f"raise max_failures in {study.path} and resume it\n" in refusal
    assert "retry" not in refusal, "which a population refuses"
    monkeypatch.setattr("hpsearch.api.background._start_driver", lambda *given: None)
    reread(study, max_failures=99)
    assert main(["resume", name, "--runs", runs]) == 0
    assert open_view(name, tmp_path / "runs").state.status == RUNNING


@pytest.mark.parametrize("name", ["truncation", "tournament", "pareto"])
def test_the_last_one_left_fills_all_places(tmp_path, name):
    objectives = {"objectives": ["strength", "novelty"]} if name == "pareto" else {}
    study = population_study(tmp_path, trials=12, selection={"name": name} | objectives)
    faults = {(trial, 1): Fault("nan", 4) for trial in (0, 1, 3)}
    executor = FakeExecutor(teaching=teaching, faults=faults)
    assert drive(study, executor).status == FINISHED
    born = origins(study)
    assert [born[trial]["parents"] for trial in range(4, 8)] == [[2]] * 4
    check_judged(study)


@pytest.mark.slow
def test_strength_goes_up_through_failures(tmp_path):
    study = population_study(tmp_path, trials=40)
    study = reread(study, max_failures=5)
    faults = {(trial, 1): Fault("nan", 4) for trial in (5, 11, 17)}
    drive(study, FakeExecutor(teaching=teaching, faults=faults))
    born = origins(study)
    check_judged(study)
    last = [data["champion"] for *_, data in stored_events(study, "bred") if data["match"]][-1]
    assert skill(stored_trials(study), born, last) > 1.5  # ten generations of at most 0.2


# Deaths.


@pytest.mark.parametrize("seed", tried(range(3), slow=[0]))
def test_a_driver_that_dies_while_members_fail_breeds_the_same(tmp_path, seed):
    faults = {(2, 1): Fault("nan", 4), (5, 1): Fault("vanish", 12)}
    given = {"generations": {"name": "steady"}, "executor": ONE_EACH}
    whole = population_study(tmp_path / "whole", trials=10, **given)
    drive(whole, FakeExecutor(teaching=teaching, faults=faults))
    num = len(stored_events(whole))
    broken = population_study(tmp_path / "broken", trials=10, **given)
    executor = FakeExecutor(teaching=teaching, faults=faults)
    places = range(3 + seed, 3 * num, 7)
    with deaths_at_events(before=places, after=places), suppress(Killed):
        drive(broken, executor, max_lives=200)
    assert drive(broken, executor).status == FINISHED
    check_books(broken, executor)
    check_judged(broken)


@pytest.mark.slow
def test_it_repeats(tmp_path):
    def events(folder, steady):
        rules = {"generations": {"name": "steady"}} if steady else {}
        study = population_study(tmp_path / folder, trials=14, explore={"name": "model"}, **rules)
        drive(study, FakeExecutor(teaching=teaching))
        return [
            (kind, trial, data)
            for kind, trial, _, data in stored_events(study, "bred", "match_called", "told")
        ]

    for steady in (False, True):
        assert events(f"{steady} 1", steady) == events(f"{steady} 2", steady)
