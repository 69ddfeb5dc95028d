"""Nash averaging: players rated by what they earn against the opponents that matter.

Copies of a player, and players that nobody would choose, change nobody else's rating.
Axes: P hosts, Q agents.
"""

from dataclasses import dataclass

import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_payoff
from hpsearch.population.ratings.equilibrium import Equilibrium, max_entropy_equilibrium


@dataclass(frozen=True)
class NashRatings:
    """Ratings in the payoff's unit; those who are played in the equilibrium have its value."""

    hosts: Floats
    """(P,) what each host earns against the agents of the equilibrium; high is strong"""
    agents: Floats
    """(Q,) what each agent concedes to the hosts of the equilibrium; low is strong"""
    equilibrium: Equilibrium


def nash_averaging(payoff: npt.ArrayLike) -> NashRatings:
    """Rate hosts and agents by the equilibrium of largest entropy.

    Source: Balduzzi et al. (arXiv 1806.02643); appendix D for two populations.
    The ratings jump where the equilibrium does, so rate resampled payoffs too (``resampling``).

    Args:
        payoff: (P, Q) what hosts earn, such as rho.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
        RuntimeError: if the equilibrium is not found; see `max_entropy_equilibrium`.
    """
    matrix = checked_payoff(payoff)
    equilibrium = max_entropy_equilibrium(matrix)
    return NashRatings(matrix @ equilibrium.agents, equilibrium.hosts @ matrix, equilibrium)
