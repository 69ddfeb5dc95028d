"""Breeding: decides from the games of a match what takes each member's place next.

Pure: the same games, members and random numbers give the same plan. Nothing here touches weights;
the plan names operators, which jobs apply. Members of one shape are a species, and only they can
take each other's places; by distillation a member also learns from a parent of another shape.
Axes: K members, O operators.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np
from numpy.random import Generator

from hpsearch.population import options, selection
from hpsearch.population.explore import Exploring, children_params
from hpsearch.population.fitness import Scores
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.population.operators import options as kinds
from hpsearch.population.statistics import Floats

ANY_DIFFERENCE = 0.5  # confidence with which any difference counts


@dataclass(frozen=True)
class JudgedMember:
    """A member that played in the match."""

    params: Mapping[str, Any]  # hyperparameters, in the form in which the study stores them
    has_ended: bool  # whether its interval is over, so that something comes next
    shape: str  # members of one shape can give each other their weights
    families: tuple[str, ...]
    """of each role's networks; in one family all networks share the beginning of their training"""
    is_pair: bool
    growths: tuple[Mapping[str, Any], ...]
    """for each role that can grow, the hyperparameters that its next larger network changes"""


@dataclass(frozen=True)
class NextMember:
    parents: tuple[int, ...]  # members; the first gives all that the operator does not make
    operator: kinds.OperatorOptions
    params: dict[str, Any]
    is_child: bool = True  # whether it was made by selection; else the member continues as it is


@dataclass(frozen=True)
class BreedingPlan:
    places: Mapping[int, NextMember]  # by member whose interval has ended
    vacancies: Sequence[NextMember]  # in place of members that were lost before they could play


def breed(
    rules: options.PopulationOptions,
    members: Sequence[JudgedMember],
    scores: Scores,
    exploring: Exploring,
    records: Mapping[str, OperatorRecord],
    rng: Generator,
    *,
    num_vacant: int,
) -> BreedingPlan:
    """Return what comes next where an interval has ended, and in ``num_vacant`` lost places.

    ``scores`` are in the order of the members, ``records`` by the names of operators.
    """
    # Separate streams: another operator or mate changes nothing of who is replaced and what
    # children explore.
    selecting_rng, mating_rng, perturbing_rng = rng.spawn(3)
    mating = Mating(rules.operators, rules.floor, members, scores, records, mating_rng)
    replacements = _replacements(rules, scores, mating.species, selecting_rng)
    ended = [place for place, member in enumerate(members) if member.has_ended]
    planned = [mating.next_member(place, replacements[place]) for place in ended]
    planned += [mating.child_for_empty_slot() for _ in range(num_vacant)]
    parents = [child.params for child in planned if child.is_child]
    params = iter(children_params(rules.explore, parents, exploring, perturbing_rng))
    planned = [
        replace(next_member, params=next(params)) if next_member.is_child else next_member
        for next_member in planned
    ]
    return BreedingPlan(dict(zip(ended, planned, strict=False)), planned[len(ended) :])


def breed_untrained(
    rules: options.PopulationOptions,
    closing: options.Closing,
    members: Sequence[JudgedMember],
    scores: Scores,
    records: Mapping[str, OperatorRecord],
    rng: Generator,
) -> dict[int, NextMember]:
    """Return the children that come after the last interval, by place; all others stay.

    They play without training. Averages of networks that ended near each other are often stronger
    than each of them (Wortsman et al., Model soups, arXiv 2203.05482). Arguments as in `breed`;
    ``closing`` names the operators and how many members are replaced.
    """
    selecting_rng, mating_rng = rng.spawn(2)
    mating = Mating(closing.operators, rules.floor, members, scores, records, mating_rng)
    worst = options.Truncation(share=closing.share, confidence=ANY_DIFFERENCE)
    replacements = selection.by_truncation(
        scores.naming, scores.confirming, worst, mating.species, selecting_rng
    )
    children = {
        place: mating.next_member(place, replacement)
        for place, replacement in enumerate(replacements)
        if replacement.is_child
    }
    # A child whose operator became Clone is left out: it would be a mere copy.
    return {
        k: child for k, child in children.items() if not isinstance(child.operator, kinds.Clone)
    }


def _replacements(
    rules: options.PopulationOptions, scores: Scores, species: Sequence[str], rng: Generator
) -> list[selection.Replacement]:
    rule, naming, confirming = rules.selection, scores.naming, scores.confirming
    match rule:
        case options.Truncation():
            return selection.by_truncation(naming, confirming, rule, species, rng)
        case options.Tournament():
            return selection.by_tournament(naming, confirming, rule, species, rng)
        case options.Pareto():
            objectives = scores.naming_objectives, scores.confirming_objectives
            return selection.by_pareto(*objectives, rule, species, rng)
        case options.NoSelection():
            return selection.unchanged(naming.shape[1])
        case _:
            assert_never(rule)


@dataclass(frozen=True)
class Mating:
    """Finds parents and operators; only growth changes the first parent's hyperparameters here."""

    operators: Sequence[kinds.OperatorOptions]  # by which children are made here; at least one
    floor: float  # least chance of an operator
    members: Sequence[JudgedMember]
    scores: Scores
    records: Mapping[str, OperatorRecord]
    rng: Generator

    @property
    def species(self) -> list[str]:
        """Each member's species, K names: its shape; all are one where there is distillation."""
        return ["" if self._distillation() else member.shape for member in self.members]

    def next_member(self, place: int, replacement: selection.Replacement) -> NextMember:
        source = replacement.source
        if not replacement.is_child:
            return NextMember(
                (source,), kinds.Clone(), dict(self.members[source].params), is_child=False
            )
        if self.members[source].shape != self.members[place].shape:
            distillation = self._distillation()
            assert distillation is not None, "selection keeps to one species"
            params = dict(self.members[place].params)  # a species keeps its shape
            return NextMember((place, source), distillation, params)
        return self._child(source)

    def child_for_empty_slot(self) -> NextMember:
        """Return what comes in an empty place: a child of a good member."""
        return self._child(
            selection.better_of_two(self.scores.strength, range(len(self.members)), self.rng)
        )

    def _child(self, source: int) -> NextMember:
        """Return a child that ``source`` has a part in, as its first parent unless pairs swap."""
        operator, parent = self._operator(), self.members[source]
        params = dict(parent.params)
        if isinstance(operator, kinds.Grow) and parent.growths:
            change = parent.growths[int(self.rng.integers(len(parent.growths)))]
            return NextMember((source,), operator, params | dict(change))
        mates = self._mates(source, operator)
        if isinstance(operator, kinds.HostAndAgent):
            if parent.is_pair and mates:
                return self._pair(source, mates)
        elif isinstance(operator, kinds.TwoParents) and mates:
            other = selection.better_of_two(self.scores.strength, mates, self.rng)
            return NextMember((source, other), operator, params)
        if isinstance(operator, kinds.Grow | kinds.TwoParents):
            operator = kinds.Clone()  # the parent cannot grow, or has no mate
        return NextMember((source,), operator, params)

    def _pair(self, source: int, mates: Sequence[int]) -> NextMember:
        """Return the child of a host and an agent: one of ``source``, the other of a mate.

        A mate is drawn by the strength of the one player that is taken from it.
        """
        hosts, agents = self.scores.roles.T
        with_its_host = source, selection.better_of_two(agents, mates, self.rng)
        with_its_agent = selection.better_of_two(hosts, mates, self.rng), source
        pair = max(with_its_host, with_its_agent, key=lambda two: hosts[two[0]] + agents[two[1]])
        return NextMember(pair, kinds.HostAndAgent(), dict(self.members[pair[0]].params))

    def _mates(self, source: int, operator: kinds.OperatorOptions) -> list[int]:
        """Return who may be the second parent: of the first's families, if any, where weights mix.

        Networks that share the beginning of their training stay so close that weights between them
        play as well; between others' lies a barrier that aligning them lowers, not removes (Frankle
        et al., Linear mode connectivity and the lottery ticket hypothesis, arXiv 1912.05671).
        """
        parent = self.members[source]
        others = [k for k in range(len(self.members)) if k != source]
        if not isinstance(operator, kinds.DistillationCrossover):
            others = [k for k in others if self.members[k].shape == parent.shape]
        if not isinstance(operator, kinds.MixingWeights):
            return others
        return [k for k in others if self.members[k].families == parent.families] or others

    def _operator(self) -> kinds.OperatorOptions:
        """Return an operator, the likelier the more of its children were adopted."""
        untried = OperatorRecord(0, 0)
        records = [self.records.get(operator.name, untried) for operator in self.operators]
        chances = operator_chances(records, self.floor)
        return self.operators[int(self.rng.choice(len(chances), p=chances))]

    def _distillation(self) -> kinds.DistillationCrossover | None:
        """Return the operator that makes one species of all, None if there is none."""
        return next((o for o in self.operators if isinstance(o, kinds.DistillationCrossover)), None)


def operator_chances(records: Sequence[OperatorRecord], floor: float) -> Floats:
    """Return the chance of each operator, float64 (O,), none below ``floor``.

    Source: Thierens, An adaptive pursuit strategy for allocating operator probabilities (GECCO
    2005), probability matching with a minimal probability.
    """
    quality = np.array([record.quality for record in records])
    return np.asarray(floor + (1 - floor * len(records)) * quality / quality.sum())
