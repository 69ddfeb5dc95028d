"""Breeding: what each member whose interval has ended does next, from what a match says.

Pure: the same games, members and random numbers give the same plan. Nothing here touches weights;
the plan names operators, which jobs apply. Axes: K members, P hosts, Q agents, R samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import assert_never

import numpy as np

from hpsearch.population.draft import Draft
from hpsearch.population.exploring.children import Exploring, explored
from hpsearch.population.islands import islands_of
from hpsearch.population.operators.options import Clone
from hpsearch.population.options import (
    Closing,
    Nobody,
    Pareto,
    PopulationOptions,
    Tournament,
    Truncation,
)
from hpsearch.population.plan import Member, Next, Plan
from hpsearch.population.scores import Scores
from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.population.selection.succession import (
    Successor,
    by_pareto,
    by_tournament,
    by_truncation,
)

EVEN = 0.5
"""confidence with which any difference counts"""


def breed(
    rules: PopulationOptions,
    members: Sequence[Member],
    scores: Scores,
    exploring: Exploring,
    records: Mapping[str, OperatorRecord],
    rng: np.random.Generator,
    *,
    num_vacant: int,
) -> Plan:
    """Return what comes next in the place of each member whose interval has ended.

    Args:
        rules: of the population.
        members: K.
        scores: of the members, in their order.
        exploring: what children may change.
        records: how each operator's children have fared.
        rng: draws all of it.
        num_vacant: places of members that were lost; they go to children of good ones.
    """
    # Streams apart, so that ways of breeding can be compared: another operator, or another mate,
    # changes nothing of who gives way and what children explore.
    selecting, mating, perturbing = rng.spawn(3)
    draft = Draft(rules, rules.operators, members, scores, records, mating)
    islands = islands_of(rules.operators, [member.shape for member in members])
    successors = _successors(rules, scores, islands, selecting)
    ended = [place for place, member in enumerate(members) if member.has_ended]
    unchanged = [draft.next(place, successors[place]) for place in ended]
    unchanged += [draft.newcomer() for _ in range(num_vacant)]
    children = [one for one in unchanged if one.is_child]
    values = iter(explored(rules.explore, [one.params for one in children], exploring, perturbing))
    planned = [replace(one, params=next(values)) if one.is_child else one for one in unchanged]
    return Plan(dict(zip(ended, planned, strict=False)), planned[len(ended) :])


def breed_untrained(
    rules: PopulationOptions,
    closing: Closing,
    members: Sequence[Member],
    scores: Scores,
    records: Mapping[str, OperatorRecord],
    rng: np.random.Generator,
) -> dict[int, Next]:
    """Return the children that come after the last interval, by place; all others stay.

    They play as they are born. Of what lies between networks that end beside each other, much is
    stronger than any of them (Wortsman et al., Model soups, arXiv 2203.05482).

    Args:
        rules: of the population.
        closing: the operators, and how many give way; as nobody trains on, any difference counts.
        members: K.
        scores: of the members, in their order.
        records: how each operator's children have fared.
        rng: draws all of it.
    """
    selecting, mating = rng.spawn(2)
    successors = by_truncation(
        scores.named,
        scores.fresh,
        islands=islands_of(closing.operators, [member.shape for member in members]),
        share=closing.share,
        confidence=EVEN,
        rng=selecting,
    )
    draft = Draft(rules, closing.operators, members, scores, records, mating)
    born = {place: draft.next(place, one) for place, one in enumerate(successors) if one.is_child}
    # Who has nobody to mate with would be a copy.
    return {place: one for place, one in born.items() if not isinstance(one.operator, Clone)}


def _successors(
    rules: PopulationOptions, scores: Scores, islands: Sequence[str], rng: np.random.Generator
) -> list[Successor]:
    selection = rules.selection
    match selection:
        case Truncation():
            return by_truncation(
                scores.named,
                scores.fresh,
                islands=islands,
                share=selection.share,
                confidence=selection.confidence,
                rng=rng,
            )
        case Tournament():
            return by_tournament(
                scores.named,
                scores.fresh,
                islands=islands,
                size=selection.size,
                num_elites=selection.elites,
                confidence=selection.confidence,
                rng=rng,
            )
        case Nobody():
            return [Successor(k, is_child=False) for k in range(scores.named.shape[1])]
        case Pareto():
            return by_pareto(
                scores.named_objectives,
                scores.fresh_objectives,
                islands=islands,
                share=selection.share,
                confidence=selection.confidence,
                rng=rng,
            )
        case _:
            assert_never(selection)
