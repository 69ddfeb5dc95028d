"""Cycles of best answers: agent x is the best against host a, host b against x, agent y against b.

Where there is one, no host is the best, and training against the newest opponent alone goes round.
How much of a payoff is cyclic is told by a Hodge decomposition (Jiang, Lim, Yao, Ye, Mathematical
Programming 127, 2011; Balduzzi et al. 2018 for tournaments): a number for the host less one for the
agent, and a cyclic part, which sums to zero over the opponents of every player. Payoffs that only
bend the scale of strengths count as cyclic too, so compare the shares of rho and of log rho.
Axes: P hosts, Q agents, G games of each pair.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from hpsearch.population.ratings.nash import max_entropy_equilibrium
from hpsearch.population.statistics import (
    Floats,
    Ints,
    checked_payoff,
    num_errors,
    rho_errors,
)


@dataclass(frozen=True)
class Cycle:
    """``agents[k]`` answers ``hosts[k]``, ``hosts[k + 1]`` answers ``agents[k]``, and so round."""

    hosts: tuple[int, ...]
    agents: tuple[int, ...]
    strength: float  # the least that a side gains by a switch, in the payoff's unit

    def named(self, hosts: Sequence[str], agents: Sequence[str]) -> dict[str, Any]:
        """Return it as events and JSON hold it, its players by their names."""
        return {
            "hosts": [hosts[row] for row in self.hosts],
            "agents": [agents[column] for column in self.agents],
            "strength": self.strength,
        }


def best_response_cycles(payoff: npt.ArrayLike, *, margin: float) -> list[Cycle]:
    """Return every cycle into which alternating best answers lead, strongest first.

    From each host, agents and hosts in turn switch to their best answer by the payoff (P, Q), the
    first one of equals, if that gains more than ``margin``, such as twice a standard error. A pair
    from which neither side switches is no cycle.
    """
    matrix = checked_payoff(payoff)
    cycles: dict[tuple[tuple[int, int], ...], Cycle] = {}
    for host in range(len(matrix)):
        path = [_answered(matrix, (host, int(matrix[host].argmin())), margin)]
        while path[-1] not in path[:-1]:
            path.append(_answered(matrix, path[-1], margin))
        states = path[path.index(path[-1]) : -1]
        if len(states) > 1:
            first = states.index(min(states))
            states = states[first:] + states[:first]
            cycles[tuple(states)] = _cycle(matrix, states)
    return sorted(cycles.values(), key=lambda cycle: -cycle.strength)


def swap_cycles(
    payoff: npt.ArrayLike, *, errors: npt.ArrayLike, confidence: float, num_cycles: int
) -> list[Cycle]:
    """Return the strongest cycles of two hosts and two agents, at most ``num_cycles``.

    Host a does better than b against x, b better than a against y; agent y holds a down better than
    x does, and x holds b better. The strength is the least of these four gains, each at the lower
    end of its interval, and above zero. Standard ``errors`` (P, Q), or one for all, are taken as
    independent.
    """
    matrix = checked_payoff(payoff)
    reach = num_errors(confidence) * np.asarray(errors, dtype=np.float64)
    squares = np.square(np.broadcast_to(reach, matrix.shape))
    cycles: list[Cycle] = []
    for a, b in combinations(range(len(matrix)), 2):
        gains = _swap_gains(matrix[a], matrix[b], square_a=squares[a], square_b=squares[b])
        order = np.argsort(-gains, axis=None, kind="stable")[:num_cycles]  # flat places
        for flat in order[gains.ravel()[order] > 0]:
            x, y = divmod(int(flat), gains.shape[1])
            # From a, agent x would let it be; agent y answers a, b answers y, x answers b.
            cycles.append(Cycle((a, b), (y, x), float(gains[x, y])))
    return sorted(cycles, key=lambda cycle: -cycle.strength)[:num_cycles]


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

    All arguments are (Q,): what two hosts earn, and the squares of how far their intervals reach.
    """
    between = np.sqrt(square_a + square_b)
    ahead, behind = a - b - between, b - a - between
    within_a = a[:, None] - a - np.sqrt(square_a[:, None] + square_a)
    within_b = b - b[:, None] - np.sqrt(square_b[:, None] + square_b)
    return np.minimum(np.minimum(ahead[:, None], behind), np.minimum(within_a, within_b))


def cyclic_share_beyond_noise(payoff: npt.ArrayLike, errors: npt.ArrayLike) -> float:
    """Return the cyclic share of a payoff's variance, less measurement noise, between 0 and 1.

    Independent noise of variance s^2 in a cell adds s^2 (1 - 1/P)(1 - 1/Q) to the cyclic sum of
    squares and s^2 (1 - 1/PQ) to that around the mean; both are taken off. Standard ``errors`` of
    the payoff (P, Q) are (P, Q) or one for all.
    """
    matrix = checked_payoff(payoff)
    p, q = matrix.shape
    noise = np.square(np.broadcast_to(np.asarray(errors, dtype=np.float64), matrix.shape)).sum()
    # From one of them, so that rounding is no difference where all are alike.
    above = matrix - float(matrix[0, 0])
    mean = above.mean()
    hosts, agents = above.mean(axis=1) - mean, mean - above.mean(axis=0)
    cyclic = above - mean - hosts[:, None] + agents
    differences = hosts[:, None] - agents + cyclic
    cyclic_sum = np.square(cyclic).sum() - noise * (1 - 1 / p) * (1 - 1 / q)
    total = np.square(differences).sum() - noise * (1 - 1 / (p * q))
    return float(np.clip(cyclic_sum / total, 0.0, 1.0)) if total > 0 else 0.0


SHARE = 0.01  # of an equilibrium below which a player is not named
NUM_CYCLES = 3  # that are told, the strongest ones
NOISE = 2.0  # standard errors of a difference that a switch must gain


def meta_game(moves: Ints, hosts: Sequence[str], agents: Sequence[str]) -> dict[str, Any] | None:
    """Return the game between P hosts and Q agents, by name; None where no equilibrium is clear.

    ``moves`` (P, Q, G), G > 1, are lengths of games; all values are in rho.

    Returns:
        As the event of a decision holds it: ``value`` (what hosts earn in the equilibrium), how
        often it plays each player (``hosts``, ``agents``), ``gaps`` (what a best answer in the
        match takes from each player), ``cyclic_share`` (of the differences that no strength of
        single players explains, beyond noise), and ``cycles`` of best answers, the strongest first.
    """
    rho: Floats = 1.0 / moves.mean(axis=2)
    try:
        equilibrium = max_entropy_equilibrium(rho)
    except RuntimeError:  # players are too close
        return None
    errors = rho_errors(moves)
    margin = NOISE * float(np.sqrt(2.0) * errors.max())
    host_gaps = np.maximum(equilibrium.value - rho.min(axis=1), 0.0).tolist()
    agent_gaps = np.maximum(rho.max(axis=0) - equilibrium.value, 0.0).tolist()
    return {
        "value": equilibrium.value,
        "hosts": _played(equilibrium.hosts, hosts),
        "agents": _played(equilibrium.agents, agents),
        "gaps": {
            "host": dict(zip(hosts, host_gaps, strict=True)),
            "agent": dict(zip(agents, agent_gaps, strict=True)),
        },
        "cyclic_share": cyclic_share_beyond_noise(rho, errors),
        "cycles": [
            cycle.named(hosts, agents)
            for cycle in best_response_cycles(rho, margin=margin)[:NUM_CYCLES]
        ],
    }


def _played(shares: Floats, names: Sequence[str]) -> dict[str, float]:
    played = zip(names, shares.tolist(), strict=True)
    return {name: share for name, share in played if share >= SHARE}
