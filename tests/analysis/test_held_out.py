"""Held-out values: those of the trainers themselves, whichever are measured together."""

import pytest
import torch
from cli_tools import TRAINER, damage, write_study, write_trainer
from views import METRIC, Story

from hpsearch.analysis.examination import SPLIT
from hpsearch.analysis.held_out import exploited_values, held_out_values
from hpsearch.population.best_response import exploit
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config
from hpsearch.trainers.match import threads

GAMES = 40
NETS = {"host.net_arch": {"type": "categorical", "choices": [[8], [6, 6]]}}
SAMPLED_PANEL = "panel_sampled/host"


@pytest.fixture
def story(tmp_path):
    """A study of two objectives; its space has hosts of two structures."""
    opponents = {"evaluation/opponents": ["choose_first", "choose_last", "random"]}
    write_trainer(tmp_path, opponents)
    goals = [{"metric": metric, "goal": "maximize"} for metric in (METRIC, SAMPLED_PANEL)]
    return Story(write_study(tmp_path, {"space": NETS, "objectives": goals}))


@pytest.fixture
def trials(story):
    """Three trials, each with a checkpoint at its end."""
    with threads(1):
        for number, net in enumerate(("[8]", "[6, 6]", "[8]")):
            story.add("asked", number, params={"host.net_arch": net})
            config = story.view.config(story.view.state.trials[number])
            trainer = build_trainer([read_config(config, source="")])
            trainer.train(3)
            trainer.step.fill_(config["steps"])
            trainer.save(story.view.folder.trial(number).checkpoints, 0)
        yield [story.view.state.trials[number] for number in range(3)]


def test_values_are_those_of_each_trainer_alone(story, trials):
    together = held_out_values(story.view, trials, GAMES)
    for trial in trials:
        config = read_config(story.view.config(trial), source="")
        trainer = build_trainer([config])
        folder = story.view.folder.trial(trial.number).checkpoints
        trainer.load(checkpoint.path_of(folder, config.steps), 0)
        alone = trainer.evaluate_rho(num_games=GAMES, split=SPLIT)[0]
        assert together[trial.number] == {
            name: alone[name].value for name in (METRIC, SAMPLED_PANEL)
        }
    assert SPLIT not in ("evaluation", "final")


def test_what_best_responses_take_is_a_number_a_role(story, trials):
    trial = trials[1]
    steps = TRAINER["steps"]
    path = checkpoint.path_of(story.view.folder.trial(trial.number).checkpoints, steps)
    how = {"num_games": GAMES, "split": SPLIT, "device": torch.device("cpu")}
    exploitability = exploit(path, "host", steps=5, **how)
    values = exploited_values(story.view, trial, GAMES, 5)
    assert values == {"exploitability/host": exploitability.value}


def test_a_lost_checkpoint_is_left_out_by_name(story, trials, capsys):
    steps = TRAINER["steps"]
    path = checkpoint.path_of(story.view.folder.trial(1).checkpoints, steps)
    damage(path / checkpoint.TENSORS)
    assert held_out_values(story.view, trials, GAMES).keys() == {0, 2}
    assert capsys.readouterr().err.startswith("hpsearch: trial 1 of tiny: ")


def test_agents_are_measured_too(tmp_path):
    changes = {"host": {"player": "zeillinger"}, "agent": TRAINER["host"]}
    write_trainer(tmp_path, {**changes, "evaluation/opponents": ["zeillinger"]})
    space = {"agent.gamma": {"type": "float", "low": 0.5, "high": 0.9}}
    goals = [{"metric": "rho/agent/zeillinger", "goal": "minimize"}]
    story = Story(write_study(tmp_path, {"space": space, "objectives": goals}))
    story.add("asked", 0, params={"agent.gamma": 0.7})
    trial = story.view.state.trials[0]
    trainer = build_trainer([read_config(story.view.config(trial), source="")])
    trainer.step.fill_(TRAINER["steps"])
    trainer.save(story.view.folder.trial(0).checkpoints, 0)
    alone = trainer.evaluate_rho(num_games=GAMES, split=SPLIT)[0]
    name = "rho/agent/zeillinger"
    assert held_out_values(story.view, [trial], GAMES) == {0: {name: alone[name].value}}
