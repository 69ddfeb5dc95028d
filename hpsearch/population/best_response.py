"""A trained best response: how far an opponent that trains against one player alone can beat it.

The meta-game of a match knows only the players of the match. A response that trains for some steps
against a frozen champion is a lower bound of what the champion can really lose (Timbers et al.,
Approximate exploitability, arXiv 2004.09677).

Axes: Q opponents of a panel, G games, R bootstrap samples.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from hpsearch.population.crossplay import Players, play_everybody
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.config.players import OTHER, host_first
from hpsearch.trainers.metrics import PANELS
from hpsearch.trainers.opponents import SavedPlayer, load_player
from hpsearch.trainers.ranks import ALONE, Ranks
from hpsearch.trainers.rho import NUM_BOOTSTRAP, Floats, Lengths, Rho, panel, rho
from hpsearch.trainers.rollouts import game_config

STRIDE = 50  # steps of its training between two heartbeats
RESPONSE = "response"  # its name among scripted players
KNOWN_TO_BOTH = "random"
"""a scripted player of either role, for a configuration must name one to be measured against"""


@dataclass(frozen=True)
class Exploited:
    """What a best response of a stated budget takes from a player, in rho: the less the better.

    What the player does against its panel less what it does against the response, in games from the
    same starts; for an agent, whose rho is to be low, the other way round. Below zero, the response
    has not learned to play as well against it as the panel does.
    """

    value: float
    low: float  # lower end of the bootstrap 95 % interval, over starts
    high: float  # upper end
    steps: int  # of the response's training
    response: Rho  # of the player, greedy, against the response
    panel: Rho  # of the player, greedy, against its panel: the geometric mean


def exploit(
    player: Path,
    role: str,
    *,
    steps: int,
    num_games: int,
    split: str,
    device: torch.device,
) -> Exploited:
    """Train a best response to the player of a checkpoint in ``role``, and let them play.

    Games count as unfinished when they do in the player's own evaluations. Arguments as in
    `crossplay`, errors as of `train_response`; the randomness is fixed.
    """
    with TemporaryDirectory() as folder:
        path = train_response(player, role, Path(folder), steps=steps, seed=0, device=device.type)
        own, other = load_player(player, role, device), load_player(path, OTHER[role], device)
    max_steps = own.config.evaluation.max_steps
    games = _games(own, role, other, PANELS[role], num_games, max_steps, split)
    against = games.pop(RESPONSE)
    # Game g of each opponent has the same start.
    drawn = np.random.default_rng(0).integers(0, num_games, size=(NUM_BOOTSTRAP, num_games))
    sign = 1.0 if role == "host" else -1.0

    def taken(lengths: Callable[[Lengths], Floats]) -> Floats:
        logs = [np.log(lengths(of_opponent)) for of_opponent in games.values()]
        of_panel = np.exp(-np.mean(logs, axis=0))
        return np.asarray(sign * (of_panel - 1.0 / lengths(against)))

    samples = taken(lambda response: response.moves[drawn].mean(axis=1))
    low, high = np.quantile(samples, [0.025, 0.975])
    value = taken(lambda response: np.asarray(response.moves.mean()))
    responded, by_panel = rho(against), panel(list(games.values()))
    return Exploited(float(value), float(low), float(high), steps, responded, by_panel)


def measure_response(
    champion: Path,
    role: str,
    response: Path,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    device: torch.device,
    ranks: Ranks = ALONE,
) -> Rho:
    """Return rho of a champion in ``role`` against a response, both checkpoints and greedy."""
    own, other = load_player(champion, role, device), load_player(response, OTHER[role], device)
    return rho(_games(own, role, other, (), num_games, max_steps, split, ranks)[RESPONSE])


def _games(
    own: SavedPlayer,
    role: str,
    response: SavedPlayer,
    scripted: tuple[str, ...],
    num_games: int,
    max_steps: int,
    split: str,
    ranks: Ranks = ALONE,
) -> dict[str, Lengths]:
    """Return a player's greedy games against its response and scripted players, by name."""
    learned, others = Players({role: own}, ()), Players({RESPONSE: response}, scripted)
    played = play_everybody(
        *host_first(role, learned, others),
        game_config(own.config),
        num_games=num_games,
        max_steps=max_steps,
        split=split,
        sampled=False,
        device=torch.device(own.net.weights.device),
        ranks=ranks,
    )
    names, axis = (played.agents, 0) if role == "host" else (played.hosts, 1)
    moves, finished = played.moves.squeeze(axis), played.finished.squeeze(axis)
    by_opponent = zip(names, moves, finished, strict=True)
    return {name: Lengths(lengths, ended) for name, lengths, ended in by_opponent}


def train_response(
    champion: Path,
    role: str,
    folder: Path,
    *,
    steps: int,
    seed: int,
    device: str,
    give_sign: Callable[[], None] = lambda: None,
    ranks: Ranks = ALONE,
) -> Path:
    """Train an opponent against the player that a checkpoint holds for ``role``; return its path.

    It learns by the champion's own configuration: as its partner does, and from its partner's
    networks on, where the champion has one; else from new networks, as the champion itself does. A
    whole checkpoint of an earlier call in ``folder`` is kept. ``give_sign`` is called every few
    steps. ``ranks``, whose number divides the champion's shards, train it together. Raises
    CorruptError if the checkpoint is damaged, ConflictError if it holds no learned player of the
    role.
    """
    there = checkpoint.path_of(folder, steps)
    # The first looks for all: what another node sees of a folder may be older.
    if ranks.told_by_first(ranks.rank == 0 and there.exists() and checkpoint.is_whole(there)):
        return there
    saved = checkpoint.load(champion, "no tensor").config  # what trains reads the tensors itself
    config = _config(saved, champion, role, steps=steps, seed=seed, device=device)
    trainer = build_trainer([config], ranks)
    if OTHER[role] in read_config(saved, source=str(champion)).learning():
        trainer.warm_start(champion, 0)
    for made in range(0, steps, STRIDE):
        give_sign()
        trainer.train(min(STRIDE, steps - made))
    return trainer.save(folder, 0, checkpoint.FINAL, [checkpoint.identity(champion)])


def _config(
    saved: Mapping[str, Any], champion: Path, role: str, *, steps: int, seed: int, device: str
) -> TrainerConfig:
    """Return the champion's configuration with the other role learning, against it alone."""
    learner = OTHER[role]
    learns = "net_arch" in (saved[learner] or {})  # None where games draw it from several
    section = saved[learner] if learns else saved[role]
    changes = {
        "seed": seed,
        "steps": steps,
        "end": NEVER,
        "device": device,
        role: {"checkpoint": str(champion)},
        learner: _rescaled(section, steps / saved["steps"]),
        "opponents": None,
        "evaluation": {**saved["evaluation"], "opponents": [KNOWN_TO_BOTH]},
        "checkpoint": {**saved["checkpoint"], "best": None, "warm_start": None},
    }
    changes |= read_config(saved, source=str(champion)).changes_to_learn_alone(learner)
    return read_config({**saved, **changes}, source=f"the response to {champion}")


def _rescaled(section: Mapping[str, Any], factor: float) -> dict[str, Any]:
    """Return a learner's settings with schedules as far along in a training of another length."""
    changed = {
        key: _rescaled(value, factor) if isinstance(value, Mapping) else value
        for key, value in section.items()
    }
    if "mode" in section and section.get("steps") is not None:
        changed["steps"] = max(1, round(section["steps"] * factor))
    return changed
