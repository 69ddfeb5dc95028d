"""Bradley-Terry strengths against closed forms, a general optimiser and known strengths."""

import numpy as np
import pytest
from scipy.optimize import minimize

from hpsearch.population.ratings import bradley_terry as module
from hpsearch.population.ratings.bradley_terry import bradley_terry, wins_by_speed


def test_two_players_by_the_logarithm_of_their_odds():
    fit = bradley_terry([[30.0]], [[40.0]], ridge=1e-9)
    assert fit.hosts[0] - fit.agents[0] == pytest.approx(np.log(3))
    assert fit.hosts[0] + fit.agents[0] == pytest.approx(0)
    # The Fisher information of the difference is n p (1 - p); each has half of the difference.
    error = np.sqrt(1 / (40 * 0.75 * 0.25))
    low, high = fit.intervals(0.95)[0][:, 0]
    assert high - low == pytest.approx(1.959964 * error)


def test_a_prior_makes_intervals_narrower():
    """To what games tell of the difference it adds half of the ridge."""
    fit = bradley_terry([[30.0]], [[40.0]], ridge=6.0)
    difference = fit.hosts[0] - fit.agents[0]
    chance = 1 / (1 + np.exp(-difference))
    assert 40 * chance - 30 == pytest.approx(-6 * difference / 2)
    information = 40 * chance * (1 - chance) + 6 / 2
    assert fit.covariance == pytest.approx(np.array([[1, -1], [-1, 1]]) / (4 * information))


def test_who_never_lost_is_finite_and_surely_stronger():
    fit = bradley_terry([[20.0, 20.0], [10.0, 10.0]], [[20.0, 20.0], [20.0, 20.0]], ridge=0.01)
    assert np.isfinite(fit.hosts).all()
    assert fit.hosts[0] - fit.hosts[1] > 3
    variance = fit.covariance[0, 0] + fit.covariance[1, 1] - 2 * fit.covariance[0, 1]
    assert fit.hosts[0] - fit.hosts[1] > 1.29 * np.sqrt(variance)


def test_against_a_general_optimiser_with_missing_pairs():
    rng = np.random.default_rng(0)
    games = rng.integers(0, 12, size=(4, 3)).astype(float)
    games[0, 1:] = 0
    wins = rng.binomial(games.astype(int), 0.4).astype(float)

    def loss(x):
        chance = 1 / (1 + np.exp(x[4:] - x[:4, None]))
        likelihood = wins * np.log(chance) + (games - wins) * np.log(1 - chance)
        return 0.25 * x @ x - likelihood.sum()

    best = minimize(loss, np.zeros(7), tol=1e-12).x
    fit = bradley_terry(wins, games, ridge=0.5)
    assert np.concatenate([fit.hosts, fit.agents]) == pytest.approx(best, abs=1e-4)


GAMES = 512.0
ALL = np.full((3, 3), GAMES)
GROUPS = np.kron(np.eye(2), np.full((2, 2), GAMES))
EDGES = {
    "one pair, all won": ([[GAMES]], [[GAMES]]),
    "one pair, none won": ([[0.0]], [[GAMES]]),
    "one pair that did not meet": ([[0.0]], [[0.0]]),
    "one host": ([[GAMES, 0.0, GAMES / 2]], [[GAMES] * 3]),
    "all equal": (ALL / 2, ALL),
    "no host ever wins": (0 * ALL, ALL),
    "none met": (0 * ALL, 0 * ALL),
    "hosts alike": (np.tile([GAMES, 0.0, GAMES / 4], (3, 1)), ALL),
    "two groups that did not meet": (GROUPS / 4, GROUPS),
    "two groups, each with all won": (GROUPS, GROUPS),
    "one host that never wins": (np.array([[0, 0, 0], [9, 256, 512], [100, 512, 512]]), ALL),
    "every player loses to the next": (np.triu(ALL), ALL),
}


@pytest.mark.parametrize("ridge", [1e-6, 0.01, 1.0])
@pytest.mark.parametrize("edge", EDGES)
def test_strengths_at_the_edges_are_finite_and_the_most_likely_ones(edge, ridge):
    wins, games = (np.asarray(table, dtype=float) for table in EDGES[edge])
    fit = bradley_terry(wins, games, ridge=ridge)
    strengths = np.concatenate([fit.hosts, fit.agents])
    assert np.isfinite(strengths).all()
    assert strengths.sum() == pytest.approx(0, abs=1e-6)
    # The posterior has no slope: what was won, less what was expected, is what the prior takes.
    surplus = wins - games / (1 + np.exp(fit.agents - fit.hosts[:, None]))
    slope = np.concatenate([surplus.sum(axis=1), -surplus.sum(axis=0)]) - ridge * strengths
    assert slope == pytest.approx(np.zeros(len(strengths)), abs=1e-4)
    assert (fit.covariance.diagonal() >= 0).all()
    assert np.isfinite(np.concatenate(fit.intervals(0.95), axis=1)).all()


def test_hosts_alike_are_rated_alike_and_groups_apart_from_their_own_middle():
    alike = bradley_terry(*EDGES["hosts alike"], ridge=0.01)
    assert alike.hosts == pytest.approx(np.full(3, alike.hosts[0]))
    apart = bradley_terry(*EDGES["two groups that did not meet"], ridge=0.01)
    assert apart.hosts == pytest.approx(np.full(4, apart.hosts[0]))
    for edge in ("all equal", "none met"):
        assert bradley_terry(*EDGES[edge], ridge=0.01).hosts == pytest.approx(np.zeros(3))


@pytest.mark.parametrize("games", [1e6, 1e9])
def test_many_games_outweigh_a_weak_prior(games):
    """A common shift, which only the prior resists, is not lost to rounding."""
    fit = bradley_terry([[0.75 * games]], [[games]], ridge=1e-9)
    assert fit.hosts[0] - fit.agents[0] == pytest.approx(np.log(3))
    assert fit.hosts[0] + fit.agents[0] == pytest.approx(0)


def test_a_prior_that_is_lost_to_rounding_is_refused():
    with pytest.raises(RuntimeError, match="raise ridge=1e-12"):
        bradley_terry(1e7 * GROUPS, 1e7 * GROUPS, ridge=1e-12)


def test_known_strengths_lie_in_their_intervals_nineteen_times_of_twenty():
    rng = np.random.default_rng(1)
    inside = []
    for _ in range(60):
        hosts, agents = rng.normal(size=6), rng.normal(size=5)
        shift = (hosts.sum() + agents.sum()) / 11
        chance = 1 / (1 + np.exp(agents - hosts[:, None]))
        fit = bradley_terry(rng.binomial(40, chance), np.full((6, 5), 40), ridge=1e-3)
        assert np.abs(fit.hosts - hosts + shift).max() < 2
        for truth, (low, high) in zip((hosts, agents), fit.intervals(0.95), strict=True):
            inside += list((low <= truth - shift) & (truth - shift <= high))
    assert np.mean(inside) == pytest.approx(0.95, abs=0.03)


def test_a_win_is_a_game_over_sooner_than_the_median_from_its_start():
    # Starts (last axis): in the first the median is 4, in the second, a long one, 40.
    moves = np.array([[[2, 40], [4, 50]], [[4, 30], [9, 40]]])
    assert wins_by_speed(moves) == pytest.approx(np.array([[1.5, 0.5], [1.5, 0.5]]))
    fast = wins_by_speed(np.stack([np.full((3, 7), 2), np.full((3, 7), 5)]))
    assert fast == pytest.approx(np.array([[7.0] * 3, [0.0] * 3]))


@pytest.mark.parametrize("shape", [(3, 7), (2, 3, 0), (0, 3, 7), (2, 3, 4, 5)])
def test_wins_are_counted_of_games_of_hosts_and_agents_alone(shape):
    with pytest.raises(ValueError, match="P hosts x Q agents x G games"):
        wins_by_speed(np.ones(shape, dtype=np.int64))


@pytest.mark.parametrize(
    ("wins", "games", "ridge", "problem"),
    [
        ([[3.0]], [[2.0]], 0.1, "wins <= games"),
        ([[1.0, 1.0]], [[2.0]], 0.1, "P x Q"),
        ([[1.0]], [[2.0]], 0.0, "ridge"),
        ([[np.nan]], [[2.0]], 0.1, "wins <= games"),
        ([[1.0]], [[np.nan]], 0.1, "wins <= games"),
    ],
)
def test_what_cannot_be_is_refused(wins, games, ridge, problem):
    with pytest.raises(ValueError, match=problem):
        bradley_terry(wins, games, ridge=ridge)


def test_strengths_that_were_not_found_are_not_reported(monkeypatch):
    monkeypatch.setattr(module, "MAX_STEPS", 1)
    with pytest.raises(RuntimeError, match=r"raise ridge=0\.01"):
        bradley_terry([[20.0, 3.0]], [[20.0, 20.0]], ridge=0.01)
