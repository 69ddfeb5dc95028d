"""Histograms of measured games against games played one by one, and entropies by hand."""

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder, rules
from hpsearch.game.random import derive_key
from hpsearch.trainers.evaluation import (
    Games,
    Measurement,
    entropy,
    evaluate,
    scripted,
)
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.policies import Position, ScriptedPolicy, Turn
from hpsearch.trainers.rho import Lengths

CAP = 6
GAME = GameConfig(
    dimension=3, max_num_points=8, max_value=9, max_steps=50, reposition=True, reward="terminal"
)
HOW = Measurement(GAME, 150, CAP, 0.0, "test", MODES, torch.device("cpu"))


def one_by_one(host, agent):
    """Count lengths, unfinished games and both roles' actions by the rules alone."""
    key = torch.tensor([derive_key("evaluation", "test")])
    encoder, noise, never = HostActionEncoder(3), torch.zeros(2), torch.zeros(())
    lengths, unfinished, subsets, axes = np.zeros(CAP + 1, int), 0, [0] * 4, [0] * 3
    for points in FusedGame(GAME, key, HOW.num_games, "cpu", "reference", observes=False).points[0]:
        for move in range(1, CAP + 1):
            position = Position.of(points)
            action = host(Turn(position, None, noise, never))
            subset = encoder.decode(action)
            axis = agent(Turn(position, subset, noise, never))
            subsets[action] += 1
            axes[axis] += 1
            points = rules.reposition(rules.move(points, subset, axis))
            if rules.is_over(points):
                lengths[move] += 1
                break
        unfinished += not rules.is_over(points)
    return tuple(np.trim_zeros(lengths, "b").tolist()), unfinished, tuple(subsets), tuple(axes)


@pytest.mark.parametrize("num_members", [1, 3])
def test_histograms_are_those_of_games_played_one_by_one(num_members):
    host, agent = ScriptedPolicy("zeillinger"), ScriptedPolicy("choose_last")
    lengths, unfinished, subsets, axes = one_by_one(host, agent)
    assert unfinished > 0
    for evaluation in evaluate("host", host, scripted(["choose_last"]), num_members, HOW):
        expected = Games(lengths, unfinished, subsets)
        assert evaluation.games == {f"{mode}/host/choose_last": expected for mode in MODES}
    for evaluation in evaluate("agent", agent, scripted(["zeillinger"]), num_members, HOW):
        expected = Games(lengths, unfinished, axes)
        assert evaluation.games == {f"{mode}/agent/zeillinger": expected for mode in MODES}


def test_modes_are_counted_apart():
    """The sampled policy explores, the greedy one does not."""

    def lazy(turn):
        random = ScriptedPolicy("random")(turn)
        return torch.where(turn.noise[..., 0] < turn.exploration, random, 3)

    how = Measurement(GAME, 400, CAP, 0.5, "test", MODES, torch.device("cpu"))
    (evaluation,) = evaluate("host", lazy, scripted(["random", "choose_first"]), 1, how)
    for opponent in ("random", "choose_first"):
        greedy = evaluation.games[f"rho/host/{opponent}"].actions
        assert greedy[:3] == (0, 0, 0)
        sampled = np.array(evaluation.games[f"rho_sampled/host/{opponent}"].actions)
        # Half of the moves are uniform on four subsets.
        shares = np.array([1, 1, 1, 5]) / 8
        assert np.abs(sampled - shares * sampled.sum()).max() < 4 * sampled.sum() ** 0.5
    assert evaluation.entropies["entropy/host"] == 0
    expected = scipy_entropy([1, 1, 1, 5])
    assert evaluation.entropies["entropy_sampled/host"] == pytest.approx(expected, abs=0.03)


def test_every_move_is_counted_once_and_every_game_too():
    how = Measurement(GAME, 300, 40, 0.0, "test", MODES[:1], torch.device("cpu"))
    (evaluation,) = evaluate("host", ScriptedPolicy("random"), scripted(["random"]), 1, how)
    counted = evaluation.games["rho/host/random"]
    moves = sum(n * count for n, count in enumerate(counted.lengths)) + 40 * counted.unfinished
    assert sum(counted.actions) == moves
    assert sum(counted.lengths) + counted.unfinished == 300
    assert evaluation.metrics["rho/host/random"].value == pytest.approx(300 / moves)


def entropy_of(counts):
    return entropy([Games((), 0, tuple(counts))])


@pytest.mark.parametrize("counts", [[5], [1, 1, 1, 1], [3, 0, 9, 1], [0, 7, 0]])
def test_entropy_in_nats(counts):
    assert entropy_of(counts) == pytest.approx(scipy_entropy(counts))
    assert math.copysign(1, entropy_of(counts)) == 1  # no negative zero


def test_entropy_of_nothing_is_zero():
    assert entropy_of([0, 0]) == 0


def test_pooled_entropy_counts_all_opponents_together():
    opponents = [Games((1,), 0, (4, 0)), Games((1,), 0, (0, 4))]
    assert [entropy([opponent]) for opponent in opponents] == [0, 0]
    assert entropy(opponents) == pytest.approx(math.log(2))


def test_lengths_of_unfinished_games_are_not_counted_as_finished():
    lengths = Lengths(np.array([1, 3, 9, 9]), np.array([True, True, False, True]))
    assert Games.of(lengths, [1, 2]) == Games((0, 1, 0, 1, 0, 0, 0, 0, 0, 1), 1, (1, 2))
