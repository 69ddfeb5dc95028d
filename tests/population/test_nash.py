"""Equilibria against closed forms, an exhaustive search of supports, and what they must obey."""

import itertools

import numpy as np
import pytest
from scipy.optimize import minimize

from hpsearch.population.ratings import nash
from hpsearch.population.ratings.nash import (
    Equilibrium,
    max_entropy_equilibrium,
    nash_averaging,
    nash_conv,
    undominated,
)

PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])
ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


@pytest.mark.parametrize(("size", "game"), [(2, PENNIES), (3, ROCK_PAPER_SCISSORS)])
def test_cycles_are_played_evenly(size, game):
    ratings = nash_averaging(game)
    assert ratings.equilibrium.hosts == pytest.approx(np.full(size, 1 / size))
    assert ratings.equilibrium.agents == pytest.approx(np.full(size, 1 / size))
    assert ratings.hosts == pytest.approx(np.zeros(size), abs=1e-9)


def test_two_by_two_without_a_saddle_by_its_formula():
    a, b, c, d = 3.0, -1.0, -2.0, 4.0  # hosts play the first with (d - c) / (a - b - c + d)
    equilibrium = max_entropy_equilibrium([[a, b], [c, d]])
    total = a - b - c + d
    assert equilibrium.hosts == pytest.approx([(d - c) / total, (a - b) / total])
    assert equilibrium.agents == pytest.approx([(d - b) / total, (a - c) / total])
    assert equilibrium.value == pytest.approx((a * d - b * c) / total)


def test_a_constant_game_is_played_evenly():
    equilibrium = max_entropy_equilibrium(np.full((3, 4), 0.2))
    assert equilibrium.hosts == pytest.approx(np.full(3, 1 / 3))
    assert equilibrium.agents == pytest.approx(np.full(4, 1 / 4))
    assert equilibrium.value == pytest.approx(0.2)


def test_dominated_players_are_not_played_and_rated_below():
    game = np.vstack([ROCK_PAPER_SCISSORS, ROCK_PAPER_SCISSORS.min(axis=0) - [0.5, 0.1, 0.3]])
    ratings = nash_averaging(game)
    assert ratings.equilibrium.hosts == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])
    assert ratings.hosts[3] == pytest.approx(-1.3)


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("nearness", [1e-4, 1e-6])
def test_a_hopeless_player_hides_nothing_of_the_others(seed, nearness):
    """Without it, the same equilibrium; with it, all others look nearly alike."""
    close = 0.1 + nearness * np.random.default_rng(seed).random((5, 4))
    alone = max_entropy_equilibrium(close)
    hopeless = np.full((1, 4), -1.0)
    worst_agent = np.full((6, 1), 2.0)
    equilibrium = max_entropy_equilibrium(np.hstack([np.vstack([close, hopeless]), worst_agent]))
    np.testing.assert_allclose(equilibrium.hosts, [*alone.hosts, 0.0], atol=1e-6)
    np.testing.assert_allclose(equilibrium.agents, [*alone.agents, 0.0], atol=1e-6)
    assert equilibrium.value == pytest.approx(alone.value, abs=1e-12)


def test_who_is_left_after_one_another_was_dominated():
    """The last host falls first; then agent 2, which the others answer better; then host 1."""
    payoff = np.array([[3.0, 4.0, 5.0], [2.0, 3.0, 6.0], [1.0, 1.0, 1.0]])
    rows, columns = undominated(payoff)
    assert (rows.tolist(), columns.tolist()) == ([0], [0])
    assert max_entropy_equilibrium(payoff).value == 3.0


def test_duplicates_share_their_part_and_change_no_rating():
    game = np.random.default_rng(3).normal(size=(4, 5))
    alone = nash_averaging(game)
    doubled = nash_averaging(game[[0, 1, 2, 3, 1, 1]][:, [0, 1, 2, 3, 4, 2]])
    assert doubled.hosts[:4] == pytest.approx(alone.hosts)
    assert doubled.agents[:5] == pytest.approx(alone.agents)
    shares = doubled.equilibrium.hosts
    assert shares[[1, 4, 5]] == pytest.approx(np.full(3, alone.equilibrium.hosts[1] / 3))


def test_of_many_equilibria_the_one_of_largest_entropy():
    # Hosts 0 and 1 beat none; agents must only hold host 2 down, which asks for x0 + x1 >= 1/2.
    game = [[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-1.0, -1.0, 1.0]]
    equilibrium = max_entropy_equilibrium(game)
    assert equilibrium.hosts == pytest.approx([0.5, 0.5, 0.0])
    assert equilibrium.agents == pytest.approx([1 / 3, 1 / 3, 1 / 3], abs=1e-6)
    # Now the third agent concedes three times as much: uniform play is no longer an equilibrium.
    game[2][2] = 3.0
    equilibrium = max_entropy_equilibrium(game)
    assert equilibrium.agents == pytest.approx([3 / 8, 3 / 8, 1 / 4], abs=1e-6)


def test_degenerate_games_against_a_general_optimiser():
    """Small whole payoffs make whole faces optimal; SLSQP knows nothing of faces."""
    rng = np.random.default_rng(0)
    for _ in range(25):
        game = rng.integers(-1, 2, size=rng.integers(2, 6, size=2)).astype(float)
        equilibrium = max_entropy_equilibrium(game)
        assert nash_conv(game, equilibrium) == pytest.approx(0, abs=1e-9)
        other = _slsqp(game, equilibrium.value)
        assert _entropy(equilibrium.hosts) >= _entropy(other) - 1e-5
        assert equilibrium.hosts == pytest.approx(other, abs=2e-3)


def test_random_games_against_all_supports():
    rng = np.random.default_rng(1)
    for _ in range(20):
        game = rng.normal(size=rng.integers(2, 5, size=2))
        hosts, agents = _by_supports(game)
        equilibrium = max_entropy_equilibrium(game)
        assert equilibrium.hosts == pytest.approx(hosts, abs=1e-7)
        assert equilibrium.agents == pytest.approx(agents, abs=1e-7)


def test_a_game_of_forty_players_and_of_any_unit():
    game = np.random.default_rng(2).normal(size=(40, 30))
    equilibrium = max_entropy_equilibrium(game)
    assert nash_conv(game, equilibrium) == pytest.approx(0, abs=1e-8)
    rescaled = max_entropy_equilibrium(1e-4 * game + 0.1)
    assert rescaled.hosts == pytest.approx(equilibrium.hosts, abs=1e-6)
    assert rescaled.value == pytest.approx(1e-4 * equilibrium.value + 0.1)
    assert max_entropy_equilibrium(game).value == pytest.approx(equilibrium.value)


@pytest.mark.parametrize("seed", [*range(40), 875])
def test_measured_payoffs_in_any_order_have_one_solution(seed):
    """Means of a few short games: many are equal, some but for rounding, as are copies of hosts."""
    rng = np.random.default_rng(seed)
    num_hosts, num_agents = rng.integers(1, 14, size=2)
    game = 1 / rng.integers(1, 4, size=(num_hosts, num_agents, rng.integers(1, 6))).mean(axis=2)
    game = game[rng.integers(num_hosts, size=num_hosts + 3)] if seed % 3 == 0 else game
    game = np.log(game) if seed % 5 == 0 else game
    hosts, agents = rng.permutation(len(game)), rng.permutation(num_agents)
    equilibrium = max_entropy_equilibrium(game)
    again = max_entropy_equilibrium(game[hosts][:, agents])
    assert nash_conv(game, equilibrium) == pytest.approx(0, abs=1e-8)
    assert again.hosts == pytest.approx(equilibrium.hosts[hosts], abs=1e-5)
    assert again.agents == pytest.approx(equilibrium.agents[agents], abs=1e-5)


RNG = np.random.default_rng(9)
EDGES = {
    "one pair": np.array([[0.3]]),
    "one host": np.array([[3.0, 1.0, 2.0, 1.0]]),
    "one agent": np.array([[3.0], [1.0], [2.0], [3.0]]),
    "all equal": np.full((4, 3), 0.01),
    "all zero": np.zeros((4, 3)),
    "equal but for rounding": 0.2 + 1e-17 * RNG.normal(size=(6, 6)),
    "hosts alike": np.tile(RNG.normal(size=5), (8, 1)),
    "agents alike": np.tile(RNG.normal(size=(5, 1)), (1, 8)),
    "alike but for noise": np.tile(RNG.normal(size=5), (8, 1)) + 1e-9 * RNG.normal(size=(8, 5)),
    "two groups": np.kron(np.eye(2), np.ones((3, 3))),
    "one host that never wins": np.vstack([np.zeros(4), RNG.uniform(0.1, 1.0, size=(3, 4))]),
    "one host that always wins": np.vstack([np.ones(4), RNG.uniform(0.1, 0.9, size=(3, 4))]),
    "each wins once": np.eye(20),
    "any scale": 10.0 ** RNG.uniform(-12, 2, size=(7, 5)),
}


@pytest.mark.parametrize("edge", EDGES)
def test_equilibria_at_the_edges_are_finite_and_equilibria(edge):
    game = EDGES[edge]
    ratings = nash_averaging(game)
    for shares in (ratings.equilibrium.hosts, ratings.equilibrium.agents):
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1)
    spread = np.ptp(game)
    at = pytest.approx(0, abs=1e-8 * spread + 1e-15)
    assert nash_conv(game, ratings.equilibrium) == at
    assert ratings.hosts.max() - ratings.equilibrium.value == at
    assert ratings.agents.min() - ratings.equilibrium.value == at
    assert max_entropy_equilibrium(game).value - ratings.equilibrium.value == at


@pytest.mark.parametrize(
    "edge", ["all equal", "all zero", "equal but for rounding", "each wins once"]
)
def test_players_who_cannot_be_told_apart_are_played_alike(edge):
    equilibrium = max_entropy_equilibrium(EDGES[edge])
    for shares in (equilibrium.hosts, equilibrium.agents):
        assert shares == pytest.approx(np.full(len(shares), 1 / len(shares)))


def test_the_gains_of_best_answers_in_pennies_by_hand():
    for hosts, agents, gain in (([1.0, 0.0], [0.75, 0.25], 1.5), ([0.5, 0.5], [0.5, 0.5], 0.0)):
        played = Equilibrium(np.array(hosts), np.array(agents), 0.0)
        assert nash_conv(PENNIES, played) == pytest.approx(gain, abs=1e-12)


def test_a_strategy_that_was_not_found_is_not_reported(monkeypatch):
    monkeypatch.setattr(nash, "MAX_STEPS", 1)
    with pytest.raises(RuntimeError, match=r"not found in 1 steps; leave out players that are co"):
        max_entropy_equilibrium([[0.0, 0.0, 0.0], [0.0, 0.0, 0.0], [-1.0, -1.0, 3.0]])


@pytest.mark.parametrize(
    "wrong", [[], [1.0, 2.0], [[1.0, np.nan]], np.zeros((0, 3)), [[1.0, 2.0], [np.nan, np.nan]]]
)
def test_what_is_no_payoff_is_refused(wrong):
    with pytest.raises(ValueError, match="payoff"):
        nash_averaging(wrong)


def _entropy(strategy):
    positive = strategy[strategy > 0]
    return -(positive * np.log(positive)).sum()


def _slsqp(game, value):
    num = len(game)
    solution = minimize(
        lambda p: (np.maximum(p, 1e-12) * np.log(np.maximum(p, 1e-12))).sum(),
        np.full(num, 1 / num),
        bounds=[(0, 1)] * num,
        constraints=[
            {"type": "eq", "fun": lambda p: p.sum() - 1},
            {"type": "ineq", "fun": lambda p: p @ game - value + 1e-9},
        ],
        method="SLSQP",
        options={"maxiter": 500, "ftol": 1e-12},
    )
    return np.maximum(solution.x, 0)


def _by_supports(game):
    """Try all pairs of equally large supports: for generic games one of them is the solution."""
    p, q = game.shape
    for size in range(1, min(p, q) + 1):
        for rows in itertools.combinations(range(p), size):
            for columns in itertools.combinations(range(q), size):
                part = game[np.ix_(rows, columns)]
                system = np.block([[part, -np.ones((size, 1))], [np.ones((1, size)), np.zeros(1)]])
                right = np.append(np.zeros(size), 1.0)
                agents, hosts = np.zeros(q), np.zeros(p)
                agents[list(columns)] = np.linalg.solve(system, right)[:size]
                system[:size, :size] = part.T
                hosts[list(rows)] = np.linalg.solve(system, right)[:size]
                if min(agents.min(), hosts.min()) < 0:
                    continue
                if (game @ agents).max() - (hosts @ game).min() < 1e-9:
                    return hosts, agents
    raise AssertionError("no equilibrium found")
