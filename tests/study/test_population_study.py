"""A population over a fake executor: generations, failures, deaths, and what they leave."""

import math
from collections import Counter

import pytest
from drives import (
    Clock,
    check_books,
    deaths_at_all_events,
    drive,
    new_study,
    opened,
    schedule,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor, Fault

from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.study.state import FAILED, FINISHED, RUNNING

POPULATION = {
    "members": 4,
    "interval": 8,
    "generations": {"name": "synchronous", "quorum": 0.75, "minutes": 10},
    "matches": {"num_games": 64, "num_samples": 100, "archive": 2},
}


def teaching(config, first):
    """An interval teaches the more, the nearer its learning rate is to 0.01."""
    return 0.2 - 0.05 * abs(math.log10(config.host.optim.args.lr) + 2)


def population_study(folder, trials=16, executor=None, study=None, **changes):
    """Return a study whose population block has ``changes``, and its file those of ``study``."""
    given = {"population": POPULATION | changes, "budget": {"trials": trials}}
    given["executor"] = executor or {"name": "local", "jobs": 2, "members_per_job": 2}
    return new_study(folder, sampler={"name": "random"}, **given, **(study or {}))


def origins(study):
    """Return what planned each trial, by number."""
    return {trial: data["origin"] for _, trial, _, data in stored_events(study, "asked")}


def champions(study):
    """Return the champion of each match."""
    return [data["champion"] for *_, data in stored_events(study, "bred") if data["match"]]


def skill(trials, origins, trial):
    """Return a trial's skill, without the code that plays: what its ancestors were taught."""
    lr = trials[trial].params["host.optim.args.lr"]
    taught = 0.2 - 0.05 * abs(math.log10(lr) + 2)
    parents = origins[trial]["parents"]
    return taught + (skill(trials, origins, parents[0]) if parents else 0.0)


@pytest.mark.slow
def test_a_population_goes_through_generations(tmp_path):
    study, executor = population_study(tmp_path), FakeExecutor(teaching=teaching)
    state = drive(study, executor)
    assert state.status == FINISHED
    check_books(study, executor)
    born = origins(study)
    assert Counter(origin["generation"] for origin in born.values()) == {0: 4, 1: 4, 2: 4, 3: 4}
    assert [origin["member"] for origin in born.values()] == [0, 1, 2, 3] * 4
    for trial, origin in born.items():
        assert origin["steps"] == 8 * (origin["generation"] + 1)
        assert all(born[p]["generation"] == origin["generation"] - 1 for p in origin["parents"])
        lineage = StudyDir(tmp_path / "runs" / "quick").trial(trial).lineage.required()
        assert [parent.trial for parent in lineage.parents] == origin["parents"]
    named, trials = champions(study), stored_trials(study)
    assert len(named) == 4
    for generation, champion in enumerate(named):
        rivals = [t for t, origin in born.items() if origin["generation"] == generation]
        assert champion == max(rivals, key=lambda trial: skill(trials, born, trial))


def test_the_champion_at_the_end_was_played_against(tmp_path):
    matches = POPULATION["matches"] | {"best_response": 8}
    study, executor = population_study(tmp_path, matches=matches), FakeExecutor(teaching=teaching)
    assert drive(study, executor).status == FINISHED
    named = champions(study)
    assert len(named) > 4  # a generation each, and at least one for the last champion
    assert named[-1] in named[:-1]
    for number in range(4, len(named)):  # none more than that
        assert named[number - 1] not in named[: number - 1]
    folder = StudyDir(tmp_path / "runs" / "quick")
    for number, before in enumerate([None, *named[:-1]], start=1):
        answered = {response.trial for response in folder.match(number).plan.required().responses}
        assert answered == ({before} if before is not None else set())
    assert len(origins(study)) == 16


def test_a_study_whose_last_champion_cannot_be_played_against_has_finished(tmp_path):
    matches = POPULATION["matches"] | {"best_response": 8}
    study = population_study(tmp_path, matches=matches)
    executor = FakeExecutor(teaching=teaching, lost_matches=range(5, 20))
    assert drive(study, executor).status == FINISHED
    assert executor.matches_begun == 7
    named = champions(study)
    assert len(named) == 5
    assert named[4] == named[3]


def test_the_worst_give_way_to_changed_copies_of_the_best(tmp_path):
    study = population_study(tmp_path)
    drive(study, FakeExecutor(teaching=teaching))
    born, trials = origins(study), stored_trials(study)
    children = {trial: origin for trial, origin in born.items() if origin["is_child"]}
    assert children
    for trial, origin in born.items():
        if origin["generation"] == 0:
            continue
        (parent,) = origin["parents"]
        before = [
            number
            for number, other in born.items()
            if other["generation"] == origin["generation"] - 1
        ]
        ranked = sorted(before, key=lambda number: skill(trials, born, number))
        own = next(number for number in before if born[number]["member"] == origin["member"])
        if origin["is_child"]:
            assert (own, parent) == (ranked[0], ranked[-1])
            assert trials[trial].params != trials[parent].params
        else:
            assert parent == own
            assert trials[trial].params == trials[parent].params


@pytest.mark.slow
def test_a_driver_that_dies_anywhere_breeds_the_same(tmp_path):
    matches = POPULATION["matches"] | {"best_response": 8}
    whole = population_study(tmp_path / "whole", trials=8, matches=matches)
    drive(whole, FakeExecutor(teaching=teaching))
    broken = population_study(tmp_path / "broken", trials=8, matches=matches)
    with deaths_at_all_events() as died:
        drive(broken, FakeExecutor(teaching=teaching), max_lives=500)
    assert {"match_called", "bred", "asked", "announced"} <= set(died)
    assert schedule(broken) == schedule(whole)
    assert origins(broken) == origins(whole)
    assert champions(broken) == champions(whole)


def test_jobs_of_matches_have_ranks_too(tmp_path):
    study, executor = population_study(tmp_path, trials=8), FakeExecutor(teaching=teaching)
    executor.ranks = 2
    drive(study, executor)
    folders = StudyDir(tmp_path / "runs" / "quick").jobs.iterdir()
    plans = [JobDir(folder).plan.required() for folder in folders]
    assert {plan.match for plan in plans} == {None, 1, 2}
    assert {plan.ranks for plan in plans} == {2}


def test_a_match_that_was_lost_is_played_again(tmp_path):
    study = population_study(tmp_path, trials=8)
    executor = FakeExecutor(teaching=teaching, lost_matches=(1, 2, 4))
    assert drive(study, executor).status == FINISHED
    assert executor.matches_begun == 5
    whole = population_study(tmp_path / "whole", trials=8)
    drive(whole, FakeExecutor(teaching=teaching))
    assert origins(study) == origins(whole)


def test_a_match_that_is_always_lost_ends_the_study(tmp_path):
    study = population_study(tmp_path)
    executor = FakeExecutor(teaching=teaching, lost_matches=range(1, 100))
    state = drive(study, executor)
    assert state.status == FAILED
    assert state.message.startswith("match 1 was lost 3 times; its jobs' logs are in")
    assert executor.matches_begun == 3


def test_what_the_job_of_a_lost_match_said_is_told(tmp_path):
    class Talking(FakeExecutor):
        def log(self, job, job_id):
            path = job.root / "fake.log"
            path.write_text(
                "Traceback\nhpsearch.errors.ConflictError: unknown scripted host 'lazy'\n"
            )
            return path

    executor = Talking(teaching=teaching, lost_matches=range(1, 100))
    message = drive(population_study(tmp_path), executor).message
    said = "was lost 3 times, and said: unknown scripted host 'lazy'; its jobs"
    assert said in message


def test_a_member_that_fails_gives_way(tmp_path):
    study = population_study(tmp_path, trials=12)
    executor = FakeExecutor(
        teaching=teaching, faults={(2, 1): Fault("nan", 4), (5, 1): Fault("nan", 12)}
    )
    assert drive(study, executor).status == FINISHED
    check_books(study, executor)
    born = origins(study)
    assert born[6]["member"] == 2  # had nothing to go on from
    assert born[6]["is_child"]
    assert born[6]["parents"][0] in (0, 1, 3)
    # Member 1 was judged, and went on or gave way, as what it was before.
    *_, second, _ = stored_events(study, "match_called")
    assert second[3]["members"]["1"] == 1
    assert all(5 not in origin["parents"] for origin in born.values())


def test_a_lost_job_does_not_stall_a_generation(tmp_path):
    study = population_study(
        tmp_path, trials=16, executor={"name": "local", "jobs": 4, "members_per_job": 1}
    )
    clock, executor = Clock(), FakeExecutor(teaching=teaching)
    slow = "00002"
    advance = executor._round
    executor._round = lambda job: None if job.job.name == slow else advance(job)
    with opened(study, executor, clock) as driver:
        for _ in range(20):
            driver.tick()
        assert not stored_events(study, "match_called")
        clock.now += 601
        driver.tick()
        ((*_, called),) = stored_events(study, "match_called")
        assert called["ended"] == [0, 2, 3]
        tick_until(driver, lambda: len(driver.state.population.matches) == 2)
        executor._round = advance
        state = tick_until(driver, lambda: driver.state.status != RUNNING)
    assert state.status == FINISHED
    late = stored_events(study, "match_called")
    assert any(1 in data["ended"] for *_, data in late)
    assert len(origins(study)) == 16


def test_a_steady_population_never_waits(tmp_path):
    study = population_study(
        tmp_path,
        trials=20,
        executor={"name": "local", "jobs": 5, "members_per_job": 1},
        generations={"name": "steady"},
    )
    executor = FakeExecutor(teaching=teaching)
    assert drive(study, executor).status == FINISHED
    check_books(study, executor)
    born = origins(study)
    assert len(born) == 20
    for trial, origin in born.items():
        if origin["parents"]:
            assert origin["steps"] == born[origin["parents"][0]]["steps"] + 8, trial


@pytest.mark.parametrize(
    "selection",
    [
        {"name": "tournament", "size": 2, "elites": 1},
        {"name": "pareto", "objectives": ["strength", "robustness", "size", "novelty"]},
    ],
)
@pytest.mark.parametrize("explore", [{"name": "model"}, {"name": "keep"}])
def test_other_rules(tmp_path, selection, explore):
    operators = [{"name": "clone"}, {"name": "gaussian_mutation", "strength": 0.1}]
    operators += [{"name": "aligned_average", "share": 0.5}]
    study = population_study(tmp_path, selection=selection, explore=explore, operators=operators)
    assert drive(study, FakeExecutor(teaching=teaching)).status == FINISHED
    names = {origin["operator"]["name"] for origin in origins(study).values()}
    assert names <= {"fresh", "clone", "gaussian_mutation", "aligned_average"}


PILOTS = {"name": "local", "jobs": 2, "members_per_job": 2, "pilot": True}


def test_pilots_train_all_generations_and_play_all_matches(tmp_path):
    study = population_study(tmp_path, trials=8, executor=PILOTS)
    executor = FakeExecutor(teaching=teaching, pilot_seconds=30.0)
    assert drive(study, executor).status == FINISHED
    check_books(study, executor)
    assert executor.submitted == ["00001", "00002"]
    assert executor.matches_begun == 2


@pytest.mark.slow
def test_a_driver_with_pilots_that_dies_anywhere_breeds_the_same(tmp_path):
    """As a driver does that never dies, whose jobs are no pilots."""
    whole = population_study(tmp_path / "whole", trials=8)
    drive(whole, FakeExecutor(teaching=teaching))
    broken = population_study(tmp_path / "broken", trials=8, executor=PILOTS)
    executor = FakeExecutor(teaching=teaching, pilot_seconds=30.0)
    with deaths_at_all_events():
        drive(broken, executor, max_lives=500)
    check_books(broken, executor)
    assert origins(broken) == origins(whole)
