"""What a match decides: the champion, and the trials that come next."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from hpsearch.cluster.match_dir import Games
from hpsearch.population.breeding import breed, breed_untrained
from hpsearch.population.exploring.children import Exploring
from hpsearch.population.operators.options import Grow
from hpsearch.population.options import Closing, Nobody, Pareto, PopulationOptions
from hpsearch.population.plan import Member
from hpsearch.population.ratings.resampling import interval
from hpsearch.population.scores import Scores, Standing, score
from hpsearch.study.breeding.beginnings import beginning
from hpsearch.study.breeding.game import game_of
from hpsearch.study.breeding.growths import growths_of
from hpsearch.study.breeding.history import improvements
from hpsearch.study.breeding.kinship import families
from hpsearch.study.breeding.members import explorable_of, size
from hpsearch.study.breeding.origins import Origins
from hpsearch.study.breeding.programme import Programme
from hpsearch.study.breeding.records import Match, Origin, PopulationRecord
from hpsearch.study.records import Trial
from hpsearch.study.spec import Study
from hpsearch.study.trials import Trials
from hpsearch.trainers.config import TrainerConfig, shape_key

CONFIDENCE = 0.95
"""of the intervals that are noted"""
CLOSING = 1
"""third number of the seeds of a closing, beside the study's and the match's"""


class Judge:
    """Turns the games of a match into a decision; the same games give the same one."""

    def __init__(self, study: Study, options: PopulationOptions, trials: Trials) -> None:
        """Take what the study says, and what its trials are."""
        self._study = study
        self._options = options
        self._trials = trials
        (base,) = study.bases.values()
        self._explorable = explorable_of(base, study.space)

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
        scores = self._scores(programme, games, rng)
        strengths = {
            trial.number: strength
            for trial, strength in zip(programme.members, scores.strength.tolist(), strict=True)
        }
        anew, vacant = self._places_of_lost(match)
        plan = breed(
            self._options,
            self._members(match, programme, known),
            scores,
            self._exploring(match, strengths, known, population),
            population.operators,
            rng,
            num_vacant=len(vacant),
        )
        origins = Origins(self._study, self._options, match, programme, population)
        places = {origins.member_at(index): one for index, one in plan.places.items()}
        places |= dict(zip(vacant, plan.vacancies, strict=True))
        bred = [origins.next(member, one) for member, one in sorted(places.items())]
        begun = [beginning(one, self._study, self._options, population) for one in anew]
        return {
            "match": match.number,
            "champion": max(strengths, key=lambda number: strengths[number]),
            "strengths": {str(number): one for number, one in strengths.items()},
            "intervals": _intervals(programme, scores),
            "game": game_of(programme, games),
            "children": [asdict(origin) for origin in (*bred, *begun)],
        }

    def close(
        self,
        closing: Closing,
        match: Match,
        programme: Programme,
        games: Games,
        known: Mapping[int, Trial],
        population: PopulationRecord,
    ) -> list[Origin]:
        """Return the children of a generation of the closing, which do not train.

        Args:
            closing: how many, and by which operators.
            match: the last one, by which they are planned.
            programme: who stood where.
            games: on both sets of starts.
            known: the study's trials, by number.
            population: before.
        """
        seed = self._study.spec.seed
        scores = self._scores(programme, games, np.random.default_rng([seed, match.number]))
        members = self._members(match, programme, known)
        rng = np.random.default_rng([seed, match.number, CLOSING])
        born = breed_untrained(self._options, closing, members, scores, population.operators, rng)
        origins = Origins(self._study, self._options, match, programme, population)
        return [origins.untrained(origins.member_at(place), one) for place, one in born.items()]

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

    def _members(
        self, match: Match, programme: Programme, known: Mapping[int, Trial]
    ) -> list[Member]:
        return [self._member(trial, match, known) for trial in programme.members]

    def _member(self, trial: Trial, match: Match, known: Mapping[int, Trial]) -> Member:
        config = self._trials.config(trial)
        return Member(
            params=trial.last_params,
            has_ended=trial.member in match.ended,
            shape=shape_key(config),
            families=families(trial, tuple(config.learning()), known),
            is_pair=len(config.learning()) == 2,
            growths=self._growths(trial, config),
        )

    def _growths(self, trial: Trial, config: TrainerConfig) -> tuple[dict[str, Any], ...]:
        if not any(isinstance(one, Grow) for one in self._options.operators):
            return ()  # nobody asks
        return tuple(growths_of(trial.last_params, config, self._study.space))

    def _scores(self, programme: Programme, games: Games, rng: np.random.Generator) -> Scores:
        configs = [self._trials.config(trial) for trial in programme.members]
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


def _intervals(programme: Programme, scores: Scores) -> dict[str, list[float]]:
    """Return the ends of the interval of each member's strength on the fresh starts."""
    ends = interval(scores.fresh, CONFIDENCE).T.tolist()
    return {str(t.number): found for t, found in zip(programme.members, ends, strict=True)}
