"""How strong the members of a population are, by a match of everybody against everybody.

A member's strength is the mean logarithm of its host's rho over its opponents, less the same of its
agent, where it has both: so it counts alike to shorten games and to lengthen them by one ratio. Its
own partner, with which it learned, is no opponent.
Axes: K members, P hosts, Q agents, R samples.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hpsearch.population.arrays import Floats
from hpsearch.population.ratings.nash_averaging import nash_averaging
from hpsearch.population.selection.robustness import mean_of_worst

HOST, AGENT = range(2)
"""places of the roles where both stand beside each other"""


@dataclass(frozen=True)
class Places:
    """Where a member's players stand in a match; None where it has no such player."""

    host: int | None
    """row"""
    agent: int | None
    """column"""


@dataclass(frozen=True)
class Weights:
    """How much each player of a match counts as an opponent; each side sums to 1."""

    hosts: Floats
    """(P,)"""
    agents: Floats
    """(Q,)"""


def opponent_weights(rho: Floats, weighing: Literal["uniform", "nash"]) -> Weights:
    """Return how much opponents count: alike, or as often as the equilibrium plays them.

    Where no equilibrium can be told, because players are too close, they count alike.

    Args:
        rho: (P, Q).
        weighing: which of the two.
    """
    alike = Weights(*(np.full(num, 1 / num) for num in rho.shape))
    if weighing == "uniform":
        return alike
    try:
        equilibrium = nash_averaging(np.log(rho)).equilibrium
    except RuntimeError:
        return alike
    return Weights(equilibrium.hosts, equilibrium.agents)


def strengths(rho: Floats, members: Sequence[Places], weights: Weights) -> Floats:
    """Return how strong each member is, float64 (R, K), in logarithms of rho.

    Args:
        rho: (R, P, Q), samples of a match.
        members: K.
        weights: of opponents.

    Raises:
        ValueError: if a member has no opponent.
    """
    both: Floats = strengths_by_role(rho, members, weights).sum(axis=2)
    return both


def strengths_by_role(rho: Floats, members: Sequence[Places], weights: Weights) -> Floats:
    """Return how strong each member's host and agent are, float64 (R, K, 2); 0 for none.

    A member's strength is the sum of both: see `strengths`, which takes and raises the same.
    """
    logs = np.log(rho)
    found = np.zeros((len(rho), len(members), 2))
    for k, member in enumerate(members):
        for role, results, counts in _results(logs, member, weights):
            found[:, k, role] = results @ counts
    return found


def robustness(rho: Floats, members: Sequence[Places], share: float) -> Floats:
    """Return each member's mean result against the hardest ``share`` of its opponents, (R, K).

    In logarithms of rho, both roles added; opponents count alike.
    """
    uniform = Weights(*(np.full(num, 1 / num) for num in rho.shape[1:]))
    logs = np.log(rho)
    columns = [
        sum(
            mean_of_worst(results[:, counts > 0], share)
            for _, results, counts in _results(logs, member, uniform)
        )
        for member in members
    ]
    return np.stack(columns, axis=1)


def behaviours(rho: Floats, players: Sequence[Places], panel: Places) -> Floats:
    """Return what tells players apart: log rho against each opponent, float64 (K, B).

    Args:
        rho: (P, Q).
        players: members and archived champions, which all have the same roles.
        panel: the first row and the first column of the opponents that count, which all meet, up
            to the last ones.
    """
    logs = np.log(rho)
    found = []
    for player in players:
        parts = []
        if player.host is not None:
            parts.append(logs[player.host, panel.agent :])
        if player.agent is not None:
            parts.append(logs[panel.host :, player.agent])
        found.append(np.concatenate(parts))
    return np.stack(found)


def _results(
    logs: Floats, member: Places, weights: Weights
) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield each role, its results (R, opponents), high is good, and the opponents' weights."""
    if member.host is not None:
        yield HOST, logs[:, member.host, :], _without(weights.agents, member.agent)
    if member.agent is not None:
        yield AGENT, -logs[:, :, member.agent], _without(weights.hosts, member.host)


def _without(weights: Floats, partner: int | None) -> Floats:
    """Return weights without a member's own partner; all others alike if it was the only one."""
    others = weights.copy()
    if partner is not None:
        others[partner] = 0.0
    if others.sum() <= 0.0:
        others = np.ones_like(weights)
        if partner is not None:
            others[partner] = 0.0
    if others.sum() <= 0.0:
        raise ValueError("a member of a match needs an opponent besides its own partner")
    found: Floats = others / others.sum()
    return found
