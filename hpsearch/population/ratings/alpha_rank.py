"""alpha-rank: how often evolution between hosts and agents visits every pair.

Source: Omidshafiei et al., alpha-Rank: multi-agent evaluation by evolution (Scientific Reports 9,
2019; arXiv 1903.01373), the model of several populations, under selection of infinite intensity.
All hosts of a population play alike, and so do all agents; now and then a mutant appears in one of
them, and either takes over or dies out.
Axes: P hosts, Q agents, S = P * Q pairs; pair (p, q) is state p * Q + q.
"""

import numpy as np
from numpy.typing import ArrayLike

from hpsearch.population.statistics import Floats, checked_payoff


def alpha_rank_limit(host_payoff: ArrayLike, agent_payoff: ArrayLike, *, noise: float) -> Floats:
    """Return how often evolution visits each pair, float64 (P, Q), which sums to 1.

    Sums over a player's pairs are its own share; high is strong.

    A better mutant takes over, a worse one does not, and one that is as good does half the time;
    each of this but for the share ``noise``, which keeps the chain irreducible, as the paper does
    for its Markov-Conley chains. Lower it until the ranking no longer changes. Time grows with S^3
    and memory with S^2, so rank the strongest few dozen of each side. Payoffs are (P, Q), in our
    game of one size and opposite sign.
    """
    if not 0 < noise < 0.5:
        raise ValueError(f"noise must lie above 0 and below 1/2, got {noise!r}")
    host, agent = checked_payoff(host_payoff), checked_payoff(agent_payoff)
    if host.shape != agent.shape:
        raise ValueError(f"payoffs must have one shape, got {host.shape=}, {agent.shape=}")

    def takes_over(gain: Floats) -> Floats:
        return np.where(gain > 0, 1.0 - noise, np.where(gain < 0, noise, 0.5))

    host_gain = host[None, :, :] - host[:, None, :]  # [i, k, j]: host k in the place of host i
    agent_gain = agent[:, None, :] - agent[:, :, None]  # [i, j, k]: agent k in that of agent j
    chain = _transitions(takes_over(host_gain), takes_over(agent_gain))
    return stationary_distribution(chain).reshape(host.shape)


def _transitions(host_chance: Floats, agent_chance: Floats) -> Floats:
    """Return the chances (S, S) to go from pair to pair; the diagonal is left at zero."""
    p, q = agent_chance.shape[:2]
    chain = np.zeros((p, q, p, q))
    host, agent = np.arange(p), np.arange(q)
    chain[:, agent, :, agent] = host_chance.transpose(2, 0, 1)
    chain[host, :, host, :] += agent_chance
    scaled: Floats = chain.reshape(p * q, p * q) / max(p + q - 2, 1)
    np.fill_diagonal(scaled, 0.0)
    return scaled


def stationary_distribution(transitions: Floats) -> Floats:
    """Return how often an irreducible chain is in each state in the long run, (S,).

    ``transitions`` (S, S) go from a row to a column; the diagonal does not count. States are taken
    out one after another, without a subtraction, so that tiny probabilities come out to full
    relative accuracy: Grassmann, Taksar and Heyman, Operations Research 33 (1985). ValueError if
    some state cannot be left for the ones before it.
    """
    chain = np.array(transitions, dtype=np.float64)
    for last in range(len(chain) - 1, 0, -1):
        leaving = chain[last, :last].sum()
        if leaving <= 0.0:
            raise ValueError(f"the chain must be irreducible, but state {last} is not left")
        chain[:last, last] /= leaving
        chain[:last, :last] += np.outer(chain[:last, last], chain[last, :last])
    weights = np.ones(len(chain))
    for state in range(1, len(chain)):
        weights[state] = weights[:state] @ chain[:state, state]
        if weights[state] > 1e100:  # one state may be visited e^500 times as often as another
            weights[: state + 1] /= weights[state]
    return np.asarray(weights / weights.sum())
