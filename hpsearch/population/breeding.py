"""Breeding: what each member whose interval has ended does next, from what a match says.

Pure: the same games, members and random numbers give the same plan. Nothing here touches weights;
the plan names operators, which jobs apply. Axes: K members, P hosts, Q agents, R samples.

Who breeds, and what is planned of them: data that a driver has and a match decides.

Whose child comes, by which operator, with which mate: drawn for one place at a time.

Islands: members of one shape, who alone can take each other's places.

A member to which selection names a parent of another shape learns from it where that is allowed;
else selection names none but of its own. Axis: K members.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from hpsearch.population.explore import Exploring, explored
from hpsearch.population.fitness import Scores
from hpsearch.population.operators.options import (
    PARENTS,
    Clone,
    DistillationCrossover,
    Grow,
    HostAndAgent,
    OperatorOptions,
)
from hpsearch.population.options import (
    Closing,
    NoSelection,
    Pareto,
    PopulationOptions,
    Tournament,
    Truncation,
    needs_pairs,
    takes_two_parents,
)
from hpsearch.population.selection.operator_choice import operator_chances, pick_operators
from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.population.selection.replacement import (
    Replacement,
    better_of_two,
    by_pareto,
    by_tournament,
    by_truncation,
)


@dataclass(frozen=True)
class JudgedMember:
    """One that was judged."""

    params: Mapping[str, Any]
    """hyperparameters, in the form in which the study stores them"""
    has_ended: bool
    """whether its interval is over, so that something comes next"""
    shape: str
    """members of one shape can give each other their weights"""
    families: tuple[str, ...]
    """of each role's networks; kin, of the same families, share the beginning of their training"""
    is_pair: bool
    growths: tuple[Mapping[str, Any], ...]
    """for each role that can grow, the hyperparameters that its next larger network changes"""


@dataclass(frozen=True)
class Next:
    """What comes next in a member's place."""

    parents: tuple[int, ...]
    """members; the first gives all that the operator does not make"""
    operator: OperatorOptions
    params: dict[str, Any]
    is_child: bool
    """whether it was made by selection; else the member goes on as it is"""


@dataclass(frozen=True)
class BreedingPlan:
    """What comes next in a population."""

    places: Mapping[int, Next]
    """by member whose interval has ended"""
    vacancies: Sequence[Next]
    """in the places of members that were lost before they could play"""


def bridge(operators: Sequence[OperatorOptions]) -> DistillationCrossover | None:
    """Return the one of some operators that joins islands, None if there is none."""
    distillations = (
        operator for operator in operators if isinstance(operator, DistillationCrossover)
    )
    return next(distillations, None)


def joins_islands(operator: OperatorOptions) -> bool:
    """Return whether the parents of an operator's child may be of different shapes."""
    return isinstance(operator, DistillationCrossover)


def islands_of(operators: Sequence[OperatorOptions], shapes: Sequence[str]) -> Sequence[str]:
    """Return the islands of selection, K names: the shapes, but one island where they are joined.

    Args:
        operators: by which children are made.
        shapes: K.
    """
    return shapes if bridge(operators) is None else [""] * len(shapes)


@dataclass(frozen=True)
class Mating:
    """Finds parents and operators; children have their first parent's hyperparameters yet."""

    rules: PopulationOptions
    operators: Sequence[OperatorOptions]
    """by which children are made here; at least one"""
    members: Sequence[JudgedMember]
    scores: Scores
    records: Mapping[str, OperatorRecord]
    rng: np.random.Generator

    def next(self, place: int, successor: Replacement) -> Next:
        """Return what comes next in a member's place."""
        source = successor.source
        if not successor.is_child:
            return Next((source,), Clone(), dict(self.members[source].params), is_child=False)
        if self.members[source].shape != self.members[place].shape:
            distillation = bridge(self.operators)
            assert distillation is not None, "selection keeps to islands that nothing joins"
            params = dict(self.members[place].params)  # an island keeps its shape
            return Next((place, source), distillation, params, is_child=True)
        return self._child(source)

    def newcomer(self) -> Next:
        """Return what comes in an empty place: a child of a good one."""
        all_members = range(len(self.members))
        source = better_of_two(self.scores.strength, all_members, self.rng)
        return self._child(source)

    def _child(self, source: int) -> Next:
        """Return a child that ``source`` has a part in, as its first parent unless pairs swap."""
        operator, parent = self._operator(), self.members[source]
        params = dict(parent.params)
        if isinstance(operator, Grow) and parent.growths:
            change = parent.growths[int(self.rng.integers(len(parent.growths)))]
            return Next((source,), operator, params | dict(change), is_child=True)
        if isinstance(operator, Grow) or (needs_pairs(operator) and not parent.is_pair):
            operator = Clone()
        if not takes_two_parents(operator):
            return Next((source,), operator, params, is_child=True)
        mates = self._mates(source, operator)
        if not mates:
            return Next((source,), Clone(), params, is_child=True)
        if isinstance(operator, HostAndAgent):
            return self._pair(source, mates)
        other = better_of_two(self.scores.strength, mates, self.rng)
        return Next((source, other), operator, params, is_child=True)

    def _pair(self, source: int, mates: Sequence[int]) -> Next:
        """Return the child of a host and an agent: one of ``source``, the other of a mate.

        Mates are drawn by what their one player adds, whatever their other one is like.
        """
        hosts, agents = self.scores.roles.T
        with_its_host = source, better_of_two(agents, mates, self.rng)
        with_its_agent = better_of_two(hosts, mates, self.rng), source
        pair = max(with_its_host, with_its_agent, key=lambda two: hosts[two[0]] + agents[two[1]])
        return Next(pair, HostAndAgent(), dict(self.members[pair[0]].params), is_child=True)

    def _mates(self, source: int, operator: OperatorOptions) -> list[int]:
        """Return who may be the second parent: kin of the first, if any, where weights mix.

        Networks that share the beginning of their training stay so close that weights between them
        play as well; between others' lies a barrier that aligning them lowers, not removes (Frankle
        et al., Linear mode connectivity and the lottery ticket hypothesis, arXiv 1912.05671).
        """
        parent = self.members[source]
        others = [k for k in range(len(self.members)) if k != source]
        if not joins_islands(operator):
            others = [k for k in others if self.members[k].shape == parent.shape]
        if not PARENTS[operator.name].alike:
            return others
        return [k for k in others if self.members[k].families == parent.families] or others

    def _operator(self) -> OperatorOptions:
        """Return an operator, the likelier the more of its children were adopted."""
        known = [
            self.records.get(operator.name, OperatorRecord(0, 0)) for operator in self.operators
        ]
        chances = operator_chances(known, self.rules.floor)
        return self.operators[int(pick_operators(chances, 1, self.rng)[0])]


EVEN = 0.5
"""confidence with which any difference counts"""


def breed(
    rules: PopulationOptions,
    members: Sequence[JudgedMember],
    scores: Scores,
    exploring: Exploring,
    records: Mapping[str, OperatorRecord],
    rng: np.random.Generator,
    *,
    num_vacant: int,
) -> BreedingPlan:
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
    draft = Mating(rules, rules.operators, members, scores, records, mating)
    islands = islands_of(rules.operators, [member.shape for member in members])
    successors = _successors(rules, scores, islands, selecting)
    ended = [place for place, member in enumerate(members) if member.has_ended]
    unchanged = [draft.next(place, successors[place]) for place in ended]
    unchanged += [draft.newcomer() for _ in range(num_vacant)]
    children = [successor for successor in unchanged if successor.is_child]
    values = iter(
        explored(rules.explore, [child.params for child in children], exploring, perturbing)
    )
    planned = [
        replace(successor, params=next(values)) if successor.is_child else successor
        for successor in unchanged
    ]
    return BreedingPlan(dict(zip(ended, planned, strict=False)), planned[len(ended) :])


def breed_untrained(
    rules: PopulationOptions,
    closing: Closing,
    members: Sequence[JudgedMember],
    scores: Scores,
    records: Mapping[str, OperatorRecord],
    rng: np.random.Generator,
) -> dict[int, Next]:
    """Return the children that come after the last interval, by place; all others stay.

    They play as they are born. Of what lies between networks that end beside each other, much is
    stronger than any of them (Wortsman et al., Model soups, arXiv 2203.05482).

    Args:
        rules: of the population.
        closing: the operators, and how many give way; as none trains on, any difference counts.
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
    draft = Mating(rules, closing.operators, members, scores, records, mating)
    born = {
        place: draft.next(place, successor)
        for place, successor in enumerate(successors)
        if successor.is_child
    }
    # A member without a mate would be copied.
    return {place: child for place, child in born.items() if not isinstance(child.operator, Clone)}


def _successors(
    rules: PopulationOptions, scores: Scores, islands: Sequence[str], rng: np.random.Generator
) -> list[Replacement]:
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
        case NoSelection():
            return [Replacement(k, is_child=False) for k in range(scores.named.shape[1])]
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
