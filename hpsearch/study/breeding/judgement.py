"""What a match decides: the champion, and the trials that come next."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from hpsearch.cluster.match_dir import Games
from hpsearch.population.breeding import Exploring, Member, Next, Plan, breed
from hpsearch.population.operators.options import Grow
from hpsearch.population.options import Nobody, Pareto, PopulationOptions, Schedule
from hpsearch.population.ratings.resampling import interval
from hpsearch.population.scores import Scores, Standing, score
from hpsearch.study.breeding.beginnings import beginning
from hpsearch.study.breeding.game import game_of
from hpsearch.study.breeding.growths import growths_of
from hpsearch.study.breeding.history import improvements
from hpsearch.study.breeding.kinship import families
from hpsearch.study.breeding.members import explorable, size
from hpsearch.study.breeding.programme import Programme
from hpsearch.study.breeding.records import Match, Origin, PopulationRecord, key_after
from hpsearch.study.breeding.schedule import scheduled
from hpsearch.study.records import Trial
from hpsearch.study.spec import Study
from hpsearch.study.trials import Trials
from hpsearch.trainers.checkpoint_name import step_of
from hpsearch.trainers.config import TrainerConfig, shape_key

CONFIDENCE = 0.95
"""of the intervals that are noted"""


class Judge:
    """Turns the games of a match into a decision; the same games give the same one."""

    def __init__(self, study: Study, options: PopulationOptions, trials: Trials) -> None:
        """Take what the study says, and what its trials are."""
        self._study = study
        self._options = options
        self._trials = trials
        self._explorable = explorable(study)

    def decide(
        self,
        match: Match,
        programme: Programme,
        games: Games,
        known: Mapping[int, Trial],
        population: PopulationRecord,
    ) -> dict[str, Any]:
        """Return the decision, as the event holds it that records it.

        Args:
            match: that was played.
            programme: who stood where.
            games: on both sets of starts.
            known: the study's trials, by number.
            population: before the decision.
        """
        rng = np.random.default_rng([self._study.spec.seed, match.number])
        configs = [self._trials.config(trial) for trial in programme.members]
        scores = self._scores(programme, configs, games, rng)
        strengths = {
            trial.number: strength
            for trial, strength in zip(programme.members, scores.strength.tolist(), strict=True)
        }
        anew, vacant = self._places_of_lost(match)
        plan = breed(
            self._options,
            [
                self._member(trial, config, match, known)
                for trial, config in zip(programme.members, configs, strict=True)
            ],
            scores,
            self._exploring(match, strengths, known, population),
            population.operators,
            rng,
            num_vacant=len(vacant),
        )
        return {
            "match": match.number,
            "champion": max(strengths, key=lambda number: strengths[number]),
            "strengths": {str(number): one for number, one in strengths.items()},
            "intervals": _intervals(programme, scores),
            "game": game_of(programme, games),
            "children": [
                asdict(origin)
                for origin in (
                    *self._bred(_by_member(plan, programme, vacant), match, programme, population),
                    *(beginning(one, self._study, self._options, population) for one in anew),
                )
            ],
        }

    def unplayed(self, match: Match, population: PopulationRecord) -> dict[str, Any]:
        """Return the decision on a match that judges nobody and could not be played: as before."""
        before = population.matches[match.number - 1]
        return {
            "match": match.number,
            "champion": before.champion,
            "strengths": {str(number): one for number, one in before.strengths.items()},
            "intervals": {str(number): ends for number, ends in before.intervals.items()},
            "game": before.game,
            "answers": [],
            "children": [],
        }

    def _places_of_lost(self, match: Match) -> tuple[list[int], list[int]]:
        """Return which of the members that were lost begin anew, and whose place a child takes."""
        lost = [member for member in match.ended if member not in match.members]
        # Where nobody gives way to another, nobody's child takes a place either.
        return (lost, []) if isinstance(self._options.selection, Nobody) else ([], lost)

    def _bred(
        self,
        coming: Mapping[int, Next],
        match: Match,
        programme: Programme,
        population: PopulationRecord,
    ) -> Iterator[Origin]:
        for member, one in sorted(coming.items()):
            yield self._origin(member, one, match, programme, population)

    def _member(
        self, trial: Trial, config: TrainerConfig, match: Match, known: Mapping[int, Trial]
    ) -> Member:
        return Member(
            params=trial.last_params,
            has_ended=member_of(trial) in match.ended,
            shape=shape_key(config),
            families=families(trial, tuple(config.learning()), known),
            is_pair=len(config.learning()) == 2,
            growths=self._growths(trial, config),
        )

    def _growths(self, trial: Trial, config: TrainerConfig) -> tuple[dict[str, Any], ...]:
        if not any(isinstance(one, Grow) for one in self._options.operators):
            return ()  # nobody asks
        return tuple(growths_of(trial.last_params, config, self._study.space))

    def _scores(
        self,
        programme: Programme,
        configs: Sequence[TrainerConfig],
        games: Games,
        rng: np.random.Generator,
    ) -> Scores:
        standing = Standing(
            programme.member_places(),
            programme.archive_places(),
            programme.panel_places(),
            np.array([size(config) for config in configs]),
        )
        selection = self._options.selection
        pareto = selection if isinstance(selection, Pareto) else None
        return score(games.moves, standing, self._options.matches, pareto, rng)

    def _exploring(
        self,
        match: Match,
        strengths: Mapping[int, float],
        known: Mapping[int, Trial],
        population: PopulationRecord,
    ) -> Exploring:
        found = {one.number: one.strengths for one in population.matches.values()}
        history = improvements(found | {match.number: dict(strengths)}, known)
        return Exploring(self._explorable, self._is_active, history, match.number)

    def _is_active(self, name: str, stored: Mapping[str, Any]) -> bool:
        space = self._study.space
        return space.is_active(name, space.decode(stored))

    def _origin(
        self,
        member: int,
        coming: Next,
        match: Match,
        programme: Programme,
        population: PopulationRecord,
    ) -> Origin:
        parents = [programme.members[index] for index in coming.parents]
        steps = tuple(parent.origin.steps for parent in parents if parent.origin is not None)
        founder = parents[0].origin.founder if parents[0].origin is not None else None
        return Origin(
            key=key_after(member, population),
            member=member,
            generation=match.number,
            parents=tuple(parent.number for parent in parents),
            parent_steps=steps,
            operator=asdict(coming.operator),
            is_child=coming.is_child,
            params=self._params(coming, steps[0], founder),
            steps=steps[0] + self._options.interval,
            founder=founder,
        )

    def _params(self, coming: Next, begin: int, founder: int | None) -> dict[str, Any]:
        """Return what a trial that begins at a step, of a line from a founder, learns by."""
        explore = self._options.explore
        if not isinstance(explore, Schedule):
            return coming.params
        first = 0 if founder is None else step_of(self._options.founders[founder])
        # Counted along the line, not by matches: who was late for one skips no interval.
        return scheduled(explore, self._study.space, (begin - first) // self._options.interval)


def member_of(trial: Trial) -> int:
    """Return the place in the population of one of its trials."""
    assert trial.origin is not None, "members are trials of the population"
    return trial.origin.member


def _by_member(plan: Plan, programme: Programme, vacant: list[int]) -> dict[int, Next]:
    places = {member_of(programme.members[index]): one for index, one in plan.places.items()}
    return places | dict(zip(vacant, plan.vacancies, strict=True))


def _intervals(programme: Programme, scores: Scores) -> dict[str, list[float]]:
    """Return the ends of the interval of each member's strength on the fresh starts."""
    ends = interval(scores.fresh, CONFIDENCE).T.tolist()
    return {str(t.number): found for t, found in zip(programme.members, ends, strict=True)}
