"""Whose child takes a member's place: named by one set of games, confirmed by another.

The best of many were also lucky. Parents are therefore named by their results on one set of starts
and believed by those on another alone; where that does not make sure of a parent, a member keeps
its place. Only members of one island can take each other's places. Axes: K members, R samples, M
objectives.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from hpsearch.population.selection.pareto import front_of_each, fronts_of_samples, nsga2_survivors
from hpsearch.population.selection.ranking import (
    best_first,
    chance_better,
    giving_way,
    mean_scores,
    num_in_share,
)
from hpsearch.population.selection.truncation import tournament, truncation
from hpsearch.population.statistics import Floats, Ints


@dataclass(frozen=True)
class Replacement:
    """Who goes on in a member's place."""

    source: int
    """the member itself, or the one that it gives way to"""
    is_child: bool
    """whether it is changed; else the source goes on as it is"""


def by_truncation(
    named: Floats,
    fresh: Floats,
    *,
    islands: Sequence[str],
    share: float,
    confidence: float,
    rng: np.random.Generator,
) -> list[Replacement]:
    """Return each member's successor: itself, or a child of one of the best.

    Args:
        named: (R, K) scores on the starts that name parents; high is good.
        fresh: (R, K) scores on other starts.
        islands: K names.
        share: of members that give way, as in `truncation`.
        confidence: chance of being better on the fresh starts that a parent needs.
        rng: picks among the best.
    """
    sources = truncation(mean_scores(named), share, rng, islands=islands)
    return [
        Replacement(int(source), is_child=True)
        if source != member and is_surely_better(fresh, int(source), member, confidence)
        else Replacement(member, is_child=False)
        for member, source in enumerate(sources)
    ]


def by_tournament(
    named: Floats,
    fresh: Floats,
    *,
    islands: Sequence[str],
    size: int,
    num_elites: int,
    confidence: float,
    rng: np.random.Generator,
) -> list[Replacement]:
    """Return each member's successor: an elite goes on, all others give way to children.

    Those of the winner of a tournament if it is surely better than the member, else of the member
    itself. Arguments as in `by_truncation`; ``size`` members of the member's island meet, all of
    it where it has fewer; ``num_elites`` go on.
    """
    scores = mean_scores(named)
    elites = set(best_first(scores)[:num_elites].tolist())
    alike = _alike(islands)
    successors = []
    for member, others in enumerate(alike):
        if member in elites:
            successors.append(Replacement(member, is_child=False))
            continue
        winner = _winner(scores, others, size, rng)
        is_sure = winner != member and is_surely_better(fresh, winner, member, confidence)
        successors.append(Replacement(winner if is_sure else member, is_child=True))
    return successors


def _alike(islands: Sequence[str]) -> list[Ints]:
    """Return for each member all those of its island."""
    names = np.array(list(islands))
    members = {island: np.flatnonzero(names == island) for island in set(islands)}
    return [members[island] for island in islands]


def _winner(scores: Floats, members: Ints, size: int, rng: np.random.Generator) -> int:
    """Return the winner of a tournament of ``size`` of some members."""
    meeting = min(size, len(members))
    won = tournament(scores[members], num_children=1, num_elites=0, size=meeting, rng=rng)
    return int(members[won[0]])


def by_pareto(
    named: Floats,
    fresh: Floats,
    *,
    islands: Sequence[str],
    share: float,
    confidence: float,
    rng: np.random.Generator,
) -> list[Replacement]:
    """Return each member's successor: itself, or a child of an unsurpassed one.

    Args:
        named: (R, K, M) objectives on the starts that name parents; high is good.
        fresh: (R, K, M) on other starts.
        islands: K names.
        share: of members that give way, those that NSGA-II would drop first; at least one if above
            0.
        confidence: share of the fresh samples in which the parent must lie in a better front.
        rng: picks among the unsurpassed of the member's island; where it has none, among its best.
    """
    objectives = named.mean(axis=0)
    num = len(objectives)
    order, front = nsga2_survivors(objectives, num).tolist(), front_of_each(objectives)

    alike = _alike(islands)

    def heirs(member: int) -> list[int]:
        others = alike[member]
        best = front[others].min()
        unsurpassed: list[int] = others[front[others] == best].tolist()
        return unsurpassed if front[member] > best else []

    fronts = fronts_of_samples(fresh)
    leaving = giving_way(reversed(order), heirs, num_in_share(share, num))
    successors = [Replacement(member, is_child=False) for member in range(num)]
    for member, candidates in leaving.items():
        source = int(rng.choice(candidates))
        if (fronts[:, source] < fronts[:, member]).mean() >= confidence:
            successors[member] = Replacement(source, is_child=True)
    return successors


def better_of_two(scores: Floats, allowed: Sequence[int], rng: np.random.Generator) -> int:
    """Return a parent, the better of two drawn from those ``allowed``, at least one.

    Args:
        scores: (K,).
        allowed: who may be.
        rng: draws.
    """
    drawn: Ints = rng.choice(np.array(allowed), size=2)
    return int(max(drawn, key=lambda member: scores[member]))


def is_surely_better(fresh: Floats, source: int, member: int, confidence: float) -> bool:
    """Return whether a parent is better than a member, by samples (R, K) on the fresh starts."""
    chance = chance_better(fresh[:, source], fresh[:, member])
    return chance > 0.5 and chance >= confidence
