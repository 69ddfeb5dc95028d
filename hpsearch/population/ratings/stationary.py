"""How often a Markov chain is in each of its states in the long run. Axes: S states."""

import numpy as np

from hpsearch.population.arrays import Floats


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
