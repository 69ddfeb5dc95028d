"""Trained players beside the scripted ones, on starts that the search has never used.

Where players are measured.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import torch

from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.evaluation import Measurement, Metrics, evaluate, scripted
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.opponents import SavedPlayer
from hpsearch.trainers.policies import Policy, ScriptedPolicy
from hpsearch.trainers.rollouts import game_config

SPLIT = "confirmation"
REFERENCES = {
    "host": ("zeillinger", "all_coord", "random"),
    "agent": ("choose_first", "choose_last", "random"),
}


@dataclass(frozen=True)
class ComparedPlayer:
    """One player's measures against the opponents of its role."""

    player: str
    role: str
    metrics: dict[str, dict[str, float]]
    """by metric name: value, low, high, capped, games"""


def compare(players: Mapping[str, SavedPlayer], num_games: int) -> list[ComparedPlayer]:
    """Return the rows of trained players and of the scripted players of their roles.

    Args:
        players: by role, "host" before "agent"; of one configuration, on one device.
        num_games: games an opponent and mode.
    """
    rows = []
    for role, player in players.items():
        config, device = player.config, player.net.weights.device
        trained = _measure(role, player.policy, config, num_games, MODES, device)
        rows.append(_row("trained", role, trained))
        for name in REFERENCES[role]:
            measured = _measure(role, ScriptedPolicy(name), config, num_games, MODES[:1], device)
            rows.append(_row(name, role, measured))
    return rows


def _row(player: str, role: str, metrics: Metrics) -> ComparedPlayer:
    return ComparedPlayer(player, role, {name: asdict(rho) for name, rho in metrics.items()})


def _measure(
    role: str,
    policy: Policy,
    config: TrainerConfig,
    num_games: int,
    modes: tuple[str, ...],
    device: torch.device,
) -> Metrics:
    rules, opponents = config.evaluation, config.measured_against()[role]
    how = Measurement(
        game_config(config), num_games, rules.max_steps, rules.er, SPLIT, modes, device
    )
    return evaluate(role, policy, scripted(opponents), 1, how)[0].metrics


def plain_rows(rows: Sequence[ComparedPlayer]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


GPU: Final = "cuda"


def device_of(name: str) -> torch.device:
    """Return where players that learned on a device play: there, if this machine has it."""
    return torch.device(GPU if name == GPU and torch.cuda.is_available() else "cpu")
