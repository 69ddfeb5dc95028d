"""What a match decides, what is learned of intervals, and the records that it is decided from."""

import json
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from study_files import BASE
from test_population_study import population_study

from hpsearch import yaml_file
from hpsearch.cluster.records import Exploit
from hpsearch.cluster.study_dir import MatchGames
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.population.options import Matches
from hpsearch.study.breeding import lineage
from hpsearch.study.breeding.generation import Judge, MatchRoster, PlayedMatch
from hpsearch.study.breeding.lineage import improvements
from hpsearch.study.records import (
    COMPLETE,
    FAIL,
    Ended,
    Match,
    PlannedTrial,
    PopulationRecord,
    Trial,
    key_after,
)
from hpsearch.study.trials import Trials
from hpsearch.trainers.config import read_config

PARAMS = {"host.optim.args.lr": 1e-2, "host.gamma": 0.9}


def origin(member, generation=0, parents=(), *, is_child=False, steps=8, key=""):
    operator = {"name": "clone" if parents else "fresh"}
    before = tuple(steps - 8 for _ in parents)
    return PlannedTrial(
        key, member, generation, tuple(parents), before, operator, is_child, dict(PARAMS), steps
    )


def trial(number, member, generation=0, parents=(), lr=1e-2, steps=8):
    params = {"host.optim.args.lr": lr, "host.gamma": 0.9}
    return Trial(
        number, params, origin=origin(member, generation, parents, steps=steps), told="finished"
    )


@pytest.fixture
def judge(tmp_path):
    return judge_of(population_study(tmp_path))


def judge_of(study):
    trials = object.__new__(Trials)  # what it knows of configurations needs no database
    trials._study, trials._configs, trials._shapes = study, {}, {}
    return Judge(study, study.spec.population, trials)


def decided(judge, trials, lengths, ended=None, population=None, match=None):
    """Return what a match of hosts decides in which all their games take these lengths."""
    return judge.decide(judged(trials, lengths, ended, population, match))


def judged(trials, lengths, ended=None, population=None, match=None):
    """Return what a match of hosts is judged by in which all their games take these lengths."""
    who = {trial.origin.member: trial.number for trial in trials}
    match = match or Match(1, who, tuple(who if ended is None else ended), ())
    roster = MatchRoster(tuple(trials), (), ("host",), Matches())
    rows = np.array([*lengths, 20, 20])[:, None, None].repeat(3, axis=1).repeat(16, axis=2)
    games = MatchGames(np.stack([rows, rows]), np.stack([rows, rows]) > 0)
    known = {trial.number: trial for trial in trials}
    population = population or PopulationRecord(newest=who)
    return PlayedMatch(match, roster, games, known, population)


def test_the_strongest_is_champion_and_the_weakest_becomes_its_child(judge):
    trials = [trial(number, member=number) for number in range(4)]
    decision = decided(judge, trials, [10, 8, 20, 12])
    assert (decision["match"], decision["champion"]) == (1, 1)
    expected = {str(n): -np.log(length) for n, length in enumerate([10, 8, 20, 12])}
    assert decision["strengths"] == pytest.approx(expected)
    assert decision["intervals"]["2"] == pytest.approx([-np.log(20)] * 2)
    children = [PlannedTrial.of(child) for child in decision["children"]]
    assert [child.member for child in children] == [0, 1, 2, 3]
    assert [child.parents for child in children] == [(0,), (1,), (1,), (3,)]
    assert [child.is_child for child in children] == [False, False, True, False]
    assert [child.key for child in children] == [f"{n} after {n}" for n in range(4)]
    assert {(child.generation, child.steps, child.parent_steps) for child in children} == {
        (1, 16, (8,))
    }


def test_the_interval_of_a_strength_is_of_what_is_shown(judge):
    """Over both sets of starts, on which the same member may do differently."""
    played = judged([trial(n, n) for n in range(4)], [10, 8, 20, 12])
    naming, confirming = played.games.moves
    games = replace(played.games, moves=np.stack([naming, 2 * confirming]))
    decision = judge.decide(replace(played, games=games))
    for number, ends in decision["intervals"].items():
        assert ends == pytest.approx([decision["strengths"][number]] * 2)


def test_a_decision_is_what_json_holds(judge):
    decision = decided(judge, [trial(n, n) for n in range(4)], [10, 8, 20, 12])
    assert json.loads(json.dumps(decision)) == {
        **decision, "children": json.loads(json.dumps(decision["children"]))
    }  # fmt: skip


def test_a_decision_depends_on_the_games_alone(judge):
    trials = [trial(n, n) for n in range(4)]
    assert decided(judge, trials, [9, 8, 20, 12]) == decided(judge, trials, [9, 8, 20, 12])


def test_a_child_goes_on_from_its_parents_step(judge):
    """Members of any age can take each other's places: only what weights look like counts."""
    trials = [trial(n, n, steps=steps) for n, steps in enumerate((8, 24, 16, 8))]
    children = decided(judge, trials, [10, 8, 20, 12])["children"]
    assert [(child["parents"], child["steps"]) for child in children] == [
        ((0,), 16), ((1,), 32), ((1,), 32), ((3,), 16)
    ]  # fmt: skip


def test_a_lost_members_place_goes_to_a_child(judge):
    trials = [trial(n, n) for n in (0, 2, 3)]
    match = Match(1, {0: 0, 2: 2, 3: 3}, (0, 1, 2, 3), ())
    population = PopulationRecord(newest={0: 0, 1: 1, 2: 2, 3: 3})
    decision = decided(judge, trials, [10, 20, 12], population=population, match=match)
    children = {child["member"]: child for child in decision["children"]}
    assert sorted(children) == [0, 1, 2, 3]
    assert children[1]["is_child"]
    assert children[1]["key"] == "1 after 1"


def test_a_generation_of_the_closing_leaves_the_better_half_as_it_is(tmp_path):
    closing = {"operators": [{"name": "gaussian_mutation", "strength": 0.1}]}
    study = population_study(tmp_path, closing=closing)
    judge, rules = judge_of(study), study.spec.population.closing
    trials = [trial(n, n, steps=8 * (n + 1)) for n in range(4)]
    children = judge.close(rules, judged(trials, [10, 8, 20, 12]))
    assert children == judge.close(rules, judged(trials, [10, 8, 20, 12]))
    assert [child.member for child in children] == [2, 3]
    assert [child.key for child in children] == ["2 after 2, closing", "3 after 3, closing"]
    for child in children:
        assert child.parents[0] in (0, 1)
        assert child.steps == child.first_step == 8 * (child.parents[0] + 1)
        assert not child.trains
    assert not judge.close(rules, judged(trials, [10] * 4))


@pytest.mark.parametrize("roles", [("host",), ("agent",), ("host", "agent")])
def test_who_plays_stands_where_the_plan_has_them(roles):
    """Members, then past champions, of the roles that are learned; scripted players come last."""
    members, archive = (trial(7, 0), trial(4, 1)), (trial(2, 0), trial(1, 1))
    roster = MatchRoster(members, archive, roles, Matches(best_response=8))
    config = read_config(yaml_file.load(BASE), source="")
    plan = roster.plan(Match(3, {}, (), ()), config, 5, champion=archive[0])
    standing = roster.standing(np.ones(2))
    for role, players in (("host", plan.hosts), ("agent", plan.agents)):
        learned = [getattr(place, role) for place in (*standing.members, *standing.archive)]
        if role in roles:
            assert [players[place].name for place in learned] == ["7", "4", "2", "1"]
        else:
            assert learned == [None] * 4
        panel = players[getattr(standing.panel, role) :]
        assert panel
        assert all(player.checkpoint is None for player in panel)
        assert sum(player.checkpoint is None for player in players) == len(panel)
    assert [response.role for response in plan.responses] == list(roles)
    assert {(response.trial, response.seed) for response in plan.responses} == {(2, 50_003)}
    assert not roster.plan(Match(3, {}, (), ()), config, 5, champion=None).responses


# History.


def lived(*generations):
    """Return strengths by match and trials, of (parent, strength) by match and place."""
    strengths, known, number = {}, {}, 0
    for match, places in enumerate(generations, 1):
        strengths[match] = {}
        for place, (parent, strength) in enumerate(places):
            parents = () if parent is None else (parent,)
            known[number] = trial(number, place, match - 1, parents, lr=10.0 ** -(number + 1))
            strengths[match][number] = strength
            number += 1
    return strengths, known


def test_gains_are_measured_against_the_generations_mean():
    first, second = [(None, 1.0), (None, 2.0)], [(1, 5.0), (1, 2.5)]
    gains = improvements(*lived(first, second))
    assert [(gain.generation, gain.change) for gain in gains] == [(2, 1.25), (2, -1.25)]
    assert [gain.values["host.optim.args.lr"] for gain in gains] == pytest.approx([1e-3, 1e-4])


def test_a_match_that_is_stronger_as_a_whole_teaches_nothing():
    first = [(None, 1.0), (None, 2.0)]
    for level in (-7.0, 0.0, 7.0):
        gains = improvements(*lived(first, [(0, level + 1.5), (1, level + 2.0)]))
        assert [gain.change for gain in gains] == pytest.approx([0.25, -0.25])


def test_a_trial_counts_once_and_by_the_match_that_planned_it():
    """A member that was late plays as it was in match 2, and as it became in match 3."""
    known = {
        0: trial(0, 0), 1: trial(1, 1),
        2: trial(2, 0, 1, (0,)), 3: trial(3, 1, 1, (1,)), 4: trial(4, 0, 2, (2,)),
    }  # fmt: skip
    strengths = {1: {0: 1.0, 1: 2.0}, 2: {2: 3.0, 1: 2.0}, 3: {4: 4.0, 3: 6.0}}
    gains = improvements(strengths, known)
    # In match 3: trial 4 since match 2 gained 1 and 3 (then 1) gained 4; since match 1, 3 and 4.
    assert [(gain.generation, gain.change) for gain in gains] == [
        (3, 1.0 - 2.5), (3, 4.0 - 3.5), (2, 2.0 - 1.0)
    ]  # fmt: skip


def test_an_interval_counts_by_the_first_match_that_judged_it():
    """Trial 2 plays on in match 3, where it is stronger for others' sake."""
    known = {0: trial(0, 0), 1: trial(1, 1), 2: trial(2, 0, 1, (0,))}
    strengths = {1: {0: 1.0, 1: 2.0}, 2: {2: 3.0, 1: 2.0}, 3: {2: 9.0, 1: 2.0}}
    (gain,) = improvements(strengths, known)
    assert (gain.generation, gain.change) == (2, 2.0 - (2.0 + 0.0) / 2)


def test_single_members_are_measured_against_those_that_stood_still():
    """As in a steady population: match 2 judges one child, and all look weaker by 1."""
    known = {n: trial(n, n) for n in range(4)} | {4: trial(4, 0, 1, (0,))}
    strengths = {1: dict.fromkeys(range(4), 1.0), 2: {4: 2.0, 1: 0.0, 2: 0.0, 3: 0.0}}
    (gain,) = improvements(strengths, known)
    assert gain.change == pytest.approx(1.0 - (1.0 - 3.0) / 4)


def test_nothing_is_learned_of_who_did_not_train():
    first = [(None, 1.0), (None, 2.0)]
    strengths, known = lived(first, [(0, 1.5), (1, 2.0), (1, 9.0)])
    child = known[4].origin
    known[4] = replace(known[4], origin=replace(child, parent_steps=(child.steps,)))
    rates = {gain.values["host.optim.args.lr"] for gain in improvements(strengths, known)}
    assert rates == {10.0**-3, 10.0**-4}


def test_nothing_is_learned_of_what_became_a_copy():
    """It is as strong as the other by that, and not by what its own parent learned."""
    first = [(None, 1.0), (None, 2.0), (None, 4.0)]
    strengths, known = lived(first, [(0, 6.0), (1, 5.0), (2, 6.0)])
    copied = Exploit(step=12, source=5, source_step=12, sha256="", changes={}, params=PARAMS)
    known[3] = replace(known[3], takeovers=(copied,))
    gains = {
        gain.values["host.optim.args.lr"]: gain.change for gain in improvements(strengths, known)
    }
    assert gains == pytest.approx({10.0**-5: 3.0 - 2.5, 10.0**-6: 2.0 - 2.5})


def test_only_the_newest_intervals_are_learned_from(monkeypatch):
    monkeypatch.setattr(lineage, "MAX_INTERVALS", 3)
    first = [(None, 0.0), (None, 0.0)]
    gains = improvements(*lived(first, [(0, 1.0), (1, 0.0)], [(2, 1.0), (3, 3.0)]))
    assert [gain.generation for gain in gains] == [3, 3, 2]


# Records.


def test_the_archive_holds_each_champion_once_the_latest_last():
    for champions in product((None, 1, 2, 3), repeat=4):
        population = PopulationRecord()
        for number, champion in enumerate(champions, 1):
            population.matches[number] = Match(number, {}, (), ())
            nothing = {"children": [], "strengths": {}, "intervals": {}, "game": {}, "answers": []}
            if champion is not None:
                population.bred({"match": number, "champion": champion, **nothing})
        expected = []
        for champion in champions:
            if champion is not None:
                expected = [*(former for former in expected if former != champion), champion]
        assert population.archive == expected


def test_no_two_trials_have_one_key():
    population, keys = PopulationRecord(), set()
    for number in range(12):
        planned = origin(number % 3, key=key_after(number % 3, population))
        assert planned.key not in keys
        keys.add(planned.key)
        population.asked(number, planned)


def test_an_ended_interval_is_open_until_a_match_is_called():
    population = PopulationRecord()
    for member in range(3):
        population.asked(member, origin(member))
    for member, at in ((0, 40.0), (1, 50.0)):
        ended = Ended(at / 2, at)
        how = FAIL if member else COMPLETE
        population.told(Trial(member, {}, told=how, origin=origin(member)), ended, None)
    assert population.open == {0: Ended(20.0, 40.0), 1: Ended(25.0, 50.0)}
    assert population.finished == {0: 0}
    data = {"match": 1, "members": {"0": 0}, "ended": [0, 1], "archive": []}
    population.called(data, {2})
    assert (population.open, population.late) == ({}, {2})
    last = Trial(2, {}, told=COMPLETE, origin=origin(2))
    population.told(last, Ended(1.0, 90.0), None)
    assert (population.open, population.late) == ({2: Ended(1.0, 90.0)}, set())


def test_children_that_were_tried_count_for_their_operator():
    """Of a copy, which is adopted untried, nothing is learned."""
    population = PopulationRecord()
    birth = {"operator": "gaussian_mutation", "adopted": False}
    for number, chance in enumerate((0.9, None, 0.3)):
        planned = origin(number, is_child=True)
        population.asked(number, planned)
        told = birth | {"adopted": number > 0, "chance": chance}
        trial = Trial(number, {}, told=COMPLETE, origin=planned)
        population.told(trial, Ended(0.0, 0.0), told)
    assert population.operators == {"gaussian_mutation": OperatorRecord(2, 1)}
