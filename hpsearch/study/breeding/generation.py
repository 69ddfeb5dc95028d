"""A match: who plays it, and what it decides: the champion, and the trials that come next."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from hpsearch.cluster.records import Fresh, MatchPlan, MatchPlayer, Response
from hpsearch.cluster.study_dir import MatchGames, final_checkpoint
from hpsearch.population import options
from hpsearch.population.breeding import JudgedMember, NextMember, breed, breed_untrained
from hpsearch.population.explore import Exploring
from hpsearch.population.fitness import MatchStanding, Places, Scores, by_values, score
from hpsearch.population.operators.options import Clone, Grow
from hpsearch.population.ratings.cycles import meta_game
from hpsearch.population.statistics import CONFIDENCE, Floats, interval
from hpsearch.programs.config import ProgramConfig, TrialConfig, shape_of
from hpsearch.study.breeding.checks import explorable_of, growths_of, scheduled, size
from hpsearch.study.breeding.lineage import families, improvements
from hpsearch.study.records import Match, PlannedTrial, PopulationRecord, Trial, key_after
from hpsearch.study.space import point_of
from hpsearch.study.spec import Study
from hpsearch.study.trials import Trials
from hpsearch.trainers.checkpoint_name import step_of
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.players import ROLES, Role

CLOSING = 1  # third number of the seeds of a closing, beside the study's and the match's
RESPONSE_SEEDS = 10_000  # matches of a study, each with a seed for its responses


@dataclass(frozen=True)
class MatchRoster:
    """Who plays: the members, past champions that are no members any more, scripted players."""

    members: tuple[Trial, ...]  # by their place in the population
    archive: tuple[Trial, ...]
    roles: tuple[str, ...]  # that they learn
    matches: options.Matches

    def plan(
        self, match: Match, config: CommonConfig, seed: int, champion: Trial | None
    ) -> MatchPlan:
        """Return what the job is told; the starts are this study's own."""
        starts = f"study {seed} match {match.number}"
        steps = self.matches.best_response
        responses: list[Response] = []
        if champion is not None and steps is not None:
            where, own_seed = _checkpoint(champion), RESPONSE_SEEDS * seed + match.number
            responses = [
                Response(role, champion.number, where, steps, own_seed)
                for role in ROLES
                if role in self.roles
            ]
        return MatchPlan(
            hosts=self._players("host"),
            agents=self._players("agent"),
            num_games=self.matches.num_games,
            max_steps=self.matches.max_steps,
            splits=(f"{starts} named", f"{starts} fresh"),
            device=config.device,
            responses=tuple(responses),
        )

    def names(self, role: Role) -> list[str]:
        return [player.name for player in self._players(role)]

    def standing(self, sizes: Floats) -> MatchStanding:
        """Return where the players stand; ``sizes`` are the members' numbers of weights."""
        num_members = len(self.members)
        num_learned = num_members + len(self.archive)
        places = [
            Places(*(index if role in self.roles else None for role in ROLES))
            for index in range(num_learned)
        ]
        panel = Places(*(num_learned if role in self.roles else 0 for role in ROLES))
        return MatchStanding(places[:num_members], places[num_members:], panel, sizes)

    def _players(self, role: Role) -> tuple[MatchPlayer, ...]:
        learned = (*self.members, *self.archive) if role in self.roles else ()
        scripted = options.scripted_players(role, self.matches.panel)
        return (
            *(MatchPlayer(str(trial.number), _checkpoint(trial)) for trial in learned),
            *(MatchPlayer(name, None) for name in scripted),
        )


def learned_roles(config: TrialConfig) -> tuple[str, ...]:
    """Return the roles that a trial's players learn; of a program none."""
    return () if isinstance(config, ProgramConfig) else tuple(config.learning())


def _checkpoint(trial: Trial) -> str:
    assert trial.origin is not None, "members are trials of the population"
    return final_checkpoint(trial.number, trial.origin.steps)


@dataclass(frozen=True)
class PlayedMatch:
    match: Match
    roster: MatchRoster
    games: MatchGames | None
    """on both sets of starts; None of programs, of which the objective's values decide"""
    known: Mapping[int, Trial]  # the study's trials, by number
    population: PopulationRecord  # before the decision


def _meta_game(played: PlayedMatch) -> dict[str, Any] | None:
    if played.games is None:
        return None
    moves = np.concatenate(list(played.games.moves), axis=2)
    return meta_game(moves, played.roster.names("host"), played.roster.names("agent"))


class Judge:
    """Turns the games of a match into a decision; the same games give the same one."""

    def __init__(self, study: Study, population: options.PopulationOptions, trials: Trials) -> None:
        self._study = study
        self._options = population
        self._trials = trials
        (base,) = study.bases.values()
        self._explorable = explorable_of(base, study.space)

    def decide(self, played: PlayedMatch) -> dict[str, Any]:
        match, members = played.match, played.roster.members
        rng = np.random.default_rng([self._study.spec.seed, match.number])
        scores = self._scores(played, rng)
        numbers = [trial.number for trial in members]
        strengths = dict(zip(numbers, scores.strength.tolist(), strict=True))
        lost = [member for member in match.ended if member not in match.members]
        # Where no member is replaced, no child takes a place either.
        replaces = not isinstance(self._options.selection, options.NoSelection)
        anew, vacant = ([], lost) if replaces else (lost, [])
        judged, exploring = self._members(played), self._exploring(played, strengths)
        operators = played.population.operators
        plan = breed(
            self._options, judged, scores, exploring, operators, rng, num_vacant=len(vacant)
        )
        places = {members[index].member: place for index, place in plan.places.items()}
        places |= dict(zip(vacant, plan.vacancies, strict=True))
        bred = [self._next(played, member, chosen) for member, chosen in sorted(places.items())]
        begun = [self.initial_trial(member, played.population) for member in anew]
        ends = interval((scores.naming + scores.confirming) / 2, CONFIDENCE).T.tolist()
        return {
            "match": match.number,
            "champion": max(strengths, key=lambda number: strengths[number]),
            "strengths": {str(number): strength for number, strength in strengths.items()},
            "intervals": dict(zip(map(str, numbers), ends, strict=True)),
            "game": _meta_game(played),
            "children": [asdict(origin) for origin in (*bred, *begun)],
        }

    def close(self, closing: options.Closing, played: PlayedMatch) -> list[PlannedTrial]:
        seeds = self._study.spec.seed, played.match.number
        scores = self._scores(played, np.random.default_rng(seeds))
        rng = np.random.default_rng([*seeds, CLOSING])
        members, operators = self._members(played), played.population.operators
        born = breed_untrained(self._options, closing, members, scores, operators, rng)
        children = []
        for place, next_member in born.items():
            child = self._next(played, played.roster.members[place].member, next_member)
            # Not the key of the member's next interval: that one may be planned too, and is asked
            # for if the budget is raised.
            key = f"{child.key}, closing"
            children.append(replace(child, key=key, steps=child.first_step))
        return children

    def unplayed(self, match: Match, population: PopulationRecord) -> dict[str, Any]:
        """Return the decision on a match that judges none and could not be played: as before."""
        before = population.matches[match.number - 1]
        return {
            "match": match.number,
            "champion": before.champion,
            "strengths": {str(trial): strength for trial, strength in before.strengths.items()},
            "intervals": {str(trial): ends for trial, ends in before.intervals.items()},
            "game": before.game,
            "answers": [],
            "children": [],
        }

    def _members(self, played: PlayedMatch) -> list[JudgedMember]:
        grows = any(isinstance(operator, Grow) for operator in self._options.operators)
        members = []
        for trial in played.roster.members:
            config, params = self._trials.config(trial), trial.last_params
            roles = learned_roles(config)
            member = JudgedMember(
                params=params,
                has_ended=trial.member in played.match.ended,
                shape=shape_of(config),
                families=families(trial, roles, played.known),
                is_pair=len(roles) == 2,
                growths=tuple(growths_of(params, config, self._study.space)) if grows else (),
            )
            members.append(member)
        return members

    def _scores(self, played: PlayedMatch, rng: np.random.Generator) -> Scores:
        roster, selection = played.roster, self._options.selection
        if played.games is None:
            sign = 1.0 if self._study.spec.objectives[0].goal == "maximize" else -1.0
            values = [trial.value for trial in roster.members]
            return by_values(np.array([sign * v for v in values if v is not None]))
        sizes = np.array([size(self._trials.config(trial)) for trial in roster.members])
        pareto = selection if isinstance(selection, options.Pareto) else None
        standing = roster.standing(sizes)
        return score(played.games.moves, standing, self._options.matches, pareto, rng)

    def _exploring(self, played: PlayedMatch, strengths: Mapping[int, float]) -> Exploring:
        number, space = played.match.number, self._study.space
        of_matches = {match.number: match.strengths for match in played.population.matches.values()}
        history = improvements(of_matches | {number: dict(strengths)}, played.known)

        def is_active(name: str, stored: Mapping[str, Any]) -> bool:
            return space.is_active(name, space.decode(stored))

        return Exploring(self._explorable, is_active, history, number + 1)  # who judges them

    # The trials that come next.

    def _next(self, played: PlayedMatch, member: int, next_member: NextMember) -> PlannedTrial:
        parents = [played.roster.members[index] for index in next_member.parents]
        parent_steps = tuple(parent.origin.steps for parent in parents if parent.origin is not None)
        founder = parents[0].origin.founder if parents[0].origin is not None else None
        return PlannedTrial(
            key=key_after(member, played.population),
            member=member,
            generation=played.match.number,
            parents=tuple(parent.number for parent in parents),
            parent_steps=parent_steps,
            operator=asdict(next_member.operator),
            is_child=next_member.is_child,
            params=self._params(next_member, parent_steps[0], founder),
            steps=parent_steps[0] + self._options.interval,
            founder=founder,
        )

    def _params(
        self, next_member: NextMember, first_step: int, founder: int | None
    ) -> Mapping[str, Any]:
        """Return what a trial that begins at a step, of a line from a founder, learns by."""
        explore = self._options.explore
        if not isinstance(explore, options.Schedule):
            return next_member.params
        line_start = 0 if founder is None else step_of(self._options.founders[founder])
        # Counted along the line, not by matches: a member that was late for one skips no interval.
        index = (first_step - line_start) // self._options.interval
        return scheduled(explore, self._study.space, index)

    def initial_trial(self, member: int, population: PopulationRecord) -> PlannedTrial:
        explore, founders = self._options.explore, self._options.founders
        founder = member % len(founders) if founders else None
        first_step = 0 if founder is None else step_of(founders[founder])
        params: Mapping[str, Any] | None = None
        if isinstance(explore, options.Schedule):
            params = scheduled(explore, self._study.space, 0)
        elif founder is not None:
            params = point_of(self._study.space, self._study.founders[founder])
        return PlannedTrial(
            key=key_after(member, population),
            member=member,
            generation=len(population.matches),
            parents=(),
            parent_steps=() if founder is None else (first_step,),
            operator=asdict(Fresh() if founder is None else Clone()),
            is_child=False,
            params=params,
            steps=first_step + self._options.interval,
            founder=founder,
        )
