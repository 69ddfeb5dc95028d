"""What a match says of its members: by hand without noise, and how noise is told from strength."""

import numpy as np
import pytest

from hpsearch.population.fitness import MatchStanding, Places, opponent_weights, score
from hpsearch.population.options import Matches, Pareto

ALL_OBJECTIVES = Pareto("pareto", ("strength", "robustness", "size", "novelty"), nearest=1)
UNIFORM = Matches(num_samples=50, weighing="uniform")


def rng(seed=0):
    return np.random.default_rng(seed)


def hosts(num, sizes=None, archive=0):
    """Return hosts in the first rows, past champions after them, scripted agents alone."""
    places = [Places(row, None) for row in range(num + archive)]
    return MatchStanding(
        places[:num], places[num:], Places(num + archive, 0), np.array(sizes or [1.0] * num)
    )


def constant(lengths, num_games=8):
    """Return games that all take as long as their pair's, in both sets of starts."""
    moves = np.repeat(np.array(lengths)[:, :, None], num_games, axis=2)
    return np.stack([moves, moves])


def test_without_noise_scores_are_the_logarithms_of_the_lengths():
    scores = score(constant([[10, 20], [5, 10]]), hosts(2), UNIFORM, None, rng())
    expected = [-(np.log(10) + np.log(20)) / 2, -(np.log(5) + np.log(10)) / 2]
    assert scores.naming == pytest.approx(np.tile(expected, (50, 1)))
    assert scores.confirming == pytest.approx(scores.naming)
    assert scores.strength == pytest.approx(expected)
    assert scores.naming_objectives.shape == scores.confirming_objectives.shape == (50, 2, 0)


def test_objectives_stand_in_the_order_of_their_names():
    moves = constant([[10, 20], [5, 10]])
    scores = score(moves, hosts(2, sizes=[7.0, 9.0]), UNIFORM, ALL_OBJECTIVES, rng())
    first, second = scores.confirming_objectives[0]
    apart = np.sqrt(2) * np.log(2)
    assert first == pytest.approx([scores.strength[0], -np.log(20), -7, apart])
    assert second == pytest.approx([scores.strength[1], -np.log(10), -9, apart])


def test_past_champions_count_for_novelty():
    moves = constant([[10, 20], [5, 10], [10, 20]])
    scores = score(moves, hosts(2, archive=1), UNIFORM, ALL_OBJECTIVES, rng())
    assert scores.naming_objectives[0, :, 3] == pytest.approx([0.0, np.sqrt(2) * np.log(2)])


def test_a_member_alone_has_no_novelty():
    scores = score(constant([[10, 20]]), hosts(1), UNIFORM, ALL_OBJECTIVES, rng())
    assert scores.naming_objectives[0, 0, 3] == 0.0


def test_opponents_are_weighed_by_the_starts_that_name_parents():
    naming = constant([[10, 40], [40, 10]])[0]
    confirming = constant([[1, 99], [1, 99]])[0]
    scores = score(np.stack([naming, confirming]), hosts(2), Matches(num_samples=5), None, rng())
    assert scores.weights.agents == pytest.approx([0.5, 0.5])
    assert scores.strength[0] == pytest.approx(scores.strength[1])


def test_the_two_sets_of_starts_are_drawn_apart():
    moves = rng(1).integers(1, 40, (2, 2, 3, 64))
    scores = score(moves, hosts(2), UNIFORM, None, rng())
    assert abs(np.corrcoef(scores.naming[:, 0], scores.confirming[:, 0])[0, 1]) < 0.5
    assert scores.strength == pytest.approx((scores.naming.mean(0) + scores.confirming.mean(0)) / 2)


def test_starts_that_take_long_for_all_move_no_difference():
    """Members of one ratio on every start differ by its logarithm, however much starts differ."""
    starts = rng(2).integers(1, 30, 64)
    moves = np.stack([starts, 2 * starts])[None, :, None, :].repeat(2, axis=0)
    scores = score(moves, hosts(2), UNIFORM, None, rng())
    assert np.ptp(scores.naming[:, 0]) > 0.1
    assert scores.naming[:, 0] - scores.naming[:, 1] == pytest.approx(np.full(50, np.log(2)))


def test_opponents_are_weighed_by_rho_of_the_games_that_name_parents():
    """A host of a long game is a weak one: rho is one over the mean length."""
    naming, confirming = np.array([[10, 40, 10], [40, 10, 10]]), np.full((2, 3), 7)
    moves = np.stack([np.repeat(each[:, :, None], 8, axis=2) for each in (naming, confirming)])
    scores = score(moves, hosts(2), Matches(num_samples=5, weighing="nash"), None, rng())
    expected = opponent_weights(1 / naming, "nash")
    assert scores.weights.hosts == pytest.approx(expected.hosts)
    assert scores.weights.agents == pytest.approx(expected.agents)
    assert scores.weights.agents == pytest.approx([0.5, 0.5, 0.0])
