"""The zero-sum game between a population of hosts and one of agents, solved.

Hosts are the rows and want the payoff high, agents the columns and want it low. Axes: P hosts,
Q agents.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, checked_payoff
from hpsearch.population.ratings.maximum_entropy import REMEDY, maximum_entropy

DIGITS = 9
"""to which payoffs count, as parts of their range; equal but for rounding must not look different,
and the solver of linear programs takes smaller numbers for zero"""
ROUNDING = 1e-14
"""differences, as parts of the largest payoff, that are none"""
SOLVERS = ("highs", "highs-ipm")
"""one gives up on a few degenerate games that the other solves"""
LARGEST_SCALE = 1e6
"""one over the least share, and over the least slack, that are told from zero"""


@dataclass(frozen=True)
class Equilibrium:
    """A pair of strategies from which neither side wants to depart."""

    hosts: Floats
    """(P,) how often each host is played"""
    agents: Floats
    """(Q,) how often each agent is played"""
    value: float
    """what hosts earn by it, in the payoff's unit"""


@dataclass(frozen=True)
class _Interior:
    """Strategies inside the optimal faces, and the slack of every answer against them.

    Up to one common factor. Of a player's share and its slack exactly one is positive.
    """

    hosts: Floats
    agents: Floats
    host_slack: Floats
    """(P,) what each host earns less than the value, against the agents"""
    agent_slack: Floats
    """(Q,) what each agent lets the hosts earn above the value"""


def max_entropy_equilibrium(payoff: npt.ArrayLike) -> Equilibrium:
    """Return the equilibrium of largest entropy, which is unique, to 1e-8 of the payoff's range.

    Source: Balduzzi et al., Re-evaluating evaluation (NeurIPS 2018, arXiv 1806.02643), of which
    appendix D treats the rectangular game.

    Args:
        payoff: (P, Q) what hosts earn, such as rho.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
        RuntimeError: if it is not found, because players or payoffs are too close.
    """
    matrix = checked_payoff(payoff)
    rows, columns = undominated(matrix)
    found = _max_entropy(_Game.of(matrix[np.ix_(rows, columns)]))
    hosts, agents = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    hosts[rows], agents[columns] = found.hosts, found.agents
    return Equilibrium(hosts, agents, found.value)


def _max_entropy(game: "_Game") -> Equilibrium:
    """Return the equilibrium of largest entropy of a game, its value in the payoff's unit."""
    some = _some_equilibrium(game.payoff)
    play_host, play_agent = some.hosts > 0, some.agents > 0
    played = np.ix_(play_host, play_agent)
    hosts, agents = np.zeros_like(some.hosts), np.zeros_like(some.agents)
    hosts[play_host] = maximum_entropy(
        some.hosts[play_host],
        tight=game.payoff[played],
        loose=game.payoff[np.ix_(play_host, ~play_agent)],
        value=some.value,
    )
    agents[play_agent] = maximum_entropy(
        some.agents[play_agent],
        tight=-game.payoff[played].T,
        loose=-game.payoff[np.ix_(~play_host, play_agent)].T,
        value=-some.value,
    )
    return Equilibrium(hosts, agents, game.in_its_unit(some.value))


def game_value(payoff: npt.ArrayLike) -> float:
    """Return what hosts earn in every equilibrium, to 1e-8 of the payoff's range.

    Args:
        payoff: (P, Q) what hosts earn.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
        RuntimeError: if it is not found, because players or payoffs are too close.
    """
    matrix = checked_payoff(payoff)
    game = _Game.of(matrix[np.ix_(*undominated(matrix))])
    return game.in_its_unit(_some_equilibrium(game.payoff).value)


def undominated(payoff: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the hosts and the agents who are left when whoever is strictly dominated has gone.

    Whoever another of its side surpasses against everybody is played in no equilibrium. It goes
    first, so that one hopeless player does not make the differences of all others look small; those
    who are left may dominate each other, and so on.

    Args:
        payoff: (P, Q).

    Returns:
        Indices of rows and of columns, ascending; at least one of each.
    """
    rows, columns = np.arange(len(payoff)), np.arange(payoff.shape[1])
    while True:
        left = payoff[np.ix_(rows, columns)]
        keep_rows, keep_columns = _undominated_rows(left), _undominated_rows(-left.T)
        if keep_rows.all() and keep_columns.all():
            return rows, columns
        rows, columns = rows[keep_rows], columns[keep_columns]


def _undominated_rows(payoff: Floats) -> npt.NDArray[np.bool_]:
    # Beyond the digits that count, so that players who are equal but for rounding stay equal.
    least = 10.0**-DIGITS * float(np.ptp(payoff))
    return np.array([not (payoff > row + least).all(axis=1).any() for row in payoff])


@dataclass(frozen=True)
class _Game:
    """A payoff from 0 to 1, and what it was before."""

    payoff: Floats
    """(P, Q)"""
    low: float
    spread: float

    @classmethod
    def of(cls, matrix: Floats) -> "_Game":
        low, spread = float(matrix.min()), float(np.ptp(matrix))
        if spread <= ROUNDING * float(np.abs(matrix).max()):
            return cls(np.zeros_like(matrix), low, 0.0)
        return cls(np.round((matrix - low) / spread, DIGITS), low, spread)

    def in_its_unit(self, value: float) -> float:
        return self.low + self.spread * value


def _some_equilibrium(payoff: Floats) -> Equilibrium:
    """Return an equilibrium in which everybody is played who is played in any."""
    inside = _interior(payoff)
    hosts = np.where(inside.hosts > inside.host_slack, inside.hosts, 0.0)
    agents = np.where(inside.agents > inside.agent_slack, inside.agents, 0.0)
    hosts, agents = hosts / hosts.sum(), agents / agents.sum()
    return Equilibrium(hosts, agents, float(hosts @ payoff @ agents))


def _interior(payoff: Floats) -> _Interior:
    """Return strategies of largest support, by one linear program.

    Strategies x, y are optimal just if x earns at least w against every agent, and y concedes at
    most w to every host. By Goldman and Tucker (1956) some such pair has, for every player, either
    its share or its slack positive. All of this may be scaled, so that pair makes, summed over
    players, min(share, 1) + min(slack, 1) as large as it can be (Freund, Roundy and Todd 1985).
    """
    # Imported here, because scipy.optimize takes a third of a second.
    from scipy.optimize import linprog

    p, q = payoff.shape
    zero_p, zero_q = np.zeros((p, p)), np.zeros((q, q))
    cross, one_p, one_q = np.zeros((p, q)), np.ones((p, 1)), np.ones((q, 1))
    none_p, none_q = np.zeros((p, 1)), np.zeros((q, 1))
    id_p, id_q = np.eye(p), np.eye(q)
    # Columns: x, y, w, scale, and of each what counts up to 1: x, y, host slack, agent slack.
    at_most = np.block(
        [
            [-id_p, cross, none_p, none_p, id_p, cross, zero_p, cross],
            [cross.T, -id_q, none_q, none_q, cross.T, id_q, cross.T, zero_q],
            [zero_p, payoff, -one_p, none_p, zero_p, cross, id_p, cross],
            [-payoff.T, zero_q, one_q, none_q, cross.T, zero_q, cross.T, id_q],
        ]
    )
    counted = p + q
    sums = np.zeros((2, 2 + 3 * counted))
    sums[0, :p], sums[1, p:counted], sums[:, counted + 1] = 1.0, 1.0, -1.0
    for method in SOLVERS:
        solved = linprog(
            np.concatenate([np.zeros(counted + 2), -np.ones(2 * counted)]),
            A_ub=at_most,
            b_ub=np.zeros(2 * counted),
            A_eq=sums,
            b_eq=np.zeros(2),
            bounds=[
                *[(0, None)] * counted,
                *((None, None), (1, LARGEST_SCALE)),
                *[(0, 1)] * 2 * counted,
            ],
            method=method,
        )
        if solved.status == 0:
            break
    if solved.status != 0:
        raise RuntimeError(
            f"the equilibrium of {p} hosts x {q} agents failed: {solved.message}; {REMEDY}"
        )
    x, y, w = solved.x[:p], solved.x[p:counted], solved.x[counted]
    return _Interior(x, y, host_slack=w - payoff @ y, agent_slack=x @ payoff - w)
