"""Survivor selection: which members are replaced, by children of which.

Parents are named by their results on one set of starts and confirmed by those on another, since the
best of many were also lucky; without a surely better parent a member keeps its place. Only members
of one island can take each other's places. High is good; a score that is not a number is the
lowest. Axes: K members, R samples, M objectives.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from hpsearch.population.selection.pareto import front_of_each, fronts_of_samples, nsga2_survivors
from hpsearch.population.selection.ranking import (
    best_first,
    chance_better,
    comparable,
    mean_scores,
)
from hpsearch.population.statistics import Floats, Ints


@dataclass(frozen=True)
class Replacement:
    """What comes in a member's place."""

    source: int
    """the member itself, or the one whose child replaces it"""
    is_child: bool
    """whether it is changed; else the source continues as it is"""


def by_truncation(
    named: Floats,
    fresh: Floats,
    *,
    islands: Sequence[str],
    share: float,
    confidence: float,
    rng: np.random.Generator,
) -> list[Replacement]:
    """Return for each member itself, or a child of one of the best.

    ``named`` and ``fresh`` are (R, K) scores on the starts that name parents and on others;
    ``confidence`` is the chance of being better on the fresh ones that a parent needs. The other
    arguments are those of `truncation`.
    """
    sources = truncation(mean_scores(named), share, rng, islands=islands)
    return [
        Replacement(int(source), is_child=True)
        if source != member and _is_surely_better(fresh, int(source), member, confidence)
        else Replacement(member, is_child=False)
        for member, source in enumerate(sources)
    ]


def truncation(
    scores: npt.ArrayLike, share: float, rng: np.random.Generator, *, islands: Sequence[str]
) -> Ints:
    """Return for each member whose copy takes its place, int64 (K,): itself, or one of the best.

    Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846),
    section 4.1.1, "truncation selection".

    Args:
        scores: (K,).
        share: of members that are replaced, and of those that are copied; at most 1/2, rounded
            down, but at least one if above 0.
        rng: picks among the best of the member's island; where there are none, the best of the
            island takes the place.
        islands: K names.
    """
    if not 0.0 <= share <= 0.5:
        raise ValueError(f"share must lie between 0 and 1/2, got {share!r}")
    order = best_first(scores).tolist()
    num = _num_in_share(share, len(order))
    rank, best = {member: place for place, member in enumerate(order)}, set(order[:num])

    def candidates_for(member: int) -> list[int]:
        island = islands[member]
        above = [better for better in order[: rank[member]] if islands[better] == island]
        return [better for better in above if better in best] or above[:1]

    sources = np.arange(len(order))
    for member, candidates in _replaceable(reversed(order), candidates_for, num).items():
        sources[member] = rng.choice(candidates)
    return sources


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
    """Return for each elite itself, for all other members children.

    Those of the winner of a tournament of ``size`` members of the island if it is surely better
    than the member, else of the member itself. Arguments as in `by_truncation`.
    """
    scores = mean_scores(named)
    elites = set(best_first(scores)[:num_elites].tolist())
    replacements = []
    for member, others in enumerate(_members_of_island(islands)):
        if member in elites:
            replacements.append(Replacement(member, is_child=False))
            continue
        winner = tournament(scores, others, size, rng)
        is_sure = winner != member and _is_surely_better(fresh, winner, member, confidence)
        replacements.append(Replacement(winner if is_sure else member, is_child=True))
    return replacements


def tournament(scores: npt.ArrayLike, members: Ints, size: int, rng: np.random.Generator) -> int:
    """Return the best by scores (K,) of ``size`` different ``members``, or of all if fewer."""
    drawn = members[rng.choice(len(members), size=min(size, len(members)), replace=False)]
    return int(drawn[comparable(scores)[drawn].argmax()])


def by_pareto(
    named: Floats,
    fresh: Floats,
    *,
    islands: Sequence[str],
    share: float,
    confidence: float,
    rng: np.random.Generator,
) -> list[Replacement]:
    """Return for each member itself, or a child of one of the best front of its island.

    ``named`` and ``fresh`` are (R, K, M) objectives on the starts that name parents and on others.
    The ``share`` of members that NSGA-II would drop first is replaced, at least one if above 0;
    ``confidence`` is the share of fresh samples in which the parent must lie in a better front.
    """
    objectives = named.mean(axis=0)
    num = len(objectives)
    order, front = nsga2_survivors(objectives, num).tolist(), front_of_each(objectives)
    island_of = _members_of_island(islands)

    def candidates_for(member: int) -> list[int]:
        others = island_of[member]
        best = front[others].min()
        undominated: list[int] = others[front[others] == best].tolist()
        return undominated if front[member] > best else []

    fronts = fronts_of_samples(fresh)
    replaceable = _replaceable(reversed(order), candidates_for, _num_in_share(share, num))
    replacements = [Replacement(member, is_child=False) for member in range(num)]
    for member, candidates in replaceable.items():
        source = int(rng.choice(candidates))
        if (fronts[:, source] < fronts[:, member]).mean() >= confidence:
            replacements[member] = Replacement(source, is_child=True)
    return replacements


def better_of_two(scores: Floats, allowed: Sequence[int], rng: np.random.Generator) -> int:
    """Return the better by scores (K,) of two drawn from those ``allowed``, at least one."""
    drawn: Ints = rng.choice(np.array(allowed), size=2)
    return int(max(drawn, key=lambda member: scores[member]))


def _members_of_island(islands: Sequence[str]) -> list[Ints]:
    """Return for each member all those of its island."""
    names = np.array(list(islands))
    members = {island: np.flatnonzero(names == island) for island in set(islands)}
    return [members[island] for island in islands]


def _replaceable(
    worst_first: Iterable[int], candidates_for: Callable[[int], Sequence[int]], num: int
) -> dict[int, Sequence[int]]:
    """Return candidates for the places of the ``num`` worst members that have any.

    So the best of an island stays, however bad it is among all, and the next worst is replaced.
    """
    replaceable: dict[int, Sequence[int]] = {}
    for member in worst_first:
        if len(replaceable) == num:
            break
        if candidates := candidates_for(member):
            replaceable[member] = candidates
    return replaceable


def _num_in_share(share: float, num: int) -> int:
    """Return how many of ``num`` a share is, rounded down; at least one of two or more, if any."""
    least = 1 if share > 0 and num > 1 else 0  # else a small population would never change
    return max(least, int(share * num + 1e-9))  # 0.29 * 100 is 28.999...


def _is_surely_better(fresh: Floats, source: int, member: int, confidence: float) -> bool:
    chance = chance_better(fresh[:, source], fresh[:, member])
    return chance > 0.5 and chance >= confidence
