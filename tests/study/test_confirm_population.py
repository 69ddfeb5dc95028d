"""hpsearch confirm of a population: its strongest and its champions meet on starts held out."""

import json
from shutil import rmtree

import numpy as np
import pytest
import torch
from drives import Clock, drive, opened
from fakes import FakeExecutor
from test_population_study import population_study, teaching

from hpsearch.analysis.examination import SPLIT
from hpsearch.analysis.held_out import rerun_last_match
from hpsearch.cli import main
from hpsearch.errors import HpsearchError
from hpsearch.population.crossplay import banks, crossplay, scripted_groups
from hpsearch.population.fitness import opponent_weights
from hpsearch.study.view import open_view
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import threads
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.rollouts import game_config

CPU = torch.device("cpu")
GAMES = 20
TOP = 2


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A finished population of four, over a fake executor; those who may play have checkpoints."""
    folder = tmp_path_factory.mktemp("population")
    study = population_study(folder, trials=12)
    drive(study, FakeExecutor(teaching=teaching))
    runs = folder / "runs"
    view = open_view("quick", runs)
    population = view.state.population
    with threads(1):
        for number in {*population.matches[3].members.values(), *population.archive}:
            config = view.config(view.state.trials[number])
            trainer = build_trainer([read_config(config, source="")])
            trainer.step.fill_(config["steps"])
            checkpoints = view.folder.trial(number).checkpoints
            rmtree(checkpoints)  # those of the fake hold no weights
            trainer.save(checkpoints, 0)
        yield runs


@pytest.fixture(scope="module")
def plain(runs):
    """What the command wrote."""
    arguments = ["confirm", "quick", "--runs", str(runs), "--top", str(TOP), "--games", str(GAMES)]
    assert main(arguments) == 0
    return json.loads((runs / "quick" / "confirmation.json").read_text())


def test_the_strongest_and_the_champions_meet(runs, plain):
    view = open_view("quick", runs)
    population = view.state.population
    strengths = population.matches[3].strengths
    strongest = sorted(strengths, key=lambda trial: -strengths[trial])[:TOP]
    assert {trial["trial"] for trial in plain["trials"]} == {*strongest, *population.archive[-TOP:]}
    assert plain["favourite"] == population.archive[-1]
    assert (plain["match"], plain["metric"], plain["trained_by"]) == (3, "strength", None)
    assert sum(trial["chance"] for trial in plain["trials"]) == pytest.approx(1.0)
    for trial in plain["trials"]:
        assert trial["low"] <= trial["mean"] <= trial["high"]
        if trial["trial"] in strengths:
            assert trial["search"]["value"] == strengths[trial["trial"]]


def test_strengths_are_those_of_the_games(runs, plain):
    """Each host alone against each agent of the panel, from the same starts."""
    view = open_view("quick", runs)
    numbers = [trial["trial"] for trial in plain["trials"]]
    players = {
        str(number): load_player(view.folder.trial(number).root, "host", CPU) for number in numbers
    }
    player = next(iter(players.values()))
    played = crossplay(
        (*banks(players), *scripted_groups(["random", "zeillinger"])),
        scripted_groups(["random", "choose_first", "choose_last"]),
        game_config(player.config),
        num_games=GAMES,
        max_steps=100,
        split=SPLIT,
        device=CPU,
    )
    rho = played.rho()
    weights = opponent_weights(rho, "nash").agents
    for trial in plain["trials"]:
        row = np.log(rho[played.hosts.index(str(trial["trial"]))])
        assert trial["mean"] == pytest.approx(float(row @ weights / weights.sum()), abs=1e-9)


def test_text_says_what_to_export(runs, plain, capsys):
    assert main(["confirm", "quick", "--runs", str(runs), "--games", str(GAMES)]) == 0
    out = capsys.readouterr().out
    assert f"strength on starts held out ({GAMES} games each pair)" in out
    assert f"hpsearch export quick --runs {runs} --trial " in out


@pytest.mark.parametrize("option", [["--submit"], ["--seeds", "3"]])
def test_nothing_is_trained(runs, capsys, option):
    assert main(["confirm", "quick", "--runs", str(runs), *option]) == 2
    assert f"leave out {option[0]}\n" in capsys.readouterr().err


def test_without_a_match_it_says_so(tmp_path):
    study = population_study(tmp_path)
    with opened(study, FakeExecutor(teaching=teaching), Clock()) as driver:
        driver.start()
    view = open_view("quick", tmp_path / "runs")
    with pytest.raises(HpsearchError, match="no match of quick has been judged yet"):
        rerun_last_match(view, study.spec.population, 3, 10)
