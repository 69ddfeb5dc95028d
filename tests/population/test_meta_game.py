"""The game of a match, against games whose solution is known."""

import numpy as np
import pytest

from hpsearch.population.ratings.cycles import meta_game


def lengths(mean, num_games=2000, spread=0.0, seed=0):
    """Return lengths of games (P, Q, G) of these means."""
    mean = np.asarray(mean, dtype=float)
    noise = np.random.default_rng(seed).normal(0.0, spread, (*mean.shape, num_games))
    return np.maximum(1, np.rint(mean[..., None] + noise)).astype(np.int64)


def named_game(moves):
    """Return the game of hosts h0, h1, ... and agents a0, a1, ..."""
    num_hosts, num_agents, _ = moves.shape
    return meta_game(
        moves, [f"h{row}" for row in range(num_hosts)], [f"a{k}" for k in range(num_agents)]
    )


def test_a_strongest_pair_is_the_equilibrium():
    game = named_game(lengths([[10, 20], [8, 16]]))  # host 1 is faster, agent 1 holds out longer
    assert game["hosts"] == {"h1": pytest.approx(1.0)}
    assert game["agents"] == {"a1": pytest.approx(1.0)}
    assert game["value"] == pytest.approx(1 / 16)
    gaps = game["gaps"]
    assert gaps["host"] == pytest.approx({"h0": 1 / 16 - 1 / 20, "h1": 0.0}, abs=1e-9)
    assert gaps["agent"] == pytest.approx({"a0": 1 / 8 - 1 / 16, "a1": 0.0}, abs=1e-9)
    assert game["cycles"] == []


def test_a_game_that_goes_round_is_mixed_and_named():
    game = named_game(lengths([[10, 20], [20, 10]], spread=1.0))
    assert game["hosts"] == pytest.approx({"h0": 0.5, "h1": 0.5}, abs=0.02)
    assert game["agents"] == pytest.approx({"a0": 0.5, "a1": 0.5}, abs=0.02)
    assert game["value"] == pytest.approx((1 / 10 + 1 / 20) / 2, abs=1e-3)
    assert game["cyclic_share"] == pytest.approx(1.0, abs=0.01)
    (cycle,) = game["cycles"]
    assert sorted(cycle["hosts"]) == ["h0", "h1"]
    assert sorted(cycle["agents"]) == ["a0", "a1"]
    assert cycle["strength"] == pytest.approx(1 / 10 - 1 / 20, abs=2e-3)


def test_noise_alone_is_no_cycle():
    for seed in range(20):
        game = named_game(lengths(np.full((4, 5), 12.0), num_games=200, spread=4.0, seed=seed))
        assert game is None or game["cycles"] == []
