"""What a match decides: the champion, and the trials that come next.

What past intervals improved: what a model of improvements learns from.

The game between all players of a match, by their names, as the events hold it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from itertools import islice
from typing import Any

import numpy as np

from hpsearch.cluster.match_dir import MatchGames
from hpsearch.population.breeding import JudgedMember, breed, breed_untrained
from hpsearch.population.explore import Exploring, Generation
from hpsearch.population.fitness import MatchStanding, Scores, score
from hpsearch.population.operators.options import Grow
from hpsearch.population.options import Closing, NoSelection, Pareto, PopulationOptions
from hpsearch.population.ratings.cycles import Cycle, meta_game
from hpsearch.population.statistics import interval
from hpsearch.study.breeding.checks import explorable_of, growths_of, size
from hpsearch.study.breeding.initial_trials import TrialPlanner, beginning, families
from hpsearch.study.breeding.matches import MatchRoster
from hpsearch.study.records import Match, PlannedTrial, PopulationRecord, Trial
from hpsearch.study.spec import Study
from hpsearch.study.trials import Trials
from hpsearch.trainers.config import TrainerConfig, shape_key

MAX_INTERVALS = 300
"""the newest ones, since a model's time grows with the cube of their number"""

Strengths = Mapping[int, Mapping[int, float]]
"""by match and trial"""


def improvements(strengths: Strengths, known: Mapping[int, Trial]) -> list[Generation]:
    """Return how much stronger each interval made its member, less what all members gained.

    From the match that planned the interval to the first that judged it, in which every member that
    plays has gained on itself, or on its ancestor in the former. The opponents of a match are its
    own, so strengths of two matches differ by more than what was learned.

    Args:
        strengths: of all matches so far.
        known: trials by number.

    Returns:
        At most `MAX_INTERVALS`, the newest first.
    """
    newest_first = sorted(strengths, reverse=True)
    generations = (
        generation for match in newest_first for generation in _judged_by(match, strengths, known)
    )
    return list(islice(generations, MAX_INTERVALS))


def _judged_by(
    match: int, strengths: Strengths, known: Mapping[int, Trial]
) -> Iterator[Generation]:
    """Yield the improvements by the intervals that a match was the first to judge."""
    for since, trials in _planned_by(match, strengths, known).items():
        gains = _gains(match, since, strengths, known)
        common = sum(gains.values()) / len(gains)
        for trial in trials:
            yield Generation(known[trial].last_params, match, gains[trial] - common)


def _planned_by(
    match: int, strengths: Strengths, known: Mapping[int, Trial]
) -> dict[int, list[int]]:
    """Return the trials that a match was the first to judge, by the match that planned them."""
    planned: dict[int, list[int]] = {}
    for trial in strengths[match]:
        origin = known[trial].origin
        if origin is None or not origin.parents or not origin.trains:
            continue
        if trial not in strengths.get(match - 1, {}):
            planned.setdefault(origin.generation, []).append(trial)
    return planned


def _gains(
    match: int, since: int, strengths: Strengths, known: Mapping[int, Trial]
) -> dict[int, float]:
    """Return what the trials of a match gained since another, where they come from it."""
    gains = {}
    for trial, strength in strengths[match].items():
        ancestor: int | None = trial
        while ancestor is not None and ancestor not in strengths[since]:
            origin = known[ancestor].origin
            ancestor = origin.parents[0] if origin is not None and origin.parents else None
        if ancestor is not None:
            gains[trial] = strength - strengths[since][ancestor]
    return gains


def game_of(programme: MatchRoster, games: MatchGames) -> dict[str, Any] | None:
    """Return value, equilibrium, what best answers take, and cycles; None where none was found.

    Trials are named by their numbers, scripted players by their names; values are in rho.
    """
    analysed = meta_game(np.concatenate(list(games.moves), axis=2))
    if analysed is None:
        return None
    hosts, agents = programme.names("host"), programme.names("agent")
    return {
        "value": analysed.value,
        "hosts": {hosts[at]: share for at, share in analysed.hosts.items()},
        "agents": {agents[at]: share for at, share in analysed.agents.items()},
        "gaps": {
            "host": dict(zip(hosts, analysed.host_gaps.tolist(), strict=True)),
            "agent": dict(zip(agents, analysed.agent_gaps.tolist(), strict=True)),
        },
        "cyclic_share": analysed.cyclic_share,
        "cycles": [_named(cycle, hosts, agents) for cycle in analysed.cycles],
    }


def _named(cycle: Cycle, hosts: list[str], agents: list[str]) -> dict[str, Any]:
    return {
        "hosts": [hosts[at] for at in cycle.hosts],
        "agents": [agents[at] for at in cycle.agents],
        "strength": cycle.strength,
    }


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
        programme: MatchRoster,
        games: MatchGames,
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
        origins = TrialPlanner(self._study, self._options, match, programme, population)
        places = {origins.member_at(index): place for index, place in plan.places.items()}
        places |= dict(zip(vacant, plan.vacancies, strict=True))
        bred = [origins.next(member, coming) for member, coming in sorted(places.items())]
        begun = [beginning(member, self._study, self._options, population) for member in anew]
        return {
            "match": match.number,
            "champion": max(strengths, key=lambda number: strengths[number]),
            "strengths": {str(number): strength for number, strength in strengths.items()},
            "intervals": _intervals(programme, scores),
            "game": game_of(programme, games),
            "children": [asdict(origin) for origin in (*bred, *begun)],
        }

    def close(
        self,
        closing: Closing,
        match: Match,
        programme: MatchRoster,
        games: MatchGames,
        known: Mapping[int, Trial],
        population: PopulationRecord,
    ) -> list[PlannedTrial]:
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
        origins = TrialPlanner(self._study, self._options, match, programme, population)
        return [
            origins.untrained(origins.member_at(place), coming) for place, coming in born.items()
        ]

    def unplayed(self, match: Match, population: PopulationRecord) -> dict[str, Any]:
        """Return the decision on a match that judges none and could not be played: as before."""
        before = population.matches[match.number - 1]
        return {
            "match": match.number,
            "champion": before.champion,
            "strengths": {str(number): strength for number, strength in before.strengths.items()},
            "intervals": {str(number): ends for number, ends in before.intervals.items()},
            "game": before.game,
            "answers": [],
            "children": [],
        }

    def _places_of_lost(self, match: Match) -> tuple[list[int], list[int]]:
        """Return which of the members that were lost begin anew, and whose place a child takes."""
        lost = [member for member in match.ended if member not in match.members]
        # Where no member is replaced, no child takes a place either.
        return (lost, []) if isinstance(self._options.selection, NoSelection) else ([], lost)

    def _members(
        self, match: Match, programme: MatchRoster, known: Mapping[int, Trial]
    ) -> list[JudgedMember]:
        return [self._member(trial, match, known) for trial in programme.members]

    def _member(self, trial: Trial, match: Match, known: Mapping[int, Trial]) -> JudgedMember:
        config = self._trials.config(trial)
        return JudgedMember(
            params=trial.last_params,
            has_ended=trial.member in match.ended,
            shape=shape_key(config),
            families=families(trial, tuple(config.learning()), known),
            is_pair=len(config.learning()) == 2,
            growths=self._growths(trial, config),
        )

    def _growths(self, trial: Trial, config: TrainerConfig) -> tuple[dict[str, Any], ...]:
        if not any(isinstance(operator, Grow) for operator in self._options.operators):
            return ()  # not needed
        return tuple(growths_of(trial.last_params, config, self._study.space))

    def _scores(
        self, programme: MatchRoster, games: MatchGames, rng: np.random.Generator
    ) -> Scores:
        configs = [self._trials.config(trial) for trial in programme.members]
        standing = MatchStanding(
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
        of_matches = {match.number: match.strengths for match in population.matches.values()}
        history = improvements(of_matches | {match.number: dict(strengths)}, known)
        return Exploring(self._explorable, self._is_active, history, match.number)

    def _is_active(self, name: str, stored: Mapping[str, Any]) -> bool:
        space = self._study.space
        return space.is_active(name, space.decode(stored))


def _intervals(programme: MatchRoster, scores: Scores) -> dict[str, list[float]]:
    """Return the ends of the interval of each member's strength on the fresh starts."""
    ends = interval(scores.fresh, CONFIDENCE).T.tolist()
    return {str(t.number): bounds for t, bounds in zip(programme.members, ends, strict=True)}
