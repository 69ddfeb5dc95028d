"""The strongest of a population once more against each other, on starts that no match has used.

Their weights are what is exported, so none is trained again.

Players of last checkpoints who meet each other and the panel on starts that were never used.

Axes: K players, R samples.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from hpsearch.analysis.candidates import last_match
from hpsearch.analysis.compare import SPLIT, device_of
from hpsearch.analysis.confirmation import MAXIMIZE, Confirmation, Entry, judge_draws, ranked
from hpsearch.errors import HpsearchError
from hpsearch.population.crossplay import CrossPlay, Players, common_game, play_everybody
from hpsearch.population.fitness import Places, opponent_weights, strengths
from hpsearch.population.options import Matches, PopulationOptions, scripted_players
from hpsearch.population.statistics import Floats, resampled_rho
from hpsearch.study.view import StudyView
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.opponents import SavedPlayer, load_player, saved_roles

NUM_SAMPLES: Final = 1000
"""times that the common starts are drawn again"""


@dataclass(frozen=True)
class Meeting:
    """How strong each player is, as in the matches of a population."""

    strengths: list[float]
    """K"""
    samples: Floats
    """(R, K), from starts that are drawn again"""


def meet(
    paths: Mapping[str, Path], matches: Matches, num_games: int, device: torch.device
) -> Meeting:
    """Let players meet, by the rules of a population's matches.

    Args:
        paths: K checkpoints by the name of their player, at least one.
        matches: the panel, and how opponents count.
        num_games: of each pair.
        device: where they play.
    """
    played = _play(paths, matches, num_games, device)
    rho = played.rho()
    places = [Places(_place(played.hosts, path), _place(played.agents, path)) for path in paths]
    weights = opponent_weights(rho, matches.weighing)
    samples = resampled_rho(played.moves, NUM_SAMPLES, np.random.default_rng(0))
    values: list[float] = strengths(rho[None], places, weights)[0].tolist()
    return Meeting(values, strengths(samples, places, weights))


def last_checkpoints(view: StudyView, trials: Iterable[int]) -> dict[int, Path]:
    """Return the trials whose last checkpoint is whole, with it; name the others on stderr."""
    checkpoints = {}
    for number in trials:
        steps = view.config(view.state.trials[number])["steps"]
        path = checkpoint.path_of(view.folder.trial(number).checkpoints, steps)
        if checkpoint.is_whole(path):
            checkpoints[number] = path
        else:
            name = view.study.spec.name
            print(f"hpsearch: {name}/{number} has no whole checkpoint", file=sys.stderr)
    return checkpoints


def playing_device(view: StudyView) -> torch.device:
    """Return where the players of a study play."""
    return device_of(str(next(iter(view.study.bases.values()))["device"]))


def _play(
    paths: Mapping[str, Path], matches: Matches, num_games: int, device: torch.device
) -> CrossPlay:
    learned: dict[str, dict[str, SavedPlayer]] = {role: {} for role in ROLES}
    for name, path in paths.items():
        for role in saved_roles(path):
            learned[role][name] = load_player(path, role, device)
    game = common_game(
        (name, player.config) for side in learned.values() for name, player in side.items()
    )
    assert game is not None, "a trial with a checkpoint has a game"
    return play_everybody(
        Players(learned["host"], scripted_players("host", matches.panel)),
        Players(learned["agent"], scripted_players("agent", matches.panel)),
        game,
        num_games=num_games,
        max_steps=matches.max_steps,
        split=SPLIT,
        sampled=False,
        device=device,
    )


def _place(names: Sequence[str], name: str) -> int | None:
    return names.index(name) if name in names else None


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
            "no trial can play; run the study again under another name"
        )
    players = {str(trial): path for trial, path in paths.items()}
    met = meet(players, options.matches, num_games, playing_device(view))
    entries = _entries(view, list(paths), met)
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
        entries=entries,
    )


def _strongest(view: StudyView, match: int, top: int) -> list[int]:
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
    matches = view.state.population.matches.values()
    strengths = [match.strengths[trial] for match in matches if trial in match.strengths]
    return strengths[-1] if strengths else None
