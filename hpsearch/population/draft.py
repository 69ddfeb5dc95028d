"""Whose child comes, by which operator, with whom: drawn for one place at a time."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hpsearch.population.islands import bridge, joins_islands
from hpsearch.population.operators.options import Clone, Grow, HostAndAgent, OperatorOptions
from hpsearch.population.operators.table import OPERATORS
from hpsearch.population.options import PopulationOptions, needs_pairs, takes_two_parents
from hpsearch.population.plan import Member, Next
from hpsearch.population.scores import Scores
from hpsearch.population.selection.operator_choice import operator_chances, pick_operators
from hpsearch.population.selection.operator_record import OperatorRecord
from hpsearch.population.selection.succession import Successor, better_of_two


@dataclass(frozen=True)
class Draft:
    """Finds parents and operators; children have their first parent's hyperparameters yet."""

    rules: PopulationOptions
    operators: Sequence[OperatorOptions]
    """by which children are made here; at least one"""
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
            distillation = bridge(self.operators)
            assert distillation is not None, "selection keeps to islands that nothing joins"
            params = dict(self.members[place].params)  # an island keeps its shape
            return Next((place, source), distillation, params, is_child=True)
        return self._child(source)

    def newcomer(self) -> Next:
        """Return what comes in a place that nobody holds: a child of a good one."""
        everybody = range(len(self.members))
        source = better_of_two(self.scores.strength, everybody, self.rng)
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
        if not OPERATORS[operator.name].parents_alike:
            return others
        return [k for k in others if self.members[k].families == parent.families] or others

    def _operator(self) -> OperatorOptions:
        """Return an operator, the likelier the more of its children were adopted."""
        known = [self.records.get(one.name, OperatorRecord(0, 0)) for one in self.operators]
        chances = operator_chances(known, self.rules.floor)
        return self.operators[int(pick_operators(chances, 1, self.rng)[0])]
