"""How chains of trials begin and go on: the trials that are planned, and their kin.

The trials that come after a match: what was planned for places, as places of a study.

Kinship: whose networks began as the same ones.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from hpsearch.cluster.records import Fresh
from hpsearch.parameters import FloatParameter, IntParameter, Parameter, label_of
from hpsearch.population.breeding import Next
from hpsearch.population.operators.options import Clone, HostAndAgent
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.study.breeding.checks import scheduled
from hpsearch.study.breeding.matches import MatchRoster
from hpsearch.study.records import Match, PlannedTrial, PopulationRecord, Trial, key_after
from hpsearch.study.spec import Study
from hpsearch.trainers.checkpoint_name import step_of


def beginning(
    member: int, study: Study, options: PopulationOptions, population: PopulationRecord
) -> PlannedTrial:
    """Return a member's first trial."""
    generation, explore = len(population.matches), options.explore
    fresh = PlannedTrial(
        key=key_after(member, population),
        member=member,
        generation=generation,
        parents=(),
        parent_steps=(),
        operator=asdict(Fresh()),
        is_child=False,
        params=scheduled(explore, study.space, 0) if isinstance(explore, Schedule) else None,
        steps=options.interval,
    )
    if not options.founders:
        return fresh
    founder = member % len(options.founders)
    step = step_of(options.founders[founder])
    return replace(
        fresh,
        parent_steps=(step,),
        operator=asdict(Clone()),
        params=fresh.params or _params_of(study, founder),
        steps=step + options.interval,
        founder=founder,
    )


def _params_of(study: Study, founder: int) -> dict[str, Any]:
    """Return a founder's values of the space's parameters, inside their ranges."""
    params: dict[str, Any] = {}
    for path in study.space.order:
        parameter = study.space.parameters[path]
        if study.space.is_active(path, study.space.decode(params)):
            params[path] = _inside(parameter, study.founder_value(founder, path))
    return params


def _inside(parameter: Parameter, value: Any) -> Any:
    """Return a value as Optuna stores it, the nearest bound where it lies outside the range."""
    if isinstance(parameter, FloatParameter | IntParameter):
        return min(max(value, parameter.low), parameter.high)
    return label_of(value)


@dataclass(frozen=True)
class TrialPlanner:
    """Says where the trials come from that follow a match."""

    study: Study
    options: PopulationOptions
    match: Match
    programme: MatchRoster
    population: PopulationRecord
    """before the match was judged"""

    def member_at(self, index: int) -> int:
        """Return the place in the population of who was at one in the match."""
        return self.programme.members[index].member

    def next(self, member: int, coming: Next) -> PlannedTrial:
        """Return a member's next interval."""
        key = key_after(member, self.population)
        return self._origin(member, coming, key, self.options.interval)

    def untrained(self, member: int, coming: Next) -> PlannedTrial:
        """Return the child of the closing that takes a member's place."""
        # Not the key of an interval: one may have been planned, and come if the budget is raised.
        key = f"{key_after(member, self.population)}, closing"
        return self._origin(member, coming, key, 0)

    def _origin(self, member: int, coming: Next, key: str, steps: int) -> PlannedTrial:
        parents = [self.programme.members[index] for index in coming.parents]
        ended = tuple(parent.origin.steps for parent in parents if parent.origin is not None)
        founder = parents[0].origin.founder if parents[0].origin is not None else None
        return PlannedTrial(
            key=key,
            member=member,
            generation=self.match.number,
            parents=tuple(parent.number for parent in parents),
            parent_steps=ended,
            operator=asdict(coming.operator),
            is_child=coming.is_child,
            params=self._params(coming, ended[0], founder),
            steps=ended[0] + steps,
            founder=founder,
        )

    def _params(self, coming: Next, begin: int, founder: int | None) -> dict[str, Any]:
        """Return what a trial that begins at a step, of a line from a founder, learns by."""
        explore = self.options.explore
        if not isinstance(explore, Schedule):
            return coming.params
        first = 0 if founder is None else step_of(self.options.founders[founder])
        # Counted along the line, not by matches: who was late for one skips no interval.
        return scheduled(explore, self.study.space, (begin - first) // self.options.interval)


def families(trial: Trial, roles: tuple[str, ...], known: Mapping[int, Trial]) -> tuple[str, ...]:
    """Return what a trial's networks began as, of each role a name that all share who did too.

    Along first parents, which give all that an operator does not make, and along the copies that
    took a trial's place on its island. A mixture of two families counts to its first parent's.

    Args:
        trial: of a population.
        roles: that learn.
        known: the study's trials, by number.
    """
    return tuple(_family(trial, role, known) for role in roles)


def _family(trial: Trial, role: str, known: Mapping[int, Trial]) -> str:
    before = None  # copies that came earlier than this step count; None: all
    while True:
        copies = [
            takeover for takeover in trial.takeovers if before is None or takeover.step < before
        ]
        origin = trial.origin
        if copies:
            # What a source gives at a step, it had before it took anything at that step.
            trial, before = known[copies[-1].source], copies[-1].source_step
        elif origin is not None and origin.parents:
            trial, before = known[_parent(trial, role)], None
        elif origin is not None and origin.founder is not None:
            return f"founder {origin.founder}"
        else:
            return f"trial {trial.number}"


def _parent(trial: Trial, role: str) -> int:
    """Return the parent from which a role's networks come."""
    assert trial.origin is not None, "who has parents was planned"
    is_joined = trial.origin.operator["name"] == HostAndAgent.name and trial.is_adopted
    return trial.origin.parents[1 if is_joined and role == "agent" else 0]
