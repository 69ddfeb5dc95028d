"""alpha-rank: how often evolution between hosts and agents visits every pair.

Source: Omidshafiei et al., alpha-Rank: multi-agent evaluation by evolution (Scientific Reports 9,
2019; arXiv 1903.01373), the model of several populations. All hosts of a population play alike, and
so do all agents; now and then a mutant appears in one of them, and either takes over or dies out.
Axes: P hosts, Q agents, S = P * Q pairs; pair (p, q) is state p * Q + q.

How often a Markov chain is in each of its states in the long run. Axes: S states.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.statistics import Floats, checked_payoff


def stationary_distribution(transitions: Floats) -> Floats:
    """Return the stationary distribution (S,) of an irreducible chain.

    States are taken out one after another, without a subtraction, so also tiny probabilities
    come out to full relative accuracy: Grassmann, Taksar and Heyman, Operations Research 33 (1985).

    Args:
        transitions: (S, S) chances to go from a row to a column; the diagonal is not looked at.

    Raises:
        ValueError: if some state cannot be left for the ones before it, so the chain is reducible.
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
    distribution: Floats = weights / weights.sum()
    return distribution


TINY = 1e-200
"""least chance of a takeover, so that the chain stays irreducible where e^-x is zero in float64"""


@dataclass(frozen=True)
class AlphaRank:
    """How often evolution visits each pair, and so each player."""

    pairs: Floats
    """(P, Q), sums to 1"""

    @property
    def hosts(self) -> Floats:
        """Shares (P,); high is strong."""
        shares: Floats = self.pairs.sum(axis=1)
        return shares

    @property
    def agents(self) -> Floats:
        """Shares (Q,); high is strong."""
        shares: Floats = self.pairs.sum(axis=0)
        return shares


def alpha_rank(
    host_payoff: npt.ArrayLike, agent_payoff: npt.ArrayLike, *, alpha: float, population_size: int
) -> AlphaRank:
    """Rank by evolution under selection of finite intensity.

    Time grows with S^3 and memory with S^2, so rank the strongest few dozen of each side.

    Args:
        host_payoff: (P, Q) what hosts earn.
        agent_payoff: (P, Q) what agents earn, ``-host_payoff`` in our game.
        alpha: intensity of selection, in one over the payoff's unit; raise it until the ranking no
            longer changes, or see `alpha_rank_limit`.
        population_size: individuals of each population, at least 2.

    Raises:
        ValueError: if the payoffs are not finite matrices of one shape, alpha is not a positive
            number, or a population is too small.
    """
    if not 0 < alpha < np.inf:
        raise ValueError(f"alpha must be positive and finite, got {alpha!r}; see alpha_rank_limit")
    if population_size < 2:
        raise ValueError(f"population_size must be at least 2, got {population_size}")
    return _rank(host_payoff, agent_payoff, lambda gain: _takes_over(alpha * gain, population_size))


def alpha_rank_limit(
    host_payoff: npt.ArrayLike, agent_payoff: npt.ArrayLike, *, noise: float
) -> AlphaRank:
    """Rank by evolution under selection of infinite intensity.

    A better mutant takes over, a worse one does not, and one that is as good does half the time;
    each of this but for the share ``noise``, which keeps the chain irreducible, as the paper does
    for its Markov-Conley chains. Lower it until the ranking no longer changes.

    Raises:
        ValueError: if the payoffs are not finite matrices of one shape, or noise is too large.
    """
    if not 0 < noise < 0.5:
        raise ValueError(f"noise must lie above 0 and below 1/2, got {noise!r}")
    return _rank(
        host_payoff,
        agent_payoff,
        lambda gain: np.where(gain > 0, 1.0 - noise, np.where(gain < 0, noise, 0.5)),
    )


def _rank(
    host_payoff: npt.ArrayLike, agent_payoff: npt.ArrayLike, takes_over: Callable[[Floats], Floats]
) -> AlphaRank:
    """Rank, given the chance that a mutant takes over as a function of what it gains."""
    host, agent = checked_payoff(host_payoff), checked_payoff(agent_payoff)
    if host.shape != agent.shape:
        raise ValueError(f"payoffs must have one shape, got {host.shape=}, {agent.shape=}")
    host_gain = host[None, :, :] - host[:, None, :]  # [i, k, j]: host k in the place of host i
    agent_gain = agent[:, None, :] - agent[:, :, None]  # [i, j, k]: agent k in that of agent j
    chain = _transitions(takes_over(host_gain), takes_over(agent_gain))
    return AlphaRank(stationary_distribution(chain).reshape(host.shape))


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


def _takes_over(gain: Floats, size: int) -> Floats:
    """Return (1 - e^-x) / (1 - e^-mx) for the gain x of a mutant among m, 1/m where x is 0."""
    distance = np.maximum(np.abs(gain), 1e-12)
    upward = np.expm1(-distance) / np.expm1(-size * distance)
    chances: Floats = np.where(gain < 0, upward * np.exp(-(size - 1) * distance), upward)
    return np.maximum(chances, TINY)
