"""hpsearch replay over a fake executor: what it trains, goes on with, refuses and says."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
from drives import (
    SPACE,
    deaths_at_all_events,
    deaths_at_events,
    drive,
    new_study,
    stored_trials,
)
from fakes import FakeExecutor, Fault
from study_files import load
from test_population_study import POPULATION, origins, population_study, teaching

from hpsearch import yaml_file
from hpsearch.analysis import replay as report
from hpsearch.analysis.replay import expected_of
from hpsearch.api import driving
from hpsearch.cli import main
from hpsearch.errors import ConfigError
from hpsearch.study.derived import HELD_OUT
from hpsearch.study.spec import SEEDS_PER_STUDY, load_spec
from hpsearch.study.view import open_view

LR, GAMMA = "host.optim.args.lr", "host.gamma"


class Place:
    """A folder with a population that has ended, in which commands run over fake jobs."""

    def __init__(self, folder, monkeypatch, capsys):
        self.folder, self.runs = folder, folder / "runs"
        self._patch, self._capsys = monkeypatch, capsys
        self.strengths = lambda names: [0.1 * number for number in range(len(names))]
        monkeypatch.setattr(driving, "poll_seconds", lambda study: 0.0)
        monkeypatch.setattr(report, "last_checkpoints", self._checkpoints)
        monkeypatch.setattr(report, "meet", self._meet)
        self.jobs()

    def jobs(self, **how):
        made = FakeExecutor(teaching=teaching, **how)
        self._patch.setattr(driving, "build_executor", lambda study, folder: made)

    def _checkpoints(self, view, trials):
        return {number: view.folder.trial(number).checkpoints for number in trials}

    def _meet(self, paths, matches, num_games, device):
        return self.strengths(list(paths)), np.zeros((1, len(paths)))

    def run(self, *arguments, code=0):
        done = main([*map(str, arguments), "--runs", str(self.runs)])
        output = self._capsys.readouterr()
        assert done == code, output.err
        return output

    def replay(self, *arguments, code=0):
        return self.run("replay", "quick", *arguments, code=code)

    def champion(self):
        return open_view("quick", self.runs).state.population.archive[-1]

    def plain(self, trial=None):
        number = self.champion() if trial is None else trial
        return json.loads((self.runs / "quick" / f"replay-{number}.json").read_text())

    def view(self, trial=None):
        number = self.champion() if trial is None else trial
        return open_view(f"quick-replay-{number}", self.runs)


@pytest.fixture
def place(tmp_path, monkeypatch, capsys):
    return Place(tmp_path, monkeypatch, capsys)


@pytest.fixture(scope="module")
def bred_once(tmp_path_factory):
    """A population of four that has bred for three generations, and a copy of its folder."""
    folder = tmp_path_factory.mktemp("bred")
    study = bred_in(folder / "study")
    shutil.copytree(folder / "study", folder / "copy")
    return study, folder


@pytest.fixture
def bred(bred_once, monkeypatch, capsys):
    """This population, untouched, and the place where commands run over it."""
    study, folder = bred_once
    shutil.rmtree(folder / "study")
    shutil.copytree(folder / "copy", folder / "study")
    return study, Place(folder / "study", monkeypatch, capsys)


def bred_in(folder, **how):
    """Return a population of four that has bred for three generations."""
    study = population_study(folder, trials=12, **how)
    drive(study, FakeExecutor(teaching=teaching))
    return study


def line(study, trial):
    born = origins(study)
    numbers = [trial]
    while born[numbers[0]]["parents"]:
        numbers.insert(0, born[numbers[0]]["parents"][0])
    return numbers


def test_every_seed_learns_by_the_values_of_the_line(bred):
    study, place = bred
    trial, trials = place.champion(), stored_trials(study)
    wanted = [trials[number].params for number in line(study, trial)]
    output = place.replay("--seeds", 3)
    assert len(wanted) == 3
    view = place.view()
    learned_by = {}
    for repeated in view.state.trials.values():
        learned_by.setdefault(repeated.origin.member, []).append(repeated.params)
    assert learned_by == dict.fromkeys(range(3), wanted)
    held_out = {view.config(trial)["seed"] for trial in view.state.trials.values()}
    assert len(held_out) == 9
    assert min(held_out) >= HELD_OUT * SEEDS_PER_STUDY
    spec = view.study.spec
    assert (spec.population.interval, spec.population.members) == (8, 3)
    assert spec.population.generations.quorum == 1.0
    assert spec.population.matches == study.spec.population.matches
    assert view.study.bases == study.bases
    plain = place.plain()
    assert (plain["trial"], plain["intervals"], plain["unfinished"]) == (trial, 3, 0)
    assert sorted(replicate["trial"] for replicate in plain["replicates"]) == [6, 7, 8]
    assert json.loads(place.run("gc", "quick", "--dry-run", "--json").out)["pinned"] == {
        f"quick-replay-{trial}": 1
    }
    assert output.out.rstrip().splitlines()[-1] == plain["conclusion"]


@pytest.mark.slow
def test_of_a_champion_of_the_closing_the_last_ancestor_that_trained_is_replayed(place):
    closing = {"operators": [{"name": "gaussian_mutation", "strength": 0.1}]}
    study = bred_in(place.folder, closing=closing)
    born, champion = origins(study), place.champion()
    trained = [
        number
        for number in line(study, champion)
        if born[number]["steps"] not in born[number]["parent_steps"]
    ]
    assert champion not in trained  # the fake teaches at birth too
    output = place.replay("--seeds", 2)
    assert f"trial {champion} was created in the closing, without training" in output.err
    assert f"its last trained ancestor, trial {trained[-1]}" in output.err
    plain = place.plain(trained[-1])
    assert (plain["trial"], plain["intervals"]) == (trained[-1], 3)
    assert "untrained" in place.run("lineage", "quick").out


def test_what_lies_above_the_interval_was_lucky(bred):
    _, place = bred
    place.strengths = lambda names: [5.0, 0.1, 0.2, 0.3, 0.15]
    output = place.replay("--seeds", 4)
    assert f"trial {place.champion()} was lucky: its strength is +5.000" in output.out
    plain = place.plain()
    assert (plain["held_up"], plain["original"]["rank"]) == (False, 1)
    assert plain["iqm"] == pytest.approx(0.175)
    assert plain["low"] < plain["mean"] < plain["high"] < plain["expected"]["high"] < 5.0
    place.strengths = lambda names: [0.25, 0.1, 0.2, 0.3, 0.15]
    assert "the schedule holds up" in place.replay().out
    assert (place.plain()["held_up"], place.plain()["original"]["rank"]) == (True, 2)


def test_two_seeds_do_not_say_that_a_schedule_holds_up(bred):
    _, place = bred
    place.strengths = lambda names: [0.25, 0.1, 0.3]
    output = place.replay("--seeds", 2)
    assert "2 seeds are too few to tell whether the schedule holds up" in output.out
    assert "4 or more tell" in output.out


def test_the_interval_of_one_more_seed_holds_it_as_often_as_it_says():
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(300):
        *scores, next_score = rng.normal(size=5).tolist()
        low, high = expected_of(scores)
        inside += low <= next_score <= high
    assert 0.91 <= inside / 300 <= 0.985
    assert expected_of([1.0]) is None


def test_the_same_command_goes_on(bred):
    _, place = bred
    seen = []

    def interrupt(config, step):
        seen.append(step)
        if len(seen) == 6:
            os.kill(os.getpid(), signal.SIGINT)
        return 0.1

    place.jobs(curve=interrupt)
    output = place.replay("--seeds", 2, "--games", 77, code=130)
    again = f"hpsearch replay quick --trial {place.champion()} --runs {place.runs} --games 77"
    assert f"interrupted; go on with: {again}\n" in output.err
    place.jobs()
    output = place.replay("--json")
    assert json.loads(output.out) == place.plain()
    assert len(place.view().state.trials) == 6
    place.replay()
    assert len(place.view().state.trials) == 6
    output = place.replay("--seeds", 3, code=4)
    assert "trains 2 seeds and cannot change to 3; leave out --seeds" in output.err


def replayed(folder, **changes):
    """Return a study of a schedule, which a killed driver may drive."""
    population = (
        POPULATION
        | changes
        | {
            "members": 3,
            "selection": {"name": "none"},
            "explore": {
                "name": "schedule",
                "intervals": [
                    {LR: 0.01, GAMMA: 0.9},
                    {LR: 0.001, GAMMA: 0.8},
                    {LR: 0.01, GAMMA: 0.7},
                ],
            },
        }
    )
    executor = {"name": "local", "jobs": 2, "members_per_job": 2}
    return new_study(folder, population=population, budget={"trials": 9}, executor=executor)


@pytest.mark.slow
def test_a_driver_that_dies_anywhere_trains_the_same(tmp_path):
    whole, broken = replayed(tmp_path / "whole"), replayed(tmp_path / "broken")
    drive(whole, FakeExecutor(teaching=teaching))
    with deaths_at_all_events():
        drive(broken, FakeExecutor(teaching=teaching), max_lives=500)
    assert origins(broken) == origins(whole)


def test_a_steady_population_follows_its_schedule_member_by_member(tmp_path):
    study = replayed(tmp_path, generations={"name": "steady"})
    drive(study, FakeExecutor(teaching=teaching))
    rates = {}
    for origin in origins(study).values():
        rates.setdefault(origin["member"], []).append(origin["params"][GAMMA])
    for gammas in rates.values():  # the first one through it goes on with the last values
        assert gammas == [0.9, 0.8, 0.7, 0.7, 0.7, 0.7][: len(gammas)]


def test_a_lost_interval_is_trained_again_and_a_lost_member_begins_anew(tmp_path):
    study = replayed(tmp_path)
    faults = {(1, 1): Fault("nan", 4), (3, 1): Fault("nan", 12)}
    with deaths_at_events(before=[9], after=[21]):
        drive(study, FakeExecutor(teaching=teaching, faults=faults), max_lives=3)
    born = origins(study)
    anew = [t for t, origin in born.items() if origin["generation"] and not origin["parents"]]
    assert [born[trial]["member"] for trial in anew] == [1]
    lost = born[3]["member"]
    rates = [origin["params"][LR] for origin in born.values() if origin["member"] == lost]
    assert rates == [0.01, 0.001, 0.001]
    assert all(len({born[p]["member"] for p in origin["parents"]} - {origin["member"]}) == 0
               for origin in born.values())  # fmt: skip


def test_a_seed_that_did_not_get_through_is_told(bred):
    _, place = bred
    place.jobs(faults={(1, 1): Fault("nan", 4)})
    output = place.replay("--seeds", 3)
    assert (place.plain()["unfinished"], len(place.plain()["replicates"])) == (1, 2)
    assert "1 did not get through" in output.out


def test_one_seed_that_got_through_tells_nothing(bred):
    _, place = bred
    place.jobs(faults={(1, 1): Fault("nan", 4)})
    assert "one training tells nothing" in place.replay("--seeds", 2).out
    assert (place.plain()["held_up"], place.plain()["low"]) == (None, None)


def test_changed_weights_are_no_part_of_it(place):
    operators = [{"name": "gaussian_mutation", "strength": 0.1}]
    study = bred_in(place.folder, operators=operators)
    made = origins(study)
    mutants = [t for t, origin in made.items() if origin["operator"]["name"] == "gaussian_mutation"]
    steps = len(line(study, mutants[0]))  # before the replay, which writes to the same tables
    output = place.replay("--seeds", 2, "--trial", mutants[0])
    assert f"in 1 of the {steps} intervals that led to trial {mutants[0]} an operator" in output.err
    assert place.plain(mutants[0])["mixed"] == 1


def test_networks_that_grew_are_no_part_of_a_schedule(place):
    arches = {"type": "categorical", "choices": [[8], [16]]}
    space = {"space": SPACE | {"host.net_arch": arches}}
    study = bred_in(place.folder, study=space, operators=[{"name": "grow", "noise": 0.1}])
    made = origins(study)
    grown = next(trial for trial, origin in made.items() if origin["operator"]["name"] == "grow")
    output = place.replay("--trial", grown, code=2)
    assert f"networks grew on the line that led to trial {grown} of quick, in trial {grown}" in (
        output.err
    )
    assert not list(place.runs.glob("quick-replay*"))
    place.replay("--trial", made[grown]["parents"][0], "--seeds", 2)


def test_a_founder_is_no_part_of_a_schedule(bred):
    study, place = bred
    step = place.runs / "quick/trials/8/checkpoints/step-000000024"
    config = yaml_file.load(study.path.parent / study.spec.base)
    (step / "state.json").write_text(json.dumps({"config": config}))
    data = yaml_file.load(study.path)
    data["name"] = "heirs"
    data["population"]["founders"] = [str(step)]
    (place.folder / "heirs.yaml").write_text(yaml_file.dump(data))
    heirs = load_spec(place.folder / "heirs.yaml")
    drive(heirs, FakeExecutor(teaching=teaching))
    output = place.run("replay", "heirs", code=2)
    assert f"descends from a founder, {step}; what that one had learned is no part" in output.err
    assert not list(place.runs.glob("heirs-replay*"))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("--trial", "99"), "no trial 99 of the population has finished"),
        (("--seeds", "1"), "one seed tells nothing of the spread"),
    ],
)
def test_wrong_requests_are_refused(bred, options, sentence):
    _, place = bred
    assert sentence in place.replay(*options, code=2).err
    assert not list(place.runs.glob("quick-replay*"))


def test_what_is_no_population_or_has_no_champion(place):
    assert "no study 'quick'" in place.replay(code=2).err
    drive(new_study(place.folder, budget={"trials": 2}), FakeExecutor())
    assert "is no population" in place.replay(code=2).err


def test_a_folder_of_another_study_is_left_alone(bred):
    study, place = bred
    folder = place.runs / f"quick-replay-{place.champion()}"
    folder.mkdir()
    (folder / "study.yaml").write_text(study.path.read_text().replace("base.yaml", str(
        study.path.parent / "base.yaml")))  # fmt: skip
    assert "belongs to a study that is no replay" in place.replay(code=4).err


NET_ARCH = {"type": "categorical", "choices": [[8], [16]]}


@pytest.mark.parametrize(
    ("intervals", "faults"),
    [
        ([{LR: 0.01, "host.net_arch": [8]}, {LR: 0.001, "host.net_arch": [8]}], []),
        (
            [{LR: 9.0, "host.net_arch": [8]}, {LR: 0.001, "host.net_arch": [16]}],
            [
                f"population.explore.intervals[0].{LR} must lie in",
                "population.explore.intervals[1].host.net_arch must be [8] as in the first",
            ],
        ),
        (
            [{LR: 0.01, "host.net_arch": [9], "host.lr": 1}],
            [
                "population.explore.intervals[0].host.net_arch is an unknown choice",
                "population.explore.intervals[0] names an unknown parameter 'host.lr'",
            ],
        ),
        ([{LR: 0.01}], ["population.explore.intervals[0] lacks host.net_arch"]),
    ],
)
def test_a_schedule_is_checked_when_the_file_is_read(tmp_path, intervals, faults):
    lr = {"type": "float", "low": 1e-5, "high": 1e-1, "log": True}
    explore = {"name": "schedule", "intervals": intervals}
    population = {"members": 2, "interval": 500, "selection": {"name": "none"}, "explore": explore}
    try:
        load(tmp_path, population=population, space={LR: lr, "host.net_arch": NET_ARCH})
        messages = []
    except ConfigError as error:
        messages = list(error.problems)
    assert len(messages) == len(faults), messages
    for problem, start in zip(messages, faults, strict=True):
        assert problem.startswith(start)
