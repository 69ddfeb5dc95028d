"""The scores by which members are selected, from the games of a match; with their uncertainty.

Axes: K members, M objectives, R samples, P hosts, Q agents, G games of each pair; 2 roles, the host
and the agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpsearch.population.arrays import Floats, Ints
from hpsearch.population.fitness import (
    Places,
    Weights,
    behaviours,
    opponent_weights,
    robustness,
    strengths_by_role,
)
from hpsearch.population.options import Matches, Objective, Pareto
from hpsearch.population.ratings.resampling import resampled_rho
from hpsearch.population.selection.novelty import novelty


@dataclass(frozen=True)
class Standing:
    """Who stands where in the games of a match."""

    members: Sequence[Places]
    """K"""
    archive: Sequence[Places]
    """past champions"""
    panel: Places
    """the first scripted host and the first scripted agent; scripted players come last"""
    sizes: Floats
    """(K,) numbers of weights"""


@dataclass(frozen=True)
class Scores:
    """What a match says of the members, on the starts that name parents and on fresh ones."""

    named: Floats
    """(R, K) strengths"""
    fresh: Floats
    """(R, K) strengths on other starts"""
    named_objectives: Floats
    """(R, K, M), high is good; M = 0 where strength alone counts"""
    fresh_objectives: Floats
    """(R, K, M)"""
    roles: Floats
    """(K, 2), what host and agent add to the strength; 0 of a role that is not learned"""
    weights: Weights
    """of opponents, by the starts that name parents"""

    @property
    def strength(self) -> Floats:
        """Return the best guess of each member's strength, (K,): over both sets of starts."""
        mean: Floats = (self.named.mean(axis=0) + self.fresh.mean(axis=0)) / 2
        return mean


def score(
    moves: Ints,
    standing: Standing,
    matches: Matches,
    pareto: Pareto | None,
    rng: np.random.Generator,
) -> Scores:
    """Return the scores of the members.

    Args:
        moves: (2, P, Q, G) lengths of games: on the starts that name parents, and on fresh ones.
        standing: who stands where.
        matches: how opponents are weighed, and how many samples are drawn.
        pareto: the objectives, None where strength alone counts.
        rng: draws the samples.
    """
    named, fresh = (resampled_rho(one, matches.num_samples, rng) for one in moves)
    weights = opponent_weights(1.0 / moves[0].mean(axis=2), matches.weighing)
    roles = [strengths_by_role(rho, standing.members, weights) for rho in (named, fresh)]
    found = [one.sum(axis=2) for one in roles]
    objectives = [
        _objectives(pareto, rho, strength, standing)
        for rho, strength in zip((named, fresh), found, strict=True)
    ]
    by_role = np.concatenate(roles).mean(axis=0)
    return Scores(found[0], found[1], objectives[0], objectives[1], by_role, weights)


def _objectives(pareto: Pareto | None, rho: Floats, strength: Floats, standing: Standing) -> Floats:
    names = () if pareto is None else pareto.objectives
    columns = [_objective(name, pareto, rho, strength, standing) for name in names if pareto]
    return np.stack(columns, axis=2) if columns else np.empty((*strength.shape, 0))


def _objective(
    name: Objective, pareto: Pareto, rho: Floats, strength: Floats, standing: Standing
) -> Floats:
    """Return samples of one objective, (R, K)."""
    match name:
        case "strength":
            return strength
        case "robustness":
            return robustness(rho, standing.members, pareto.worst)
        case "size":
            return np.broadcast_to(-standing.sizes, strength.shape)
        case "novelty":
            return np.broadcast_to(_novelty(rho.mean(axis=0), standing, pareto), strength.shape)


def _novelty(rho: Floats, standing: Standing, pareto: Pareto) -> Floats:
    here = behaviours(rho, standing.members, standing.panel)
    if len(here) + len(standing.archive) < 2:
        return np.zeros(len(here))  # nobody to be unlike
    past = behaviours(rho, standing.archive, standing.panel) if standing.archive else here[:0]
    return novelty(here, past, pareto.nearest)
