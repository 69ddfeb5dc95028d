"""How much of a payoff is not told by one strength for each player. Axes: P hosts, Q agents.

On the graph in which every host meets every agent, the combinatorial Hodge decomposition (Jiang,
Lim, Yao and Ye, Mathematical Programming 127, 2011; Balduzzi et al. 2018 for tournaments) splits a
payoff into a transitive part, a number for the host less one for the agent, and a cyclic part,
which sums to zero over the opponents of every player. Payoffs that only bend the scale of
strengths count as cyclic too, so compare the shares of rho and of log rho, and look at `cycles`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_payoff


@dataclass(frozen=True)
class Decomposition:
    """payoff = mean + hosts - agents + cyclic."""

    mean: float
    hosts: Floats
    """(P,) sums to zero; high is strong"""
    agents: Floats
    """(Q,) sums to zero; high is strong"""
    cyclic: Floats
    """(P, Q) every row and every column sums to zero"""

    @property
    def cyclic_share(self) -> float:
        """Part of the payoff's variance that is cyclic, 0 for a payoff that is all alike."""
        cyclic, total = np.square(self.cyclic).sum(), self.square_differences
        return float(cyclic / total) if total else 0.0

    @property
    def square_differences(self) -> float:
        """Return the sum of squares around the mean."""
        return float(np.square(self.hosts[:, None] - self.agents + self.cyclic).sum())


def decompose(payoff: npt.ArrayLike) -> Decomposition:
    """Split what hosts earn (P, Q) into what each player and what each pair contributes.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
    """
    matrix = checked_payoff(payoff)
    # From one of them, so that rounding is no difference where all are alike.
    shift = float(matrix[0, 0])
    above = matrix - shift
    mean = above.mean()
    hosts, agents = above.mean(axis=1) - mean, mean - above.mean(axis=0)
    cyclic = above - mean - hosts[:, None] + agents
    return Decomposition(shift + float(mean), hosts, agents, cyclic)


def cyclic_share_beyond_noise(payoff: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Return the cyclic share that measurement noise does not explain, between 0 and 1.

    Independent noise of variance s^2 in a cell adds s^2 (1 - 1/P)(1 - 1/Q) to the cyclic sum of
    squares and s^2 (1 - 1/PQ) to that around the mean; both are taken off.

    Args:
        payoff: (P, Q) what hosts earn.
        errors: (P, Q) standard errors of it, or one for all.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
    """
    matrix = checked_payoff(payoff)
    p, q = matrix.shape
    noise = np.square(np.broadcast_to(np.asarray(errors, dtype=np.float64), matrix.shape)).sum()
    found = decompose(matrix)
    cyclic = np.square(found.cyclic).sum() - noise * (1 - 1 / p) * (1 - 1 / q)
    total = found.square_differences - noise * (1 - 1 / (p * q))
    return float(np.clip(cyclic / total, 0.0, 1.0)) if total > 0 else 0.0
