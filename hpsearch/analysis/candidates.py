"""Trials worth a second look: the best of a search, and those that no other one beats.

And the last match of a population as it was played: rho of every host against every agent.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsearch.errors import CorruptError, HpsearchError, UsageError
from hpsearch.population.pareto import front_of_each
from hpsearch.population.statistics import Floats
from hpsearch.study.derived import key
from hpsearch.study.records import COMPLETE, Match, Trial
from hpsearch.study.view import StudyView, best_trial


@dataclass(frozen=True)
class Candidate:
    trial: Trial  # the best of those with the same configuration
    values: dict[str, Any]  # of its parameters

    @property
    def key(self) -> str:
        return key(self.values)


def all_candidates(view: StudyView) -> list[Candidate]:
    """Return the configurations of finished trials, best first; HpsearchError if none."""
    best_trial(view)  # says why where there is none
    by_key: dict[str, Candidate] = {}
    for trial in view.ranked(view.state.told(COMPLETE)):
        candidate = Candidate(trial, view.settings(trial))
        by_key.setdefault(candidate.key, candidate)
    return list(by_key.values())


def finished(view: StudyView) -> list[Trial]:
    names = {objective.metric for objective in view.study.spec.objectives}
    return [trial for trial in view.state.told(COMPLETE) if names <= trial.metrics.keys()]


def front(view: StudyView) -> list[Trial]:
    """Return each trial that no other one beats in every objective, by the first one."""
    trials, objectives = finished(view), view.study.spec.objectives
    if not trials:
        return []
    signs = np.array([1.0 if objective.goal == "maximize" else -1.0 for objective in objectives])
    measured = [
        [trial.metrics[objective.metric]["value"] for objective in objectives] for trial in trials
    ]
    values = signs * measured  # (trials, objectives)
    in_front = np.flatnonzero(front_of_each(values) == 0)
    return [trials[place] for place in sorted(in_front, key=lambda place: -values[place, 0])]


def judged_matches(view: StudyView) -> list[Match]:
    return [match for match in view.state.population.matches.values() if match.is_over]


def strongest_members(view: StudyView) -> list[int]:
    """Return the trials that played the last judged match as members, the strongest first."""
    judged = judged_matches(view)
    strengths = judged[-1].strengths if judged else {}
    return sorted(strengths, key=lambda trial: -strengths[trial])


def last_match(view: StudyView) -> int | None:
    judged = judged_matches(view)
    return judged[-1].number if judged else None


def the_top(view: StudyView, count: int, best: Trial) -> list[Trial]:
    """Return the ``count`` best, ``best`` first, of different configurations or members."""
    members = [view.state.trials[number] for number in strongest_members(view)]
    ranked = members or [candidate.trial for candidate in all_candidates(view)]
    return [best, *(trial for trial in ranked if trial.number != best.number)][:count]


def the_front(view: StudyView) -> list[Trial]:
    """Return the trials of `front`; UsageError with one objective, HpsearchError without trials."""
    name, objectives = view.name, view.study.spec.objectives
    if len(objectives) == 1:
        raise UsageError(
            f"{name} has one objective, {objectives[0].metric}, so there is no front; export the "
            "best few with --top"
        )
    unbeaten = front(view)
    if not unbeaten:
        raise HpsearchError(f"no trial of {name} has finished that all objectives were measured of")
    return unbeaten


@dataclass(frozen=True)
class Played:
    match: int
    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    rho: Floats  # (hosts, agents), over the games of all sets of starts together
    games: int  # of each pair


def read_played(view: StudyView) -> Played | str:
    """Return the last judged match, or why there is none; CorruptError if damaged."""
    if view.study.spec.population is None:
        return "a search has no matches: its trials never meet"
    number = last_match(view)
    if number is None:
        return "no match has been judged yet"
    if view.study.is_program:
        return "its members are programs, which play no games: their values decide"
    files = view.folder.match(number)
    games = files.read_games()
    if games is None:
        return f"the games of match {number} are gone from {files.root}"
    plan = files.plan.required()
    if games.moves.shape != plan.shape:
        raise CorruptError(f"the games of match {number} in {files.root} are not those of its plan")
    moves = np.concatenate(list(games.moves), axis=2)  # (P, Q, S * G)
    hosts = tuple(host.name for host in plan.hosts)
    agents = tuple(agent.name for agent in plan.agents)
    return Played(number, hosts, agents, 1.0 / moves.mean(axis=2), moves.shape[2])
