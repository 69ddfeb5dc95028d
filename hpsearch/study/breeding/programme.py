"""Who plays in a match, and in which row or column: the order in which a plan lists them."""

from collections.abc import Iterator
from dataclasses import dataclass

from hpsearch.cluster.match_dir import Entrant, MatchPlan, Response
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.population.fitness import Places
from hpsearch.population.options import Matches, scripted_players
from hpsearch.study.breeding.records import Match
from hpsearch.study.records import Trial
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.players import ROLES, Role

RESPONSE_SEEDS = 10_000
"""matches of a study, each of which has a seed for the responses that train in it"""


@dataclass(frozen=True)
class Programme:
    """Who plays: the members, past champions that are no members any more, scripted players."""

    members: tuple[Trial, ...]
    """by their place in the population"""
    archive: tuple[Trial, ...]
    roles: tuple[str, ...]
    """that they learn"""
    matches: Matches

    def plan(
        self, match: Match, config: CommonConfig, seed: int, champion: Trial | None
    ) -> MatchPlan:
        """Return what the job is told.

        Args:
            match: which one.
            config: of any member: where it plays.
            seed: of the study: no two studies meet the same starts.
            champion: of the match before, None in the first.
        """
        starts = f"study {seed} match {match.number}"
        return MatchPlan(
            hosts=self._entrants("host"),
            agents=self._entrants("agent"),
            num_games=self.matches.num_games,
            max_steps=self.matches.max_steps,
            splits=(f"{starts} named", f"{starts} fresh"),
            device=config.device,
            responses=tuple(self._responses(champion, match, seed)),
        )

    def _responses(self, champion: Trial | None, match: Match, seed: int) -> Iterator[Response]:
        steps = self.matches.best_response
        if champion is not None and steps is not None:
            for role in ROLES:
                if role in self.roles:
                    where, own = _checkpoint(champion), RESPONSE_SEEDS * seed + match.number
                    yield Response(role, champion.number, where, steps, own)

    def names(self, role: Role) -> list[str]:
        """Return the names of a side: rows or columns of the games."""
        return [one.name for one in self._entrants(role)]

    def member_places(self) -> list[Places]:
        """Return where each member's players stand."""
        return [self._places(index) for index in range(len(self.members))]

    def archive_places(self) -> list[Places]:
        """Return where the past champions' players stand."""
        first = len(self.members)
        return [self._places(first + index) for index in range(len(self.archive))]

    def panel_places(self) -> Places:
        """Return the first row and the first column of scripted players."""
        num_learned = len(self.members) + len(self.archive)
        return Places(*(num_learned if role in self.roles else 0 for role in ROLES))

    def _places(self, index: int) -> Places:
        return Places(*(index if role in self.roles else None for role in ROLES))

    def _entrants(self, role: Role) -> tuple[Entrant, ...]:
        learned = (*self.members, *self.archive) if role in self.roles else ()
        return (
            *(Entrant(str(trial.number), _checkpoint(trial)) for trial in learned),
            *(Entrant(name, None) for name in scripted_players(role, self.matches.panel)),
        )


def _checkpoint(trial: Trial) -> str:
    assert trial.origin is not None, "members are trials of the population"
    return final_checkpoint(trial.number, trial.origin.steps)
