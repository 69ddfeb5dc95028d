"""Players of last checkpoints who meet each other and the panel on starts that nobody has used.

Axes: K players, R samples.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch

from hpsearch.population.arrays import Floats
from hpsearch.population.crossplay import CrossPlay
from hpsearch.population.fitness import Places, opponent_weights, strengths
from hpsearch.population.options import Matches, scripted_players
from hpsearch.population.ratings.resampling import resampled_rho
from hpsearch.population.round_robin import Players, common_game, play_everybody
from hpsearch.report.compare import SPLIT
from hpsearch.report.devices import device_of
from hpsearch.report.view import StudyView
from hpsearch.trainers import checkpoint
from hpsearch.trainers.config.players import ROLES
from hpsearch.trainers.saved_player import SavedPlayer, load_player, saved_roles

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
    places = [Places(_place(played.hosts, one), _place(played.agents, one)) for one in paths]
    weights = opponent_weights(rho, matches.weighing)
    samples = resampled_rho(played.moves, NUM_SAMPLES, np.random.default_rng(0))
    values: list[float] = strengths(rho[None], places, weights)[0].tolist()
    return Meeting(values, strengths(samples, places, weights))


def last_checkpoints(view: StudyView, trials: Iterable[int]) -> dict[int, Path]:
    """Return the trials whose last checkpoint is whole, with it; name the others on stderr."""
    found = {}
    for number in trials:
        steps = view.config(view.state.trials[number])["steps"]
        path = checkpoint.path_of(view.folder.trial(number).checkpoints, steps)
        if checkpoint.is_whole(path):
            found[number] = path
        else:
            name = view.study.spec.name
            print(f"hpsearch: {name}/{number} has no whole checkpoint", file=sys.stderr)
    return found


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
    assert game is not None, "whoever has a checkpoint plays"
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
