"""Trials worth a second look: the best of a search, those beaten by none, those confirmed.

And the last match of a population as it was played: rho of every host against every agent.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from hpsearch.errors import ConfigError, CorruptError
from hpsearch.files import read_json
from hpsearch.population.pareto import front_of_each
from hpsearch.population.statistics import Floats
from hpsearch.schema import field_hints, read
from hpsearch.study.derived import key
from hpsearch.study.records import COMPLETE, Match, Trial
from hpsearch.study.view import StudyView, best_trial


@dataclass(frozen=True)
class Candidate:
    """A configuration, and the best trial that had it."""

    trial: Trial
    values: dict[str, Any]  # of its parameters

    @property
    def key(self) -> str:
        return key(self.values)


def all_candidates(view: StudyView) -> list[Candidate]:
    """Return the configurations of all finished trials, best first by the first objective.

    Raises:
        HpsearchError: if no trial has finished.
    """
    best_trial(view)  # says why where there is none
    by_key: dict[str, Candidate] = {}
    for trial in view.ranked(view.state.told(COMPLETE)):
        candidate = Candidate(trial, view.study.space.decode(trial.last_params))
        by_key.setdefault(candidate.key, candidate)
    return list(by_key.values())


def best_candidates(view: StudyView, count: int) -> list[Candidate]:
    """Return the ``count`` best configurations, or those there are; raises as `all_candidates`."""
    return all_candidates(view)[:count]


def finished(view: StudyView) -> list[Trial]:
    names = [objective.metric for objective in view.study.spec.objectives]
    return [
        trial for trial in view.state.told(COMPLETE) if all(name in trial.metrics for name in names)
    ]


def front(view: StudyView) -> list[Trial]:
    """Return those that no other one beats in every objective, the best by the first one first.

    Of trials that are equal in all objectives, each is returned.
    """
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


@dataclass(frozen=True)
class ConfirmedTrial:
    trial: int
    search: dict[str, float | None]
    mean: float | None
    low: float | None
    high: float | None
    chance: float | None
    seeds: tuple[dict[str, Any], ...]

    def check(self) -> Iterator[str]:
        if "value" not in self.search:
            yield "search must hold a value"
        if (self.low is None) != (self.high is None):
            yield "low and high must both be numbers, or both null"
        if self.mean is None and self.low is not None:
            yield "an interval must lie around a mean"
        if not all(type(seed.get("trial")) is int for seed in self.seeds):
            yield "seeds must name a trial each"


@dataclass(frozen=True)
class ConfirmationFile:
    best: int
    trained_by: str | None
    metric: str
    games: int
    advice: str
    trials: tuple[ConfirmedTrial, ...]


@dataclass(frozen=True)
class Confirmed:
    best: int  # trial
    is_current: bool  # whether those that were compared are the study's best still


def read_confirmed(view: StudyView) -> Confirmed | None:
    """Return what was confirmed, None if nothing was.

    Raises:
        CorruptError: if the file that says so is damaged.
    """
    data = read_json(view.folder.confirmation)
    if data is None:
        return None
    try:
        return Confirmed(int(data["best"]), _is_current(view, data))
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise _damaged(view) from error


def whole_confirmation(view: StudyView) -> Mapping[str, Any]:
    """Return all that the file of a confirmation says, which exists.

    Raises:
        CorruptError: if it lacks something that readers rely on; it may hold more.
    """
    data = read_json(view.folder.confirmation)
    known = _known(ConfirmationFile, data)
    if isinstance(known, dict) and isinstance(known.get("trials"), list):
        known["trials"] = [_known(ConfirmedTrial, entry) for entry in known["trials"]]
    try:
        read(ConfirmationFile, known, source=str(view.folder.confirmation))
    except ConfigError as error:
        raise _damaged(view) from error
    return cast(Mapping[str, Any], data)


def _known(kind: type, data: Any) -> Any:
    names = field_hints(kind)
    return {k: v for k, v in data.items() if k in names} if isinstance(data, dict) else data


def _damaged(view: StudyView) -> CorruptError:
    return CorruptError(
        f"{view.folder.confirmation} is damaged; write it anew with: "
        f"hpsearch confirm {view.study.spec.name}"
    )


def judged_matches(view: StudyView) -> list[Match]:
    return [match for match in view.state.population.matches.values() if match.is_over]


def last_match(view: StudyView) -> int | None:
    judged = judged_matches(view)
    return judged[-1].number if judged else None


def _is_current(view: StudyView, data: Any) -> bool:
    if view.study.spec.population is not None:
        return bool(data["match"] == last_match(view))
    compared = {entry["trial"] for entry in data["trials"]}
    return compared == {candidate.trial.number for candidate in best_candidates(view, data["top"])}


@dataclass(frozen=True)
class Played:
    """Rho of all pairs of a match. Axes: P hosts, Q agents."""

    match: int
    hosts: tuple[str, ...]
    agents: tuple[str, ...]
    rho: Floats  # (P, Q), over the games of all sets of starts together
    games: int  # of each pair


def read_played(view: StudyView) -> Played | str:
    """Return the last match that was judged, or why there is none.

    Raises:
        CorruptError: if its files are damaged.
        DiskError: if they cannot be read.
    """
    if view.study.spec.population is None:
        return "a search has no matches: its trials never meet"
    number = last_match(view)
    if number is None:
        return "no match has been judged yet"
    files = view.folder.match(number)
    games = files.read_games()
    if games is None:
        return f"the games of match {number} are gone from {files.root}"
    plan = files.plan.required()
    if games.moves.shape != plan.shape:
        raise CorruptError(f"the games of match {number} in {files.root} are not those of its plan")
    moves = np.concatenate(list(games.moves), axis=2)  # (P, Q, S * G)
    return Played(
        number,
        tuple(host.name for host in plan.hosts),
        tuple(agent.name for agent in plan.agents),
        1.0 / moves.mean(axis=2),
        moves.shape[2],
    )
