"""Cyclic shares and cycles, against least squares, exhaustive search and known games."""

import itertools

import numpy as np
import pytest
from scipy.stats import norm

from hpsearch.population.ratings.cycles import (
    best_response_cycles,
    cyclic_share_beyond_noise,
    swap_cycles,
)

PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])
ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def test_the_cyclic_share_is_what_the_least_squares_fit_leaves():
    payoff = np.random.default_rng(0).normal(size=(4, 3))
    design = np.array(
        [[*np.eye(4)[i], *-np.eye(3)[j]] for i, j in itertools.product(range(4), range(3))]
    )
    fit = design @ np.linalg.lstsq(design, payoff.ravel(), rcond=None)[0]
    rest = np.square(payoff.ravel() - fit).sum()
    total = np.square(payoff - payoff.mean()).sum()
    assert cyclic_share_beyond_noise(payoff, 0.0) == pytest.approx(rest / total)


def test_shares_at_their_ends():
    assert cyclic_share_beyond_noise(ROCK_PAPER_SCISSORS, 0.0) == pytest.approx(1)
    transitive = np.add.outer([1.0, 2.0], [0.0, 5.0, 7.0])
    assert cyclic_share_beyond_noise(transitive, 0.0) == pytest.approx(0)
    for alike in (np.full((2, 2), 3.0), np.full((3, 4), 0.01), np.array([[0.1]])):
        assert cyclic_share_beyond_noise(alike, 0.0) == 0


def test_noise_is_taken_off():
    rng = np.random.default_rng(1)
    strengths = np.add.outer(rng.normal(size=8), rng.normal(size=6))
    errors = rng.uniform(0.2, 0.6, size=(8, 6))
    cyclic = 0.5 * rng.normal(size=(8, 6))
    cyclic -= cyclic.mean(axis=0)
    cyclic -= cyclic.mean(axis=1, keepdims=True)
    truth = cyclic_share_beyond_noise(strengths + cyclic, 0.0)
    payoffs = strengths + cyclic + errors * rng.normal(size=(400, 8, 6))
    corrected = np.mean([cyclic_share_beyond_noise(payoff, errors) for payoff in payoffs])
    plain = np.mean([cyclic_share_beyond_noise(payoff, 0.0) for payoff in payoffs])
    assert corrected == pytest.approx(truth, abs=0.01)
    assert plain > truth + 0.02
    assert cyclic_share_beyond_noise(PENNIES, 10.0) == 0


def test_what_noise_adds_to_both_sums():
    """Of the sums of squares 12 and 30, noise of variance 1 adds 6 / 3 and 6 * 5 / 6."""
    payoff = [[6.0, 0.0, 0.0], [0.0, 0.0, 0.0]]
    assert cyclic_share_beyond_noise(payoff, 0.0) == pytest.approx(12 / 30)
    assert cyclic_share_beyond_noise(payoff, 1.0) == pytest.approx((12 - 2) / (30 - 5))


def test_best_answers_go_round_in_pennies():
    (cycle,) = best_response_cycles(PENNIES, margin=0.0)
    assert (cycle.hosts, cycle.agents, cycle.strength) == ((0, 1), (1, 0), 2.0)
    assert best_response_cycles(PENNIES, margin=2.0) == []


def test_best_answers_of_rock_paper_scissors_take_all_three():
    (cycle,) = best_response_cycles(ROCK_PAPER_SCISSORS, margin=0.0)
    assert sorted(cycle.hosts) == sorted(cycle.agents) == [0, 1, 2]
    assert cycle.strength == pytest.approx(2)


def test_a_saddle_and_a_cycle_beside_it():
    assert best_response_cycles(np.add.outer([0.0, 3.0, 1.0], [2.0, 1.0, -1.0]), margin=0.0) == []


def test_every_cycle_consists_of_best_answers():
    rng = np.random.default_rng(2)
    seen = 0
    for _ in range(100):
        payoff = rng.normal(size=rng.integers(2, 7, size=2))
        for cycle in best_response_cycles(payoff, margin=0.0):
            seen += 1
            rounds = len(cycle.hosts)
            gains = []
            for k in range(rounds):
                host, agent = cycle.hosts[k], cycle.agents[k]
                after = cycle.hosts[(k + 1) % rounds]
                assert payoff[host].argmin() == agent
                assert payoff[:, agent].argmax() == after
                gains.append(payoff[after, agent] - payoff[host, agent])
                gains.append(payoff[after, agent] - payoff[after].min())
            assert cycle.strength == pytest.approx(min(gains))
    assert seen > 30


def test_swaps_against_all_pairs_of_pairs():
    rng, reach = np.random.default_rng(3), norm.ppf(0.975)
    for _ in range(10):
        payoff, errors = rng.normal(size=(4, 5)), rng.uniform(0, 0.2, size=(4, 5))
        expected = {}
        for a, b in itertools.combinations(range(4), 2):
            for x, y in itertools.permutations(range(5), 2):
                gains = [
                    payoff[won] - payoff[lost] - reach * np.hypot(errors[won], errors[lost])
                    for won, lost in (
                        ((a, x), (b, x)),
                        ((b, y), (a, y)),
                        ((a, x), (a, y)),
                        ((b, y), (b, x)),
                    )
                ]
                if min(gains) > 0:
                    expected[(a, b), (y, x)] = min(gains)
        cycles = swap_cycles(payoff, errors=errors, confidence=0.95, num_cycles=1000)
        assert {(c.hosts, c.agents): c.strength for c in cycles} == pytest.approx(expected)
        assert [c.strength for c in cycles] == pytest.approx(
            sorted(expected.values(), reverse=True)
        )
        assert swap_cycles(payoff, errors=errors, confidence=0.95, num_cycles=2) == cycles[:2]


def test_a_swap_is_a_cycle_of_answers():
    (cycle,) = swap_cycles(PENNIES, errors=0.0, confidence=0.95, num_cycles=5)
    assert cycle == best_response_cycles(PENNIES, margin=0.0)[0]
