"""alpha-rank against chains written out state by state, and games whose ranking is known."""

import numpy as np
import pytest

from hpsearch.population.ratings.alpha_rank import alpha_rank_limit, stationary_distribution

PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])


def test_stationary_distributions_against_powers_of_the_chain():
    rng = np.random.default_rng(0)
    for states in (1, 2, 5, 9):
        chain = rng.random((states, states)) ** 2
        chain /= chain.sum(axis=1, keepdims=True)
        assert stationary_distribution(chain) == pytest.approx(
            np.linalg.matrix_power(chain, 10_000)[0]
        )


def test_a_chain_of_tiny_chances_keeps_its_relative_accuracy():
    # Two states: the shares are as the chances to come, whatever their size.
    chain = np.array([[0.0, 1e-180], [1e-20, 0.0]])
    assert stationary_distribution(chain)[1] == pytest.approx(1e-160)


def test_shares_beyond_the_range_of_floats():
    """Up a ladder, each state is visited 1e60 times as often as the one below."""
    chain = np.diag(np.full(7, 0.5), 1) + np.diag(np.full(7, 0.5e-60), -1)
    shares = stationary_distribution(chain)
    assert shares[-4:] == pytest.approx([1e-180, 1e-120, 1e-60, 1.0], rel=1e-9)
    assert shares[:2].tolist() == [0.0, 0.0]


def test_a_chain_that_gets_stuck_is_refused():
    with pytest.raises(ValueError, match="irreducible"):
        stationary_distribution(np.array([[0.5, 0.5], [0.0, 1.0]]))


def test_random_games_against_a_chain_written_out():
    rng = np.random.default_rng(1)
    for shape in ((1, 1), (1, 4), (2, 2), (3, 4)):
        host, agent = rng.integers(0, 3, size=shape), rng.integers(0, 3, size=shape)
        limit = alpha_rank_limit(host, agent, noise=0.05)
        chain = _written_out(host, agent, 0.05)
        shares = np.linalg.matrix_power(chain, 20_000)[0].reshape(shape)
        assert limit == pytest.approx(shares, abs=1e-9)
        assert limit.sum() == pytest.approx(1)


def test_a_cycle_is_visited_evenly():
    limit = alpha_rank_limit(PENNIES, -PENNIES, noise=1e-6)
    assert limit == pytest.approx(np.full((2, 2), 0.25))


def test_battle_of_the_sexes_stays_with_either_agreement():
    """The paper's example: (O, O) and (M, M) have half of the time each."""
    host, agent = np.array([[3.0, 0.0], [0.0, 2.0]]), np.array([[2.0, 0.0], [0.0, 3.0]])
    limit = alpha_rank_limit(host, agent, noise=1e-9)
    assert limit == pytest.approx(np.array([[0.5, 0.0], [0.0, 0.5]]), abs=1e-6)


def test_a_saddle_takes_all():
    # Host 1 is best against every agent, agent 2 against every host.
    payoff = np.add.outer([0.0, 3.0, 1.0], [2.0, 1.0, -1.0])
    assert alpha_rank_limit(payoff, -payoff, noise=1e-7)[1, 2] == pytest.approx(1, abs=1e-5)


def test_without_differences_all_are_visited_alike():
    limit = alpha_rank_limit(np.zeros((2, 3)), np.zeros((2, 3)), noise=0.1)
    assert limit == pytest.approx(np.full((2, 3), 1 / 6))


def test_arguments_out_of_range_are_refused():
    with pytest.raises(ValueError, match="noise"):
        alpha_rank_limit(PENNIES, -PENNIES, noise=0.5)
    with pytest.raises(ValueError, match="one shape"):
        alpha_rank_limit(PENNIES, np.zeros((2, 3)), noise=0.1)


def _written_out(host, agent, noise):
    """The chain pair by pair: better mutants take over, equal ones half the time."""
    p, q = host.shape
    chain = np.zeros((p * q, p * q))

    def fixation(gain):
        return 0.5 if gain == 0 else 1 - noise if gain > 0 else noise

    for i in range(p):
        for j in range(q):
            for k in range(p):
                if k != i:
                    chain[i * q + j, k * q + j] = fixation(host[k, j] - host[i, j])
            for k in range(q):
                if k != j:
                    chain[i * q + j, i * q + k] = fixation(agent[i, k] - agent[i, j])
    chain /= max(p + q - 2, 1)
    np.fill_diagonal(chain, 1 - chain.sum(axis=1))
    return chain
