"""A trained best response: what an opponent that learns against one player alone takes from it.

The meta-game of a match knows only the players that are there. A response that trains for some
steps against a frozen champion is a lower bound of what the champion can really lose.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from hpsearch.population.round_robin import Players, play_everybody
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import TrainerConfig, read_config
from hpsearch.trainers.rho import Lengths, Rho, rho
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import load_player

OTHER = {"host": "agent", "agent": "host"}
"""role against which each plays"""
STRIDE = 50
"""steps of its training between two signs of life"""
KNOWN_TO_BOTH = "random"
"""a scripted player of either role, for a configuration must name one to be measured against"""


def train_response(
    champion: Path,
    role: str,
    folder: Path,
    *,
    steps: int,
    seed: int,
    device: str,
    give_sign: Callable[[], None],
) -> Path:
    """Train an opponent against the player that a checkpoint holds for ``role``; return its own.

    It learns by the champion's own configuration: as its partner does, and from its partner's
    networks on, where the champion has one; else from new networks, as the champion itself does.

    Args:
        champion: a checkpoint's folder.
        role: "host" or "agent", which the champion plays and which does not learn.
        folder: where the response is saved; one that is there whole is kept.
        steps: of its training.
        seed: of its randomness.
        device: "cpu" or "cuda".
        give_sign: called now and then, to say that it goes on.

    Raises:
        CorruptError: if the checkpoint is damaged.
        ConflictError: if it holds no learned player of the role.
    """
    there = checkpoint.path_of(folder, steps)
    if there.exists() and checkpoint.is_whole(there):
        return there
    saved = checkpoint.load(champion, "no tensor").config  # what trains reads the tensors itself
    config = _config(saved, champion, role, steps=steps, seed=seed, device=device)
    trainer = build([config])
    if OTHER[role] in read_config(saved, source=str(champion)).learning():
        trainer.warm_start(champion, 0)
    for made in range(0, steps, STRIDE):
        give_sign()
        trainer.train(min(STRIDE, steps - made))
    return trainer.save(folder, 0, checkpoint.FINAL, [checkpoint.identity(champion)])


def measure_response(
    champion: Path,
    role: str,
    response: Path,
    *,
    num_games: int,
    max_steps: int,
    split: str,
    device: torch.device,
) -> Rho:
    """Return rho of a champion against the response that was trained against it, both greedy.

    Args:
        champion: its checkpoint.
        role: that it plays.
        response: the other one's checkpoint.
        num_games: G.
        max_steps: moves after which a game counts as unfinished.
        split: name of the set of starts.
        device: where they play.
    """
    players = {role: champion, OTHER[role]: response}
    loaded = {name: load_player(path, name, device) for name, path in players.items()}
    played = play_everybody(
        Players({"host": loaded["host"]}, ()),
        Players({"agent": loaded["agent"]}, ()),
        game_config(loaded[role].config),
        num_games=num_games,
        max_steps=max_steps,
        split=split,
        sampled=False,
        device=device,
    )
    return rho(Lengths(played.moves[0, 0], played.finished[0, 0]), seed=0)


def _config(
    saved: Mapping[str, Any], champion: Path, role: str, *, steps: int, seed: int, device: str
) -> TrainerConfig:
    """Return the champion's configuration with the other role learning, against it alone."""
    learner = OTHER[role]
    learns = "net_arch" in saved[learner]
    evaluation = {**saved["evaluation"], "opponents": [KNOWN_TO_BOTH]}
    return read_config(
        {
            **saved,
            "seed": seed,
            "steps": steps,
            "device": device,
            role: {"checkpoint": str(champion)},
            learner: saved[learner] if learns else saved[role],
            "opponents": None,
            "evaluation": evaluation,
            "checkpoint": {**saved["checkpoint"], "best": None, "warm_start": None},
        },
        source=f"the response to {champion}",
    )
