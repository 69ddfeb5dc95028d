"""The trials that come after a match: what was planned for places, as places of a study."""

from dataclasses import asdict, dataclass
from typing import Any

from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.population.plan import Next
from hpsearch.study.breeding.programme import Programme
from hpsearch.study.breeding.records import Match, Origin, PopulationRecord, key_after
from hpsearch.study.breeding.schedule import scheduled
from hpsearch.study.spec import Study
from hpsearch.trainers.checkpoint_name import step_of


@dataclass(frozen=True)
class Origins:
    """Says where the trials come from that follow a match."""

    study: Study
    options: PopulationOptions
    match: Match
    programme: Programme
    population: PopulationRecord
    """before the match was judged"""

    def member_at(self, index: int) -> int:
        """Return the place in the population of who was at one in the match."""
        return self.programme.members[index].member

    def next(self, member: int, coming: Next) -> Origin:
        """Return a member's next interval."""
        key = key_after(member, self.population)
        return self._origin(member, coming, key, self.options.interval)

    def untrained(self, member: int, coming: Next) -> Origin:
        """Return the child of the closing that takes a member's place."""
        # Not the key of an interval: one may have been planned, and come if the budget is raised.
        key = f"{key_after(member, self.population)}, closing"
        return self._origin(member, coming, key, 0)

    def _origin(self, member: int, coming: Next, key: str, steps: int) -> Origin:
        parents = [self.programme.members[index] for index in coming.parents]
        ended = tuple(parent.origin.steps for parent in parents if parent.origin is not None)
        founder = parents[0].origin.founder if parents[0].origin is not None else None
        return Origin(
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
