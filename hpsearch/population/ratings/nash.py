"""The zero-sum game between a population of hosts and one of agents, solved.

Hosts are the rows and want the payoff high, agents the columns and want it low. Of all equilibria
the one of largest entropy rates players (Nash averaging): copies of a player, and players that none
would choose, change no other rating. Source: Balduzzi et al., Re-evaluating evaluation (NeurIPS
2018, arXiv 1806.02643), of which appendix D treats the rectangular game.

A linear program finds the optimal face of each side: the support of its strategies, the opponents'
answers that always hold the player to the value, and a point inside. What is left is a smooth
concave problem, solved by Newton steps within the face, with a logarithmic barrier for the answers
that could come to bind (Boyd and Vandenberghe, Convex Optimization, 2004, section 11.3).

Axes: P hosts, Q agents; of one side S strategies in its support.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.statistics import Floats, checked_payoff

REMEDY = (
    "leave out players that are copies of others, and look at the payoff's scale: differences "
    "below 1e-9 of its range do not count"
)
"""what helps where numbers are too close"""
DIGITS = 9
"""to which payoffs count, as parts of their range; equal but for rounding must not look different,
and the solver of linear programs takes smaller numbers for zero"""
ROUNDING = 1e-14  # differences, as parts of the largest payoff, that are none
SOLVERS = ("highs", "highs-ipm")  # one gives up on a few degenerate games that the other solves
LARGEST_SCALE = 1e6  # one over the least share, and over the least slack, that are told from zero


@dataclass(frozen=True)
class Equilibrium:
    """A pair of strategies from which neither side wants to depart."""

    hosts: Floats  # (P,) how often each host is played
    agents: Floats  # (Q,) how often each agent is played
    value: float  # what hosts earn by it, in the payoff's unit


def max_entropy_equilibrium(payoff: npt.ArrayLike) -> Equilibrium:
    """Return the equilibrium of largest entropy, which is unique, to 1e-8 of the payoff's range.

    ``payoff`` (P, Q) is what hosts earn, such as rho. ValueError if it is not a matrix of finite
    numbers, RuntimeError if players or payoffs are too close.
    """
    matrix = checked_payoff(payoff)
    rows, columns = undominated(matrix)
    left = matrix[np.ix_(rows, columns)]
    low, spread = float(left.min()), float(np.ptp(left))
    scaled = np.zeros_like(left)
    if spread <= ROUNDING * float(np.abs(left).max()):
        spread = 0.0
    else:
        scaled = np.round((left - low) / spread, DIGITS)
    x, y = _largest_support(scaled)
    value = float(x @ scaled @ y)
    is_host, is_agent = x > 0, y > 0
    tight = scaled[np.ix_(is_host, is_agent)]
    loose_agents = scaled[np.ix_(is_host, ~is_agent)]
    loose_hosts = scaled[np.ix_(~is_host, is_agent)]
    hosts, agents = np.zeros(len(matrix)), np.zeros(matrix.shape[1])
    hosts[rows[is_host]] = _maximum_entropy(x[is_host], tight, loose_agents, value)
    agents[columns[is_agent]] = _maximum_entropy(y[is_agent], -tight.T, -loose_hosts.T, -value)
    return Equilibrium(hosts, agents, low + spread * value)


def undominated(payoff: Floats) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Return the rows and the columns that are left without the strictly dominated ones, ascending.

    A player that another of its side surpasses against all opponents is in no equilibrium. It goes
    first, so that one hopeless player does not make the differences of all others look small; those
    who are left may dominate each other, and so on.
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


def _largest_support(payoff: Floats) -> tuple[Floats, Floats]:
    """Return an equilibrium (P,), (Q,) that plays all players which any equilibrium plays."""
    x, y, w = _interior(payoff)
    # Of a player's share and its slack exactly one is positive.
    hosts = np.where(x > w - payoff @ y, x, 0.0)
    agents = np.where(y > x @ payoff - w, y, 0.0)
    return hosts / hosts.sum(), agents / agents.sum()


def _interior(payoff: Floats) -> tuple[Floats, Floats, float]:
    """Return strategies x, y of largest support and the value w, up to one common factor.

    Strategies x, y are optimal just if x earns at least w against every agent, and y concedes at
    most w to every host. By Goldman and Tucker (1956) some such pair has, for every player, either
    its share or its slack positive. All of this may be scaled, so that pair makes, summed over
    players, min(share, 1) + min(slack, 1) as large as it can be (Freund, Roundy and Todd 1985).
    """
    # Imported here, because scipy.optimize takes a third of a second.
    from scipy.optimize import linprog

    p, q = payoff.shape
    num = p + q
    # Columns: the shares x and y, w, the scale, and what counts up to 1 of shares and of slacks.
    identity, zero = np.eye(num), np.zeros((num, num))
    game, value = zero.copy(), np.ones((num, 1))
    game[:p, p:], game[p:, :p], value[:p] = payoff, -payoff.T, -1.0
    at_most = np.block(
        [
            [-identity, np.zeros((num, 2)), identity, zero],
            [game, value, np.zeros((num, 1)), zero, identity],
        ]
    )
    sums = np.zeros((2, 2 + 3 * num))
    sums[0, :p], sums[1, p:num], sums[:, num + 1] = 1.0, 1.0, -1.0
    objective = np.concatenate([np.zeros(num + 2), -np.ones(2 * num)])
    scale = (1, LARGEST_SCALE)
    bounds = [*[(0, None)] * num, (None, None), scale, *[(0, 1)] * 2 * num]
    for method in SOLVERS:
        solved = linprog(
            objective, at_most, np.zeros(2 * num), sums, np.zeros(2), bounds, method=method
        )
        if solved.status == 0:
            return solved.x[:p], solved.x[p:num], solved.x[num]
    raise RuntimeError(
        f"the equilibrium of {p} hosts x {q} agents failed: {solved.message}; {REMEDY}"
    )


BARRIERS = tuple(10.0**-k for k in range(1, 12))
MAX_STEPS = 60
RANK_TOLERANCE = 1e-9
ENOUGH = 1e-24  # squared Newton decrement, twice the entropy that is still to be won
BEARABLE = 1e-10  # the same, where rounding ends the search


def _maximum_entropy(inside: Floats, tight: Floats, loose: Floats, value: float) -> Floats:
    """Return the optimal strategy of largest entropy, (S,); RuntimeError if it is not found.

    ``inside`` (S,) is a strategy whose entries are all positive. Against the answers ``tight``
    (S, T) every optimal strategy earns the ``value`` of the game; against ``loose`` (S, L), the
    others, ``inside`` earns more.
    """
    face = _directions(tight)
    if not face.shape[1]:
        return inside
    place, decrement = np.zeros(face.shape[1]), np.inf
    for barrier in BARRIERS if loose.shape[1] else (0.0,):
        place, decrement = _climb(place, inside, face, loose, value, barrier)
    # A barrier that ended early only makes the next one's way longer.
    if not decrement < BEARABLE:
        raise RuntimeError(
            f"the strategy of largest entropy of {len(inside)} players was not found in "
            f"{MAX_STEPS} steps; {REMEDY}"
        )
    return inside + face @ place


def _directions(tight: Floats) -> Floats:
    """Return an orthonormal basis (S, F) of the steps that stay within the face."""
    # A step leaves the sum of the strategy alone, and what it earns against every tight answer.
    fixed = np.vstack([tight.T, np.ones((1, len(tight)))])
    _, singular, rows = np.linalg.svd(fixed)
    rank = int((singular > RANK_TOLERANCE * max(1.0, singular[0])).sum())
    return np.asarray(rows[rank:].T)


def _climb(
    place: Floats, inside: Floats, face: Floats, loose: Floats, value: float, barrier: float
) -> tuple[Floats, float]:
    """Return, by damped Newton steps, where entropy plus barrier is largest, and the decrement."""

    def cost(at: Floats) -> float:
        strategy = inside + face @ at
        slack = strategy @ loose - value
        if strategy.min() <= 0.0 or (slack <= 0.0).any():
            return np.inf
        return float(strategy @ np.log(strategy) - barrier * np.log(slack).sum())

    decrement = np.inf
    for _ in range(MAX_STEPS):
        strategy = inside + face @ place
        slack = strategy @ loose - value
        gradient = face.T @ (np.log(strategy) + 1.0 - barrier * loose @ (1.0 / slack))
        bend = np.diag(1.0 / strategy) + barrier * (loose / slack**2) @ loose.T
        step = -np.linalg.solve(face.T @ bend @ face, gradient)
        decrement = float(-gradient @ step)
        if decrement < ENOUGH:
            break
        here, length = cost(place), 1.0
        while cost(place + length * step) > here - 0.1 * length * decrement and length > 1e-12:
            length /= 2
        if length <= 1e-12:  # as near as float64 can tell
            break
        place = place + length * step
    return place, decrement


@dataclass(frozen=True)
class NashRatings:
    """Ratings in the payoff's unit; those who are played in the equilibrium have its value."""

    hosts: Floats  # (P,) what each host earns against the agents of the equilibrium; high is strong
    agents: Floats  # (Q,) what each agent concedes to the hosts of the equilibrium; low is strong
    equilibrium: Equilibrium


def nash_averaging(payoff: npt.ArrayLike) -> NashRatings:
    """Rate hosts and agents by the equilibrium of largest entropy; see `max_entropy_equilibrium`.

    The ratings jump where the equilibrium does, so rate resampled payoffs too (`resampled_rho`).
    """
    matrix = checked_payoff(payoff)
    equilibrium = max_entropy_equilibrium(matrix)
    return NashRatings(matrix @ equilibrium.agents, equilibrium.hosts @ matrix, equilibrium)


def nash_conv(payoff: npt.ArrayLike, equilibrium: Equilibrium) -> float:
    """Return what best answers take from both sides together, in the payoff's unit.

    It is 0 just in an equilibrium of the payoff (Lanctot et al. 2017, arXiv 1711.00832).
    """
    matrix = checked_payoff(payoff)
    conceded, earned = matrix @ equilibrium.agents, equilibrium.hosts @ matrix
    return max(float(conceded.max() - earned.min()), 0.0)
