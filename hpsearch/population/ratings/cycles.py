"""Cycles of best answers: agent x holds host a down, host b beats x, agent y holds b down.

Where there is one, no host is the best, and training against the newest opponent alone goes round.
Axes: P hosts, Q agents.
"""

from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from hpsearch.population.arrays import Floats, Ints, checked_payoff
from hpsearch.population.normal import num_errors


@dataclass(frozen=True)
class Cycle:
    """``agents[k]`` answers ``hosts[k]``, ``hosts[k + 1]`` answers ``agents[k]``, and so round."""

    hosts: tuple[int, ...]
    agents: tuple[int, ...]
    strength: float
    """the least that a side gains by a switch, in the payoff's unit"""


def best_response_cycles(payoff: npt.ArrayLike, *, margin: float) -> list[Cycle]:
    """Return every cycle into which alternating best answers lead, strongest first.

    From each host, agents and hosts in turn switch to their best answer, the first one of equals,
    if that gains more than ``margin``. A pair from which neither side switches is no cycle.

    Args:
        payoff: (P, Q) what hosts earn, and agents lose.
        margin: gain below which nobody switches, such as twice a standard error.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers.
    """
    matrix = checked_payoff(payoff)
    found: dict[tuple[tuple[int, int], ...], Cycle] = {}
    for host in range(len(matrix)):
        path = [_answered(matrix, (host, int(matrix[host].argmin())), margin)]
        while path[-1] not in path[:-1]:
            path.append(_answered(matrix, path[-1], margin))
        states = path[path.index(path[-1]) : -1]
        if len(states) > 1:
            first = states.index(min(states))
            states = states[first:] + states[:first]
            found[tuple(states)] = _cycle(matrix, states)
    return sorted(found.values(), key=lambda cycle: -cycle.strength)


def swap_cycles(
    payoff: npt.ArrayLike, *, errors: npt.ArrayLike, confidence: float, num_cycles: int
) -> list[Cycle]:
    """Return the strongest cycles of two hosts and two agents, at most ``num_cycles``.

    Host a does better than b against x, b better than a against y; agent y holds a down better than
    x does, and x holds b down better than y does. The strength is the least of these four gains,
    each at the lower end of its interval, and above zero.

    Args:
        payoff: (P, Q) what hosts earn, and agents lose.
        errors: (P, Q) standard errors of the payoff, taken as independent, or one for all.
        confidence: of the intervals of the gains.
        num_cycles: how many at most.

    Raises:
        ValueError: if the payoff is not a matrix of finite numbers, or confidence is out of range.
    """
    matrix = checked_payoff(payoff)
    reach = num_errors(confidence) * np.asarray(errors, dtype=np.float64)
    squares = np.square(np.broadcast_to(reach, matrix.shape))
    found: list[Cycle] = []
    for a, b in combinations(range(len(matrix)), 2):
        gains = _swap_gains(matrix[a], matrix[b], square_a=squares[a], square_b=squares[b])
        for flat in _largest(gains, num_cycles):
            x, y = divmod(int(flat), gains.shape[1])
            # From a, agent x would let it be; agent y answers a, b answers y, x answers b.
            found.append(Cycle((a, b), (y, x), float(gains[x, y])))
    return sorted(found, key=lambda cycle: -cycle.strength)[:num_cycles]


def _answered(matrix: Floats, state: tuple[int, int], margin: float) -> tuple[int, int]:
    """Return host and agent after the host answered the agent, and the agent that host."""
    host, agent = state
    best = int(matrix[:, agent].argmax())
    if matrix[best, agent] - matrix[host, agent] > margin:
        host = best
    worst = int(matrix[host].argmin())
    if matrix[host, agent] - matrix[host, worst] > margin:
        agent = worst
    return host, agent


def _cycle(matrix: Floats, states: list[tuple[int, int]]) -> Cycle:
    gains = []
    for (host, agent), (next_host, next_agent) in zip(states, states[1:] + states[:1], strict=True):
        if next_host != host:
            gains.append(matrix[next_host, agent] - matrix[host, agent])
        if next_agent != agent:
            gains.append(matrix[next_host, agent] - matrix[next_host, next_agent])
    hosts, agents = zip(*states, strict=True)
    return Cycle(hosts, agents, float(min(gains)))


def _swap_gains(a: Floats, b: Floats, *, square_a: Floats, square_b: Floats) -> Floats:
    """Return the least certain gain (Q, Q) of the cycle through agents x (rows) and y (columns).

    Args:
        a: (Q,) what the first host earns.
        b: (Q,) what the second host earns.
        square_a: (Q,) squares of how far the intervals of ``a`` reach.
        square_b: the same of ``b``.
    """
    between = np.sqrt(square_a + square_b)
    ahead, behind = a - b - between, b - a - between
    within_a = a[:, None] - a - np.sqrt(square_a[:, None] + square_a)
    within_b = b - b[:, None] - np.sqrt(square_b[:, None] + square_b)
    gains: Floats = np.minimum(np.minimum(ahead[:, None], behind), np.minimum(within_a, within_b))
    return gains


def _largest(gains: Floats, num_cycles: int) -> Ints:
    """Return the flat places of the largest positive gains, at most ``num_cycles``."""
    order = np.argsort(-gains, axis=None, kind="stable")[:num_cycles]
    places: Ints = order[gains.ravel()[order] > 0]
    return places
