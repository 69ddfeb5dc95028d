"""Breeding: what each member whose interval has ended does next, from what a match says.

Pure: the same games, members and random numbers give the same plan. Nothing here touches weights;
the plan names operators, which jobs apply. Axes: K members, P hosts, Q agents, R samples.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, assert_never

import numpy as np

from hpsearch.population.exploring.explore import explore
from hpsearch.population.exploring.model_explore import Generation, model_explore
from hpsearch.population.exploring.parameters import IsActive, Parameter
from hpsearch.population.exploring.perturbation import Perturbation
from hpsearch.population.islands import bridge, islands_of, joins_islands
from hpsearch.population.operators.options import Clone, Grow, OperatorOptions
from hpsearch.population.operators.table import OPERATORS
from hpsearch.population.options import (
    Keep,
    Model,
    Nobody,
    Pareto,
    Perturb,
    PopulationOptions,
    Schedule,
    Tournament,
    Truncation,
    needs_pairs,
    takes_two_parents,
)
from hpsearch.population.scores import Scores
from hpsearch.population.selection.operator_choice import (
    OperatorRecord,
    operator_chances,
    pick_operators,
)
from hpsearch.population.selection.succession import (
    Successor,
    better_of_two,
    by_pareto,
    by_tournament,
    by_truncation,
)


@dataclass(frozen=True)
class Member:
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
class Plan:
    """What comes next in a population."""

    places: Mapping[int, Next]
    """by member whose interval has ended"""
    vacancies: Sequence[Next]
    """in the places of members that were lost before they could play"""


@dataclass(frozen=True)
class Exploring:
    """The parameters that children may change, and what is known of them."""

    parameters: Mapping[str, Parameter]
    """each after those on which its existence depends"""
    is_active: IsActive
    history: Sequence[Generation]
    generation: int


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
    draft = _Draft(rules, members, scores, records, mating)
    islands = islands_of(rules, [member.shape for member in members])
    successors = _successors(rules, scores, islands, selecting)
    ended = [place for place, member in enumerate(members) if member.has_ended]
    unchanged = [draft.next(place, successors[place]) for place in ended]
    unchanged += [draft.newcomer() for _ in range(num_vacant)]
    children = [one for one in unchanged if one.is_child]
    explored = iter(
        _explored(rules.explore, [one.params for one in children], exploring, perturbing)
    )
    planned = [replace(one, params=next(explored)) if one.is_child else one for one in unchanged]
    return Plan(dict(zip(ended, planned, strict=False)), planned[len(ended) :])


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


@dataclass(frozen=True)
class _Draft:
    """Finds parents and operators; children have their first parent's hyperparameters yet."""

    rules: PopulationOptions
    members: Sequence[Member]
    scores: Scores
    records: Mapping[str, OperatorRecord]
    rng: np.random.Generator

    def next(self, place: int, successor: Successor) -> Next:
        """Return what comes next in a member's place."""
        source = successor.source
        if not successor.is_child:
            return Next((source,), Clone(), dict(self.members[source].params), is_child=False)
        if self.members[source].shape != self.members[place].shape:
            distillation = bridge(self.rules)
            assert distillation is not None, "selection keeps to islands that nothing joins"
            params = dict(self.members[place].params)  # an island keeps its shape
            return Next((place, source), distillation, params, is_child=True)
        return self._child(source)

    def newcomer(self) -> Next:
        """Return what comes in a place that nobody holds: a child of a good one."""
        everybody = range(len(self.members))
        source = better_of_two(self.scores.strength, everybody, self.rng)
        assert source is not None, "a match has members"
        return self._child(source)

    def _child(self, source: int) -> Next:
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
        other = better_of_two(self.scores.strength, mates, self.rng)
        if other is None:
            return Next((source,), Clone(), params, is_child=True)
        return Next((source, other), operator, params, is_child=True)

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
        if not OPERATORS[operator.name].parents_alike:
            return others
        return [k for k in others if self.members[k].families == parent.families] or others

    def _operator(self) -> OperatorOptions:
        """Return an operator, the likelier the more of its children were adopted."""
        operators = self.rules.operators
        known = [self.records.get(one.name, OperatorRecord(0, 0)) for one in operators]
        chances = operator_chances(known, self.rules.floor)
        return operators[int(pick_operators(chances, 1, self.rng)[0])]


def _explored(
    how: Perturb | Model | Keep | Schedule,
    parents: Sequence[Mapping[str, Any]],
    exploring: Exploring,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the children's hyperparameters; those that must not change stay."""
    if isinstance(how, Keep | Schedule):
        return [dict(params) for params in parents]
    kept = [
        {name: value for name, value in params.items() if name not in exploring.parameters}
        for params in parents
    ]
    children: list[dict[str, Any]] = [{} for _ in parents]
    # Together where what must not change is the same: it decides which parameters there are.
    for same in _distinct(kept):
        places = [place for place, one in enumerate(kept) if one == same]
        found = _changed(how, [parents[place] for place in places], same, exploring, rng)
        for place, values in zip(places, found, strict=True):
            children[place] = same | values
    return children


def _distinct(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in values:
        if one not in found:
            found.append(one)
    return found


def _changed(
    how: Perturb | Model,
    parents: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any],
    exploring: Exploring,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the parameters that may change of children whose parents share all others."""

    def is_active(name: str, values: Mapping[str, Any]) -> bool:
        return exploring.is_active(name, {**same, **values})

    match how:
        case Perturb():
            return [
                explore(params, exploring.parameters, is_active, perturbation(how), rng)
                for params in parents
            ]
        case Model():
            return model_explore(
                parents,
                exploring.history,
                exploring.parameters,
                is_active,
                generation=exploring.generation,
                optimism=how.optimism,
                how=perturbation(how.perturb),
                rng=rng,
            )
        case _:
            assert_never(how)


def perturbation(how: Perturb) -> Perturbation:
    """Return the steps that a study file names."""
    return Perturbation(how.factor, how.range_share, how.resample, how.switch)
