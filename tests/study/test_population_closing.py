"""Closings: generations after the last interval, whose children play without having trained."""

import hashlib
import json
from collections import Counter
from dataclasses import replace

import pytest
from announced import on_path, write_package
from drives import (
    MAX_TICKS,
    Clock,
    Killed,
    check_books,
    deaths_at_all_events,
    deaths_at_events,
    drive,
    opened,
    schedule,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor, Fault
from optuna.trial import TrialState
from test_population_ends import check_judged, matches, reread
from test_population_study import POPULATION, champions, origins, population_study, skill, teaching
from test_requests import request

from hpsearch.api.deriving import confirm
from hpsearch.cli import main
from hpsearch.errors import ConfigError
from hpsearch.report.text import status_summary
from hpsearch.study.state import CANCELLED, FINISHED, PAUSED, RUNNING, STOPPED
from hpsearch.study.stored_spec import NOT_PART_OF_THE_SEARCH, spec_hash, spec_json
from hpsearch.study.view import open_view
from hpsearch.study.work import steps_in_all, steps_made

MUTATION = {"name": "gaussian_mutation", "strength": 0.1}
CLOSING = {"operators": [MUTATION], "generations": 2, "share": 0.5}
HELD = {"pause": PAUSED, "stop": STOPPED, "cancel": CANCELLED}
STEADY = {
    "generations": {"name": "steady"},
    "executor": {"name": "local", "jobs": 4, "members_per_job": 1},
}


def closing_study(folder, trials=8, **changes):
    """Return a population of 4 members whose closing replaces two of them, twice."""
    return population_study(folder, trials=trials, closing=CLOSING, **changes)


def untrained(study):
    """Return the children of the closing, by trial."""
    return {
        trial: origin
        for trial, origin in origins(study).items()
        if origin["parents"] and origin["steps"] == origin["parent_steps"][0]
    }


def test_children_come_after_the_last_interval_and_do_not_train(tmp_path):
    study, executor = closing_study(tmp_path), FakeExecutor(teaching=teaching)
    state = drive(study, executor)
    assert (state.status, state.num_asked, len(state.trials)) == (FINISHED, 8, 12)
    check_books(study, executor)
    check_judged(study)
    born, last = origins(study), untrained(study)
    assert sorted(last) == [8, 9, 10, 11]
    assert Counter(origin["generation"] for origin in last.values()) == {2: 2, 3: 2}
    for origin in last.values():
        assert origin["steps"] == 16  # two intervals: where training ended
        assert origin["operator"] == MUTATION
        assert origin["params"] == born[origin["parents"][0]]["params"]
    # The two best of the last generation have a child each in the places of the two worst.
    trials = stored_trials(study)
    ranked = sorted(range(4, 8), key=lambda trial: -skill(trials, born, trial))
    assert {last[trial]["parents"][0] for trial in (8, 9)} <= set(ranked[:2])
    assert {last[trial]["member"] for trial in (8, 9)} == {born[t]["member"] for t in ranked[2:]}


def test_everybody_meets_the_children_and_the_best_of_all_is_champion(tmp_path):
    study = closing_study(tmp_path)
    drive(study, FakeExecutor(teaching=teaching))
    *_, (before, _), (members, ended) = matches(study)
    assert len(matches(study)) == 4
    assert {8, 9} < set(before.values())
    assert {10, 11} < set(members.values())
    assert ended == [0, 1, 2, 3]
    born, trials = origins(study), stored_trials(study)
    strongest = max(members.values(), key=lambda trial: skill(trials, born, trial))
    assert champions(study)[-1] == strongest
    assert strongest in untrained(study)  # the fake teaches at birth too


def driven_with_deaths(study):
    """Drive a study whose driver dies at every event, and check what it leaves."""
    executor = FakeExecutor(teaching=teaching)
    with deaths_at_all_events():
        state = drive(study, executor, max_lives=400)
    assert (state.status, state.num_asked) == (FINISHED, 8)
    check_books(study, executor)
    check_judged(study)


@pytest.mark.slow
def test_a_closing_survives_a_death_at_every_event(tmp_path):
    whole, broken = closing_study(tmp_path / "whole"), closing_study(tmp_path / "broken")
    drive(whole, FakeExecutor(teaching=teaching))
    driven_with_deaths(broken)
    assert schedule(broken) == schedule(whole)
    assert champions(broken) == champions(whole)
    assert untrained(broken) == untrained(whole)


@pytest.mark.slow
def test_a_steady_closing_survives_a_death_at_every_event(tmp_path):
    study = closing_study(tmp_path, **STEADY)
    driven_with_deaths(study)
    # Which are judged together depends on the time; that all are before the closing does not.
    *_, (_, last), _ = matches(study)
    assert last == [0, 1, 2, 3]
    assert {trial for _, trial, _, _ in stored_events(study, "told")} == set(range(12))


def test_a_budget_that_is_raised_trains_on_from_the_closing(tmp_path):
    study, executor = closing_study(tmp_path), FakeExecutor(teaching=teaching)
    drive(study, executor)
    closed = champions(study)[-1]
    study = reread(study, budget={"trials": 12})
    state = drive(study, executor)
    assert (state.status, state.num_asked) == (FINISHED, 12)
    check_books(study, executor)
    check_judged(study)
    born, last = origins(study), untrained(study)
    more = {trial: origin for trial, origin in born.items() if trial >= 12 and trial not in last}
    assert sorted(origin["member"] for origin in more.values()) == [0, 1, 2, 3]
    assert all(
        origin["steps"] == 24 and origin["parent_steps"][0] == 16 for origin in more.values()
    )
    assert closed in {origin["parents"][0] for origin in more.values()}
    assert sum(trial >= 12 for trial in last) == 4  # and closes again


@pytest.mark.slow
def test_a_budget_that_is_raised_in_the_middle_of_a_closing(tmp_path):
    study, executor = closing_study(tmp_path), FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 10)
    study = reread(study, budget={"trials": 12})
    state = drive(study, executor)
    assert (state.status, state.num_asked) == (FINISHED, 12)
    check_books(study, executor)
    check_judged(study)
    assert len(untrained(study)) == 2 + 4


def test_a_closing_without_children_is_over(tmp_path):
    study, equal = closing_study(tmp_path), FakeExecutor(teaching=lambda config, first: 0.0)
    state = drive(study, equal)
    assert (state.status, len(state.trials), len(matches(study))) == (FINISHED, 8, 2)
    state = drive(reread(study, budget={"trials": 12}), equal)
    assert (state.status, len(state.trials)) == (FINISHED, 12)


def test_a_child_of_the_closing_that_fails_leaves_its_place_as_it_was(tmp_path):
    study = closing_study(tmp_path)
    executor = FakeExecutor(teaching=teaching, faults={(8, 1): Fault("nan", 16)})
    state = drive(study, executor)
    assert (state.status, state.counts()["failed"]) == (FINISHED, 1)
    assert state.num_failures() == 0  # all training was done
    check_judged(study)
    place = origins(study)[8]["member"]
    members, _ = matches(study)[2]
    assert members[str(place)] < 8


def test_a_closing_comes_before_the_match_that_answers_the_last_champion(tmp_path):
    given = POPULATION["matches"] | {"best_response": 8}
    study, executor = closing_study(tmp_path, matches=given), FakeExecutor(teaching=teaching)
    assert drive(study, executor).status == FINISHED
    called = matches(study)
    assert [ended for _, ended in called[:4]] == [[0, 1, 2, 3]] * 4
    assert [ended for _, ended in called[4:]] == [[]] * (len(called) - 4)
    assert champions(study)[-1] in champions(study)[:-1]
    assert len(untrained(study)) == 4


def test_the_end_of_the_hours_begins_a_closing(tmp_path):
    study = reread(closing_study(tmp_path), budget={"trials": 40, "wall_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 8)
        clock.now += 3601
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, len(state.trials)) == (FINISHED, 12)
    check_judged(study)


def test_hours_that_end_before_a_planned_interval_is_asked_for_begin_a_closing_too(tmp_path):
    """The driver dies when it has created the first trial of it in Optuna, and comes back late."""
    given = {"executor": {"name": "local", "jobs": 1, "members_per_job": 4}}
    hours = {"trials": 40, "wall_hours": 1.0}
    whole = closing_study(tmp_path / "whole", trials=12, **given)
    drive(whole, FakeExecutor(teaching=teaching))
    kinds = [kind for kind, *_ in stored_events(whole)]
    asked = [place for place, kind in enumerate(kinds, 1) if kind == "asked"]
    study = reread(closing_study(tmp_path / "late", **given), budget=hours)
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    dies = deaths_at_events(before=[asked[8]])
    with dies, pytest.raises(Killed), opened(study, executor, clock) as driver:
        tick_until(driver, lambda: driver.state.status != RUNNING)
    clock.now += 3601
    with opened(study, executor, clock) as driver:
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, state.num_asked) == (FINISHED, 8)
    check_judged(study)
    assert len(untrained(study)) == 4
    assert all(trial.origin is not None for trial in state.trials.values())
    lost = [trial for trial in stored_trials(study) if trial.number not in state.trials]
    assert lost
    assert {trial.state for trial in lost} == {TrialState.FAIL}


def test_who_never_began_may_begin_after_a_closing(tmp_path):
    """Two of four members had no job before the hours were over."""
    given = {"executor": {"name": "local", "jobs": 1, "members_per_job": 2}}
    study = reread(closing_study(tmp_path, **given), budget={"trials": 40, "wall_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 2)
        clock.now += 3601
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, state.num_asked) == (FINISHED, 2)
    assert untrained(study)
    study = reread(study, budget={"trials": 6, "wall_hours": 9.0})
    with opened(study, executor, clock) as driver:
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, state.num_asked) == (FINISHED, 6)
    check_judged(study)
    born = origins(study)
    fresh = {birth["member"] for birth in born.values() if birth["operator"]["name"] == "fresh"}
    assert fresh == {0, 1, 2, 3}


def test_gpu_hours_that_end_while_the_last_match_is_played_put_the_closing_off(tmp_path):
    study = reread(closing_study(tmp_path), budget={"trials": 8, "gpu_hours": 1.0})
    clock, executor = Clock(), FakeExecutor(teaching=teaching, gpus_per_job=1.0)
    with opened(study, executor, clock) as driver:
        tick_until(driver, lambda: len(driver.state.population.matches) == 2)
        tick_until(driver, lambda: driver.state.population.match.job is not None)
        driver.tick()
        clock.now += 3600
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, len(untrained(study))) == (FINISHED, 0)
    with opened(study, executor, clock) as driver:
        assert driver.state.status == FINISHED  # nothing can be done yet
    study = reread(study, budget={"trials": 8, "gpu_hours": 9.0})
    with opened(study, executor, clock) as driver:
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert (state.status, state.num_asked, len(untrained(study))) == (FINISHED, 8, 4)
    check_judged(study)


@pytest.mark.parametrize("verb", ["pause", "stop", "cancel"])
def test_a_closing_that_is_held_up_goes_on(tmp_path, verb):
    study, executor = closing_study(tmp_path), FakeExecutor(teaching=teaching)
    with opened(study, executor) as driver:
        tick_until(driver, lambda: len(driver.state.trials) == 10)
        request(study, verb)
        state = tick_until(driver, lambda: not driver.is_busy)
        assert (state.status, len(state.trials)) == (HELD[verb], 10)
    state = drive(study, executor)
    assert state.status == FINISHED
    check_judged(study)
    assert len(untrained(study)) == 4


def test_steps_of_who_does_not_train_are_none(tmp_path):
    study = closing_study(tmp_path)
    state = drive(study, FakeExecutor(teaching=teaching))
    view = open_view(study.spec.name, tmp_path / "runs")
    steps = {number: view.steps(trial) for number, trial in state.trials.items()}
    assert steps == {trial: 0 if trial >= 8 else 8 for trial in range(12)}
    assert steps_made(view) == steps_in_all(view) == 64


def test_children_that_failed_are_not_said_to_be_adopted(tmp_path):
    study = closing_study(tmp_path)
    faults = {(trial, 1): Fault("nan", 16) for trial in (8, 9)}
    state = drive(study, FakeExecutor(teaching=teaching, faults=faults))
    assert state.counts()["failed"] == 2
    summary = status_summary(open_view(study.spec.name, tmp_path / "runs"))
    counts = summary["population"]["operators"]["gaussian_mutation"]
    assert counts["made"] == summary["untrained"] - 2


@pytest.mark.slow
def test_spent_gpu_hours_leave_no_closing(tmp_path):
    study = reread(closing_study(tmp_path, trials=40), budget={"trials": 40, "gpu_hours": 0.25})
    clock, executor = Clock(), FakeExecutor(teaching=teaching, gpus_per_job=1.0)
    with opened(study, executor, clock) as driver:
        for _ in range(MAX_TICKS):
            clock.now += 60
            driver.tick()
        state = driver.state
    assert state.status == FINISHED
    assert not untrained(study)
    state = drive(reread(study, budget={"trials": 24}), executor)
    assert (state.status, state.num_asked, len(untrained(study))) == (FINISHED, 24, 4)


def test_late_members_are_waited_for_before_the_closing(tmp_path):
    """A late member is judged first, and its place may go to a child then."""
    slow = {"generations": {"name": "synchronous", "quorum": 0.5, "minutes": 0}}
    study = closing_study(tmp_path, **slow, executor=STEADY["executor"])
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    with opened(study, executor, clock) as driver:
        for _ in range(MAX_TICKS):
            clock.now += 7
            driver.tick()
        state = driver.state
    assert state.status == FINISHED
    check_judged(study)
    asked = [data["origin"] for *_, data in stored_events(study, "asked")]
    first = next(
        k for k, origin in enumerate(asked) if origin["steps"] in origin["parent_steps"][:1]
    )
    assert first == 8


def test_a_population_without_a_closing_is_the_study_that_it_was_before_there_were_any(tmp_path):
    study = population_study(tmp_path / "none")
    whole = json.loads(spec_json(study))
    before = {key: value for key, value in whole["population"].items() if key != "closing"}
    search = {key: whole[key] for key in whole if key not in NOT_PART_OF_THE_SEARCH}
    text = json.dumps(search | {"population": before}, sort_keys=True)
    assert spec_hash(study) == hashlib.sha256(text.encode()).hexdigest()
    assert spec_hash(study) != spec_hash(closing_study(tmp_path / "closing"))


SAME = """
from dataclasses import dataclass
from typing import Literal
from hpsearch.population.operators.options import MutationExtension
from hpsearch.population.operators.weights import clone

@dataclass(frozen=True)
class Same(MutationExtension):
    name: Literal["same"]

    def child(self, parent, stream):
        return clone(parent)
"""


def test_no_match_is_rerun_without_all_its_players(tmp_path):
    study = population_study(tmp_path)
    drive(study, FakeExecutor(teaching=teaching))
    view = open_view(study.spec.name, tmp_path / "runs")
    partly = replace(view, unread_faults=("population.matches.panel[0] is unknown",))
    how = {"top": None, "seeds": None, "games": 10, "best_response": None}
    with pytest.raises(ConfigError, match=r"panel\[0\] is unknown"):
        confirm(partly, tmp_path / "runs", **how, submit=False, as_json=False)


def test_a_closing_of_a_package_that_is_missing_is_read_and_paused(tmp_path, capsys):
    write_package(tmp_path / "lib", {"mutations": {"same": "sames:Same"}}, {"sames": SAME})
    with on_path(tmp_path / "lib"):
        study = population_study(tmp_path, closing=CLOSING | {"operators": [{"name": "same"}]})
        with opened(study, FakeExecutor(teaching=teaching)) as driver:
            tick_until(driver, lambda: len(driver.state.told(FINISHED)) == 4)
    name, runs = study.spec.name, ["--runs", str(tmp_path / "runs")]
    missing = "population.closing.operators[0].name is an unknown name 'same'"
    for command in ("status", "trials", "best", "lineage", "report", "audit"):
        assert main([command, name, *runs]) == 0
    assert capsys.readouterr().out.count(f"not read here: {missing}") == 1
    assert main(["resume", name, *runs]) == ConfigError.exit_code
    assert missing in capsys.readouterr().err
    assert main(["pause", name, *runs]) == 0, capsys.readouterr().err
    assert f"{name}: paused" in capsys.readouterr().out
    with on_path(tmp_path / "lib"):
        view = open_view(name, tmp_path / "runs")
        assert (view.state.status, view.unread_faults) == (PAUSED, ())
        assert spec_hash(view.study) == spec_hash(study), "what is missing here is kept"
        assert drive(study, FakeExecutor(teaching=teaching)).status == FINISHED
