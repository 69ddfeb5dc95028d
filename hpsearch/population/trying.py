"""Trying a child: how likely one of two is the stronger, by games against scripted opponents.

Axes: 2 players, Q opponents, G games of each pair, R samples of the starts.
"""

from collections.abc import Mapping
from typing import Final

import numpy as np
import torch

from hpsearch.game.philox import derive_key
from hpsearch.population.arrays import Floats
from hpsearch.population.crossplay import CrossPlay, crossplay
from hpsearch.population.offspring import ByRole
from hpsearch.population.ratings.resampling import resampled_rho
from hpsearch.population.selection.ranking import chance_better
from hpsearch.population.sides import agent_banks, host_banks, scripted_agents, scripted_hosts
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import SavedPlayer

NUM_SAMPLES: Final = 1000
"""of the starts, R: chances are multiples of a thousandth"""


def chance_stronger(first: ByRole, second: ByRole, *, num_games: int, seed: int) -> float:
    """Return the chance that the first is stronger than the second, equals counting half.

    Both play every role that the first has, greedily and from the same starts, against the scripted
    players that it is measured by. A host's strength is its mean log rho, an agent's minus that;
    those of a pair are added.

    Args:
        first: of one game with ``second``, which has the same roles.
        second: of one game with ``first``.
        num_games: G.
        seed: names the starts, which nobody else meets.
    """
    strengths = [
        _strengths(role, {"first": first[role], "second": second[role]}, num_games, seed)
        for role in first
    ]
    total = np.sum(strengths, axis=0)
    return chance_better(total[:, 0], total[:, 1])


def _strengths(role: str, players: Mapping[str, SavedPlayer], num_games: int, seed: int) -> Floats:
    """Return the strength of both players in one role, float64 (R, 2)."""
    moves = _played(role, players, num_games, seed).moves
    # The same starts are drawn for both roles: they were met from the same ones.
    rng = np.random.default_rng(derive_key(seed, "birth", "resampling"))
    log_rho = np.log(resampled_rho(moves, NUM_SAMPLES, rng))
    strengths: Floats = log_rho.mean(axis=2) if role == "host" else -log_rho.mean(axis=1)
    return strengths


def _played(role: str, players: Mapping[str, SavedPlayer], num_games: int, seed: int) -> CrossPlay:
    config = players["first"].config
    opponents = config.measured_against()[role]
    is_host = role == "host"
    return crossplay(
        host_banks(players) if is_host else scripted_hosts(opponents),
        scripted_agents(opponents) if is_host else agent_banks(players),
        game_config(config),
        num_games=num_games,
        max_steps=config.evaluation.max_steps,
        split=f"birth {seed}",
        device=torch.device(players["first"].net.weights.device),
    )
