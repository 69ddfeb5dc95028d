"""The strongest of a population once more against each other, on starts that no match has used.

Their weights are what is exported, so nobody is trained again.
"""

from collections.abc import Sequence
from typing import Final

from hpsearch.errors import HpsearchError
from hpsearch.population.options import PopulationOptions
from hpsearch.report.confirmation import MAXIMIZE, Confirmation, Entry, judge_draws, ranked
from hpsearch.report.confirmed import last_match
from hpsearch.report.meeting import Meeting, last_checkpoints, meet, playing_device
from hpsearch.report.view import StudyView

METRIC: Final = "strength"


def rematch(view: StudyView, options: PopulationOptions, top: int, num_games: int) -> Confirmation:
    """Let the ``top`` strongest of the last match and as many champions meet, and the panel.

    Raises:
        HpsearchError: if no match has been judged, or no checkpoint of theirs is left.
    """
    number = last_match(view)
    if number is None:
        raise HpsearchError(
            f"no match of {view.study.spec.name} has been judged yet; look at it with: "
            f"hpsearch status {view.study.spec.name}"
        )
    paths = last_checkpoints(view, _strongest(view, number, top))
    if not paths:
        raise HpsearchError(
            f"the checkpoints of the strongest of {view.study.spec.name} are gone or damaged, so "
            "nobody can play; run the study again under another name"
        )
    players = {str(trial): path for trial, path in paths.items()}
    met = meet(players, options.matches, num_games, playing_device(view))
    found = _entries(view, list(paths), met)
    best = view.best()
    assert best is not None, "a match that was judged has a champion"
    return Confirmation(
        study=view.study.spec.name,
        trained_by=None,
        metric=METRIC,
        goal=MAXIMIZE,
        games=num_games,
        response_steps=None,
        top=top,
        match=number,
        favourite=best.number,
        entries=found,
    )


def _strongest(view: StudyView, match: int, top: int) -> list[int]:
    """Return the trials that play: members first, each once."""
    population = view.state.population
    members = population.matches[match].strengths
    by_strength = sorted(members, key=lambda trial: -members[trial])
    return list(dict.fromkeys([*by_strength[:top], *reversed(population.archive[-top:])]))


def _entries(view: StudyView, trials: Sequence[int], met: Meeting) -> tuple[Entry, ...]:
    verdicts = judge_draws(met.strengths, met.samples)
    entries = [
        Entry(number, {"value": _believed(view, number), "low": None, "high": None}, verdict)
        for number, verdict in zip(trials, verdicts, strict=True)
    ]
    return ranked(entries, MAXIMIZE)


def _believed(view: StudyView, trial: int) -> float | None:
    """Return a trial's strength in the last match that it played as a member."""
    matches = view.state.population.matches.values()
    found = [one.strengths[trial] for one in matches if trial in one.strengths]
    return found[-1] if found else None
