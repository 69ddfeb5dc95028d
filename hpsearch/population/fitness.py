"""How strong the members of a population are in a match of all against all.

A member's strength is the mean logarithm of its host's rho over its opponents, less the same of its
agent, where it has both: so halving the length of games counts as much as doubling it. Its own
partner, with which it learned, is no opponent.

Axes: K members, M objectives, R samples, P hosts, Q agents, G games of each pair; 2 roles, the host
and the agent.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, assert_never

import numpy as np
from numpy.random import Generator

from hpsearch.population.options import Matches, Pareto
from hpsearch.population.ratings.nash import max_entropy_equilibrium
from hpsearch.population.statistics import Floats, Ints, comparable, resampled_rho

HOST, AGENT = range(2)  # places of the roles along an axis


@dataclass(frozen=True)
class Places:
    """Where a member's players stand in a match; None where it has no such player."""

    host: int | None  # row
    agent: int | None  # column


@dataclass(frozen=True)
class OpponentWeights:
    """How much each player of a match counts as an opponent; each side sums to 1."""

    hosts: Floats  # (P,)
    agents: Floats  # (Q,)


def opponent_weights(rho: Floats, weighing: Literal["uniform", "nash"]) -> OpponentWeights:
    """Return how much opponents count by rho (P, Q): alike, or as the equilibrium plays them.

    Where no equilibrium can be told, because players are too close, they count alike.
    """
    alike = OpponentWeights(*(np.full(num, 1 / num) for num in rho.shape))
    if weighing == "uniform":
        return alike
    try:
        equilibrium = max_entropy_equilibrium(np.log(rho))
    except RuntimeError:
        return alike
    return OpponentWeights(equilibrium.hosts, equilibrium.agents)


def strengths(rho: Floats, members: Sequence[Places], weights: OpponentWeights) -> Floats:
    """Return how strong each member's host and agent are, float64 (R, K, 2); 0 for none.

    In logarithms of rho (R, P, Q); ValueError if a member has no opponent.
    """
    logs = np.log(rho)
    result = np.zeros((len(rho), len(members), 2))
    for k, member in enumerate(members):
        for role, results, counts in _results(logs, member, weights):
            result[:, k, role] = results @ counts
    return result


def robustness(rho: Floats, members: Sequence[Places], share: float) -> Floats:
    """Return each member's mean result against the hardest ``share`` of its opponents, (R, K).

    In logarithms of rho, both roles added; opponents count alike. 0 < share <= 1.
    """
    uniform = OpponentWeights(*(np.full(num, 1 / num) for num in rho.shape[1:]))
    logs = np.log(rho)
    columns = [
        sum(
            mean_of_worst(results[:, counts > 0], share)
            for _, results, counts in _results(logs, member, uniform)
        )
        for member in members
    ]
    return np.stack(columns, axis=1)


def mean_of_worst(results: Floats, share: float) -> Floats:
    """Return the mean (R,) of the worst ``share`` of results (R, Q), a conditional value at risk.

    0 < share <= 1; 1 gives the mean over all opponents, 1/Q or less the worst case. Opponents count
    alike; if the share ends within one, that one counts in part (Rockafellar and Uryasev, Journal
    of Banking and Finance 26, 2002, for discrete distributions).
    """
    ordered = np.sort(comparable(results), axis=1)
    num = ordered.shape[1]
    weights = np.clip(share * num - np.arange(num), 0.0, 1.0)
    counted = weights > 0  # a zero times minus infinity is not a number
    return np.asarray(ordered[:, counted] @ weights[counted] / weights.sum())


def novelty(members: Floats, archive: Floats, num_nearest: int) -> Floats:
    """Return the mean distance of each member to the nearest others and archived ones, (K,).

    Behaviours are (K, B) and (A, B). Of fewer others all count; without others there is no
    distance. Source: Lehman and Stanley, Abandoning objectives (Evolutionary Computation 19, 2011).
    """
    known = np.concatenate([members, archive])
    if len(known) < 2:
        return np.zeros(len(members))
    distances = np.sqrt(np.square(members[:, None] - known).sum(axis=2))
    np.fill_diagonal(distances, np.inf)  # the distance to itself does not count
    nearest = np.sort(distances, axis=1)[:, : min(num_nearest, len(known) - 1)]
    return np.asarray(nearest.mean(axis=1))


def behaviours(rho: Floats, players: Sequence[Places], panel: Places) -> Floats:
    """Return what tells players of the same roles apart, float64 (K, B).

    Log rho, of (P, Q), against each opponent from the row and the column of ``panel`` on.
    """
    logs = np.log(rho)
    rows = []
    for player in players:
        as_host = [] if player.host is None else [logs[player.host, panel.agent :]]
        as_agent = [] if player.agent is None else [logs[panel.host :, player.agent]]
        rows.append(np.concatenate(as_host + as_agent))
    return np.stack(rows)


def _results(
    logs: Floats, member: Places, weights: OpponentWeights
) -> Iterator[tuple[int, Floats, Floats]]:
    """Yield each role, its results (R, opponents), high is good, and the opponents' weights."""
    if member.host is not None:
        yield HOST, logs[:, member.host, :], _without(weights.agents, member.agent)
    if member.agent is not None:
        yield AGENT, -logs[:, :, member.agent], _without(weights.hosts, member.host)


def _without(weights: Floats, partner: int | None) -> Floats:
    """Return weights without a member's own partner; all others alike if it was the only one."""
    others, alike = weights.copy(), np.ones_like(weights)
    if partner is not None:
        others[partner] = alike[partner] = 0.0
    if others.sum() <= 0.0:
        others = alike
    if others.sum() <= 0.0:
        raise ValueError("a member of a match needs an opponent besides its own partner")
    return np.asarray(others / others.sum())


@dataclass(frozen=True)
class MatchStanding:
    members: Sequence[Places]  # K
    archive: Sequence[Places]  # past champions
    panel: Places
    """the first scripted host and the first scripted agent; scripted players come last"""
    sizes: Floats  # (K,) numbers of weights


@dataclass(frozen=True)
class Scores:
    """What a match says of the members, on the starts that name parents and on fresh ones."""

    naming: Floats  # (R, K) strengths
    confirming: Floats  # (R, K) strengths on other starts
    naming_objectives: Floats  # (R, K, M), high is good; M = 0 where strength alone counts
    confirming_objectives: Floats  # (R, K, M)
    roles: Floats
    """(K, 2), what host and agent add to the strength; 0 of a role that is not learned"""
    weights: OpponentWeights  # of opponents, by the starts that name parents

    @property
    def strength(self) -> Floats:
        """Mean strength of each member over both sets of starts, (K,)."""
        return np.asarray((self.naming.mean(axis=0) + self.confirming.mean(axis=0)) / 2)


def score(
    moves: Ints, standing: MatchStanding, matches: Matches, pareto: Pareto | None, rng: Generator
) -> Scores:
    """Return the scores of the members; without ``pareto`` strength alone counts.

    ``moves`` (2, P, Q, G) are lengths of games on the starts that name parents, and on fresh ones.
    """
    samples = [resampled_rho(move, matches.num_samples, rng) for move in moves]
    weights = opponent_weights(1.0 / moves[0].mean(axis=2), matches.weighing)
    roles = [strengths(rho, standing.members, weights) for rho in samples]
    totals = [role.sum(axis=2) for role in roles]
    pairs = zip(samples, totals, strict=True)
    objectives = [_objectives(pareto, rho, total, standing) for rho, total in pairs]
    by_role = np.concatenate(roles).mean(axis=0)
    return Scores(totals[0], totals[1], objectives[0], objectives[1], by_role, weights)


def by_values(values: Floats) -> Scores:
    """Return the scores of members by one value each, (K,), high is good, as if there was no noise.

    So any difference is certain, as in Jaderberg et al., Population based training (arXiv
    1711.09846), section 3.
    """
    row, none = values[None, :], np.empty((1, len(values), 0))
    unplayed = OpponentWeights(np.empty(0), np.empty(0))
    return Scores(row, row, none, none, np.zeros((len(values), 2)), unplayed)


def _objectives(
    pareto: Pareto | None, rho: Floats, strength: Floats, standing: MatchStanding
) -> Floats:
    """Return samples of the objectives, (R, K, M)."""
    if pareto is None:
        return np.empty((*strength.shape, 0))
    columns: list[Floats] = []
    for name in pareto.objectives:
        match name:
            case "strength":
                columns.append(strength)
            case "robustness":
                columns.append(robustness(rho, standing.members, pareto.worst))
            case "size":
                columns.append(np.broadcast_to(-standing.sizes, strength.shape))
            case "novelty":
                novelties = _novelty(rho.mean(axis=0), standing, pareto.nearest)
                columns.append(np.broadcast_to(novelties, strength.shape))
            case _:
                assert_never(name)
    return np.stack(columns, axis=2)


def _novelty(rho: Floats, standing: MatchStanding, num_nearest: int) -> Floats:
    known = behaviours(rho, [*standing.members, *standing.archive], standing.panel)
    members, archive = np.split(known, [len(standing.members)])
    return novelty(members, archive, num_nearest)
