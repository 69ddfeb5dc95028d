"""Survivor selection: which members are replaced, by children of which.

Parents are chosen by results on one set of starts and confirmed by those on another, since the
best of many were also lucky; without a surely better parent a member keeps its place. Only members
of one species can take each other's places. High is good; a score that is not a number, of a member
that failed, is the lowest there is. Axes: K members, R samples, M objectives.

All rules take scores ``naming`` on the starts that choose parents, ``confirming`` on others,
(R, K), and the name of each member's ``species``.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from hpsearch.population.options import Pareto, Tournament, Truncation
from hpsearch.population.pareto import front_of_each, fronts_of_samples, nsga2_order
from hpsearch.population.statistics import Floats, Ints, chance_better, comparable


class Replacement(NamedTuple):
    """What comes in a member's place."""

    source: int  # the member itself, or the one whose child replaces it
    is_child: bool  # whether it is changed; else the source continues as it is


def unchanged(num_members: int) -> list[Replacement]:
    return [Replacement(member, is_child=False) for member in range(num_members)]


def by_truncation(
    naming: Floats, confirming: Floats, options: Truncation, species: Sequence[str], rng: Generator
) -> list[Replacement]:
    """Return for each member itself, or a child of one of the best of its species.

    Where none of the best are of its species, the best of the species takes the place. Source:
    Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
    4.1.1, "truncation selection".
    """
    order = best_first(comparable(naming).mean(axis=0)).tolist()
    num = _num_in_share(options.share, len(order))
    rank, best = {member: place for place, member in enumerate(order)}, set(order[:num])

    def candidates_for(member: int) -> list[int]:
        own = species[member]
        above = [better for better in order[: rank[member]] if species[better] == own]
        return [better for better in above if better in best] or above[:1]

    def is_better(source: int, member: int) -> bool:
        return _is_surely_better(confirming, source, member, options.confidence)

    return _with_worst_replaced(order, num, candidates_for, is_better, rng)


def by_tournament(
    naming: Floats, confirming: Floats, options: Tournament, species: Sequence[str], rng: Generator
) -> list[Replacement]:
    """Return for each elite itself, for all others a child of a tournament's winner of the species.

    If the winner is not surely better, a child of the member itself.
    """
    scores = comparable(naming).mean(axis=0)
    elites = set(best_first(scores)[: options.elites].tolist())
    replacements = unchanged(len(scores))
    for member, others in enumerate(_members_of_species(species)):
        if member not in elites:
            winner = tournament(scores, others, options.size, rng)
            is_sure = _is_surely_better(confirming, winner, member, options.confidence)
            replacements[member] = Replacement(winner if is_sure else member, is_child=True)
    return replacements


def tournament(scores: npt.ArrayLike, members: Ints, size: int, rng: Generator) -> int:
    """Return the best by scores (K,) of ``size`` different ``members``, or of all if fewer."""
    drawn = members[rng.choice(len(members), size=min(size, len(members)), replace=False)]
    return int(drawn[comparable(scores)[drawn].argmax()])


def by_pareto(
    naming: Floats, confirming: Floats, options: Pareto, species: Sequence[str], rng: Generator
) -> list[Replacement]:
    """Return for each member itself, or a child of one of the best front of its species.

    Of objectives (R, K, M). Those are replaced that NSGA-II would drop first; the confidence is the
    share of confirming samples in which the parent must lie in a better front.
    """
    objectives = naming.mean(axis=0)
    order, front = nsga2_order(objectives).tolist(), front_of_each(objectives)
    species_of, fronts = _members_of_species(species), fronts_of_samples(confirming)

    def candidates_for(member: int) -> list[int]:
        others = species_of[member]
        best = front[others].min()
        undominated: list[int] = others[front[others] == best].tolist()
        return undominated if front[member] > best else []

    def is_better(source: int, member: int) -> bool:
        return bool((fronts[:, source] < fronts[:, member]).mean() >= options.confidence)

    num = _num_in_share(options.share, len(order))
    return _with_worst_replaced(order, num, candidates_for, is_better, rng)


def _with_worst_replaced(
    order: Sequence[int],
    num: int,
    candidates_for: Callable[[int], Sequence[int]],
    is_better: Callable[[int, int], bool],
    rng: Generator,
) -> list[Replacement]:
    """Return replacements of the ``num`` worst members, in ``order`` best first, by candidates.

    Only members that have candidates count: so the best of a species stays, however bad it is
    among all, and the next worst is replaced.
    """
    replacements = unchanged(len(order))
    for member in reversed(order):
        if num == 0:
            break
        if candidates := candidates_for(member):
            num -= 1
            source = int(rng.choice(candidates))
            if is_better(source, member):
                replacements[member] = Replacement(source, is_child=True)
    return replacements


def better_of_two(scores: Floats, allowed: Sequence[int], rng: Generator) -> int:
    """Return the better by scores (K,) of two drawn from those ``allowed``, at least one."""
    drawn: Ints = rng.choice(np.array(allowed), size=2)
    return int(max(drawn, key=lambda member: scores[member]))


def best_first(scores: npt.ArrayLike) -> Ints:
    """Return the places of the scores (K,), highest first, of equals the earlier first."""
    return np.argsort(-comparable(scores), kind="stable")


def _members_of_species(species: Sequence[str]) -> list[Ints]:
    """Return for each member all those of its species."""
    names = np.array(list(species))
    return [np.flatnonzero(names == own) for own in species]


def _num_in_share(share: float, num: int) -> int:
    """Return how many of ``num`` a share is, rounded down; at least one of two or more, if any."""
    least = 1 if share > 0 and num > 1 else 0  # else a small population would never change
    return max(least, int(share * num + 1e-9))  # 0.29 * 100 is 28.999...


def _is_surely_better(confirming: Floats, source: int, member: int, confidence: float) -> bool:
    chance = chance_better(confirming[:, source], confirming[:, member])
    return chance > 0.5 and chance >= confidence
