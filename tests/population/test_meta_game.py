"""The game of a match, against games whose solution is known."""

import numpy as np
import pytest

from hpsearch.population.ratings.cycles import meta_game


def lengths(mean, num_games=2000, spread=0.0, seed=0):
    """Return lengths of games (P, Q, G) of these means."""
    mean = np.asarray(mean, dtype=float)
    noise = np.random.default_rng(seed).normal(0.0, spread, (*mean.shape, num_games))
    return np.maximum(1, np.rint(mean[..., None] + noise)).astype(np.int64)


def test_a_strongest_pair_is_the_equilibrium():
    game = meta_game(lengths([[10, 20], [8, 16]]))  # host 1 is faster, agent 1 holds out longer
    assert game.hosts == {1: pytest.approx(1.0)}
    assert game.agents == {1: pytest.approx(1.0)}
    assert game.value == pytest.approx(1 / 16)
    assert game.host_gaps == pytest.approx([1 / 16 - 1 / 20, 0.0], abs=1e-9)
    assert game.agent_gaps == pytest.approx([1 / 8 - 1 / 16, 0.0], abs=1e-9)
    assert game.cycles == ()


def test_a_game_that_goes_round_is_mixed_and_named():
    game = meta_game(lengths([[10, 20], [20, 10]], spread=1.0))
    assert game.hosts == pytest.approx({0: 0.5, 1: 0.5}, abs=0.02)
    assert game.agents == pytest.approx({0: 0.5, 1: 0.5}, abs=0.02)
    assert game.value == pytest.approx((1 / 10 + 1 / 20) / 2, abs=1e-3)
    assert game.cyclic_share == pytest.approx(1.0, abs=0.01)
    (cycle,) = game.cycles
    assert sorted(cycle.hosts) == sorted(cycle.agents) == [0, 1]
    assert cycle.strength == pytest.approx(1 / 10 - 1 / 20, abs=2e-3)


def test_noise_alone_is_no_cycle():
    for seed in range(20):
        game = meta_game(lengths(np.full((4, 5), 12.0), num_games=200, spread=4.0, seed=seed))
        assert game is None or game.cycles == ()
