"""The strongest of a population once more against each other, on starts that no match has used.

Their weights are what is exported, so nobody is trained again. Axes: K trials, R samples.
"""

import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import torch

from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.errors import HpsearchError
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.fitness import Places, opponent_weights, strengths
from hpsearch.population.options import PopulationOptions, scripted_players
from hpsearch.population.ratings.resampling import resampled_rho
from hpsearch.population.round_robin import Players, common_game, play_everybody
from hpsearch.report.compare import SPLIT
from hpsearch.report.confirmation import MAXIMIZE, Confirmation, Entry, judge_draws, ranked
from hpsearch.report.confirmed import last_match
from hpsearch.report.remeasure import device_of
from hpsearch.report.view import StudyView
from hpsearch.trainers import checkpoint
from hpsearch.trainers.saved_player import SavedPlayer, load_player, saved_roles

METRIC: Final = "strength"
ROLES: Final = ("host", "agent")
NUM_SAMPLES: Final = 1000
"""times that the common starts are drawn again"""


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
    paths = dict(_with_checkpoint(view, _strongest(view, number, top)))
    played = _play(paths, options, num_games, device_of(_device_name(view)))
    found = _entries(view, played, list(paths), options)
    best = view.best()
    assert best is not None, "a match that was judged has a champion"
    return Confirmation(
        study=view.study.spec.name,
        trained_by=None,
        metric=METRIC,
        goal=MAXIMIZE,
        games=num_games,
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


def _with_checkpoint(view: StudyView, trials: Sequence[int]) -> Iterator[tuple[int, Path]]:
    """Yield the trials whose last checkpoint is whole, with it; name the others on stderr.

    Raises:
        HpsearchError: if there is none.
    """
    name, is_none = view.study.spec.name, True
    for number in trials:
        steps = view.config(view.state.trials[number])["steps"]
        path = view.folder.checkpoint(final_checkpoint(number, steps))
        if checkpoint.is_whole(path):
            is_none = False
            yield number, path
        else:
            print(f"hpsearch: {name}/{number} has no whole checkpoint", file=sys.stderr)
    if is_none:
        raise HpsearchError(
            f"the checkpoints of the strongest of {name} are gone or damaged, so nobody can play; "
            "run the study again under another name"
        )


def _device_name(view: StudyView) -> str:
    return str(next(iter(view.study.bases.values()))["device"])


def _play(
    paths: Mapping[int, Path], options: PopulationOptions, num_games: int, device: torch.device
) -> CrossPlay:
    """Let everybody meet, as in the study's own matches; players are called by their trial."""
    learned: dict[str, dict[str, SavedPlayer]] = {role: {} for role in ROLES}
    for number, path in paths.items():
        for role in saved_roles(path):
            learned[role][str(number)] = load_player(path, role, device)
    panel = options.matches.panel
    game = common_game(
        (name, player.config) for side in learned.values() for name, player in side.items()
    )
    assert game is not None, "whoever has a checkpoint plays"
    return play_everybody(
        Players(learned["host"], scripted_players("host", panel)),
        Players(learned["agent"], scripted_players("agent", panel)),
        game,
        num_games=num_games,
        max_steps=options.matches.max_steps,
        split=SPLIT,
        sampled=False,
        device=device,
    )


def _place(names: Sequence[str], trial: int) -> int | None:
    return names.index(str(trial)) if str(trial) in names else None


def _entries(
    view: StudyView, played: CrossPlay, trials: Sequence[int], options: PopulationOptions
) -> tuple[Entry, ...]:
    rho = played.rho()
    members = [Places(_place(played.hosts, one), _place(played.agents, one)) for one in trials]
    weights = opponent_weights(rho, options.matches.weighing)
    samples = resampled_rho(played.moves, NUM_SAMPLES, np.random.default_rng(0))
    values = strengths(rho[None], members, weights)[0]
    verdicts = judge_draws(values.tolist(), strengths(samples, members, weights))
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
