"""Who of two is stronger: told by their games, in every role that they have."""

import math
from dataclasses import replace

import pytest
import torch

from hpsearch.population.offspring import chance_stronger, offspring
from hpsearch.population.operators.options import GaussianMutation
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.evaluation import Measurement, evaluate, scripted
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.rollouts import game_config

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def strong(tmp_path_factory, tiny_config):
    trainer = build_trainer([tiny_config({"agent": "learn"})])
    trainer.train(200)
    path = trainer.save(tmp_path_factory.mktemp("strong"), 0)
    return {role: load_player(path, role, CPU) for role in ("host", "agent")}


def ruined(players, seed=5):
    nets = offspring(GaussianMutation("gaussian_mutation", 50.0), [players], seed)
    return {role: replace(players[role], net=net) for role, net in nets.items()}


def chance(first, second, seed=1):
    return chance_stronger(first, second, num_games=200, seed=seed)


@pytest.mark.parametrize("roles", [("host",), ("agent",), ("host", "agent")])
def test_those_who_learned_are_stronger_in_every_role(strong, roles):
    weak = strong | {role: ruined(strong)[role] for role in roles}
    assert chance(strong, weak) > 0.95
    assert chance(weak, strong) == pytest.approx(1 - chance(strong, weak))


def test_equals_have_equal_chances(strong):
    assert chance(strong, dict(strong)) == 0.5


def test_chances_say_who_wins_on_the_starts_of_the_seed(strong):
    """By the measures of both, from the same starts; the less sure, the nearer to a half."""
    for seed in range(6):
        other = ruined(strong, seed)
        for role, sign in (("host", 1), ("agent", -1)):
            config = strong[role].config
            how = Measurement(
                game_config(config), 200, config.evaluation.max_steps, 0.0, "birth 3", ("rho",), CPU
            )
            opponents = scripted(config.measured_against()[role])
            scores = [
                sign * sum(math.log(metric.value) for metric in metrics.values())
                for metrics in (
                    evaluate(role, p[role].policy, opponents, 1, how)[0].metrics
                    for p in (strong, other)
                )
            ]
            if abs(scores[0] - scores[1]) > 0.02:
                chance_of_role = chance({role: strong[role]}, {role: other[role]}, seed=3)
                assert (chance_of_role > 0.5) == (scores[0] > scores[1])
