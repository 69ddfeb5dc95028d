"""Strength, robustness and behaviour against sums written out, opponent by opponent."""

from math import log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hpsearch.population.fitness import (
    OpponentWeights,
    Places,
    behaviours,
    opponent_weights,
    robustness,
)
from hpsearch.population.fitness import strengths as strengths_by_role

PAIRS = [Places(0, 0), Places(1, 1)]
HOSTS = [Places(0, None), Places(2, None)]
AGENTS = [Places(None, 1)]


def strengths(rho, members, weights):
    """Return the strengths of members, both roles added, (R, K)."""
    return strengths_by_role(rho, members, weights).sum(axis=2)


def some_rho(seed, shape=(3, 4, 4)):
    return np.random.default_rng(seed).uniform(0.05, 0.5, shape)


def uniform(rho):
    return OpponentWeights(*(np.full(num, 1 / num) for num in rho.shape[1:]))


def by_hand(rho, member, weights):
    """Return one member's strength in one sample, as a sum over those it meets."""
    total = 0.0
    if member.host is not None:
        met = [q for q in range(rho.shape[1]) if q != member.agent]
        shares = [weights.agents[q] for q in met]
        shares = shares if sum(shares) > 0 else [1.0] * len(met)
        total += sum(log(rho[member.host, q]) * w for q, w in zip(met, shares, strict=True)) / sum(
            shares
        )
    if member.agent is not None:
        met = [p for p in range(rho.shape[0]) if p != member.host]
        shares = [weights.hosts[p] for p in met]
        shares = shares if sum(shares) > 0 else [1.0] * len(met)
        total -= sum(log(rho[p, member.agent]) * w for p, w in zip(met, shares, strict=True)) / sum(
            shares
        )
    return total


@pytest.mark.parametrize("members", [PAIRS, HOSTS, AGENTS])
@pytest.mark.parametrize("seed", range(5))
def test_strength_is_a_weighted_mean_over_all_but_the_partner(members, seed):
    rho, rng = some_rho(seed), np.random.default_rng(seed)
    weights = OpponentWeights(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4)))
    scores = strengths(rho, members, weights)
    assert scores.shape == (3, len(members))
    for sample, row in zip(rho, scores, strict=True):
        assert row == pytest.approx([by_hand(sample, member, weights) for member in members])


def test_the_strength_of_one_role_is_that_of_a_member_whose_other_one_does_nothing():
    """A pair's host meets all agents but its partner, and the other way about."""
    rho = some_rho(0)
    scores = strengths_by_role(rho, PAIRS, uniform(rho))
    assert scores.shape == (3, 2, 2)
    for sample, row in zip(rho, scores, strict=True):
        hosts = [np.log(np.delete(sample[k], k)).mean() for k in range(2)]
        agents = [-np.log(np.delete(sample[:, k], k)).mean() for k in range(2)]
        assert row == pytest.approx(np.stack([hosts, agents], axis=1))
    assert (strengths_by_role(rho, HOSTS, uniform(rho))[..., 1] == 0).all()
    assert (strengths_by_role(rho, AGENTS, uniform(rho))[..., 0] == 0).all()


def test_a_partner_that_is_the_whole_equilibrium_leaves_all_others_alike():
    rho = some_rho(0, (1, 2, 3))
    weights = OpponentWeights(np.array([1.0, 0.0]), np.array([1.0, 0.0, 0.0]))
    (strength,) = strengths(rho, [Places(0, 0)], weights)[0]
    assert strength == pytest.approx(
        (log(rho[0, 0, 1]) + log(rho[0, 0, 2])) / 2 - log(rho[0, 1, 0])
    )


def test_who_meets_its_partner_alone_is_refused():
    with pytest.raises(ValueError, match="opponent besides its own partner"):
        strengths(some_rho(0, (1, 1, 1)), [Places(0, 0)], OpponentWeights(np.ones(1), np.ones(1)))


def test_what_partners_do_together_changes_nothing():
    rho = some_rho(1)
    other = rho.copy()
    other[:, 0, 0] = other[:, 1, 1] = 1e-3
    for measure in (
        lambda results: strengths(results, PAIRS, uniform(rho)),
        lambda results: robustness(results, PAIRS, 0.3),
    ):
        assert measure(other) == pytest.approx(measure(rho))


@given(st.floats(1.01, 5.0), st.integers(0, 20))
def test_one_ratio_counts_alike_in_both_roles(ratio, seed):
    """A host that is faster by a ratio gains what an agent gains that is slower by it."""
    rho = some_rho(seed, (1, 4, 4))
    faster, slower = rho.copy(), rho.copy()
    faster[:, 0, :] *= ratio
    slower[:, :, 0] /= ratio
    weights = uniform(rho)
    before = strengths(rho, PAIRS, weights)[0, 0]
    assert strengths(faster, PAIRS, weights)[0, 0] == pytest.approx(before + log(ratio))
    assert strengths(slower, PAIRS, weights)[0, 0] == pytest.approx(before + log(ratio))


@pytest.mark.parametrize("share", [0.1, 0.34, 1.0])
def test_robustness_is_the_mean_of_the_worst_results(share):
    rho = some_rho(2, (2, 4, 5))
    scores = robustness(rho, [Places(1, 2)], share)
    for sample, (value,) in zip(rho, scores, strict=True):
        as_host = sorted(log(sample[1, q]) for q in range(5) if q != 2)
        as_agent = sorted(-log(sample[p, 2]) for p in range(4) if p != 1)
        assert value == pytest.approx(_worst(as_host, share) + _worst(as_agent, share))


def _worst(ordered, share):
    """Return the mean over the worst share, found by counting each result a thousand times."""
    many = [result for result in ordered for _ in range(1000)]
    return np.mean(many[: round(share * len(many))])


def test_the_whole_share_is_the_uniform_strength():
    rho = some_rho(3)
    assert robustness(rho, PAIRS, 1.0) == pytest.approx(strengths(rho, PAIRS, uniform(rho)))


def test_behaviour_is_what_a_player_does_against_the_panel():
    rho = some_rho(4)[0]
    pair, host, agent = Places(0, 1), Places(2, None), Places(None, 1)
    (behaviour,) = behaviours(rho, [pair], Places(2, 3))
    assert behaviour == pytest.approx(np.log([rho[0, 3], rho[2, 1], rho[3, 1]]))
    (behaviour,) = behaviours(rho, [host], Places(3, 0))
    assert behaviour == pytest.approx(np.log(rho[2]))
    (behaviour,) = behaviours(rho, [agent], Places(0, 2))
    assert behaviour == pytest.approx(np.log(rho[:, 1]))


def test_uniform_weights_count_all_alike():
    weights = opponent_weights(some_rho(0)[0, :3], "uniform")
    assert weights.hosts == pytest.approx([1 / 3] * 3)
    assert weights.agents == pytest.approx([1 / 4] * 4)


def test_an_opponent_of_no_weight_does_not_count():
    # Hosts 0 and 1 each beat one agent (rock and paper); agent 2 loses to both.
    rho = np.array([[0.4, 0.1, 0.5], [0.1, 0.4, 0.5]])
    weights = opponent_weights(rho, "nash")
    assert weights.hosts == pytest.approx([0.5, 0.5])
    assert weights.agents == pytest.approx([0.5, 0.5, 0.0])


def test_copies_share_the_weight_of_one():
    rho = np.array([[0.4, 0.1, 0.1], [0.1, 0.4, 0.4]])
    assert opponent_weights(rho, "nash").agents == pytest.approx([0.5, 0.25, 0.25])


def test_where_no_equilibrium_is_found_all_count_alike(monkeypatch):
    def fail(payoff):
        raise RuntimeError("too close")

    monkeypatch.setattr("hpsearch.population.fitness.max_entropy_equilibrium", fail)
    weights = opponent_weights(some_rho(0)[0], "nash")
    assert weights.hosts == pytest.approx([1 / 4] * 4)
    assert weights.agents == pytest.approx([1 / 4] * 4)
