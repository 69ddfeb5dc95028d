"""A trained player beside the scripted ones, on starts that the search has never used."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from hpsearch.errors import CorruptError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.evaluation import Measurement, Metrics, measure_agents, measure_hosts
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.policies import ScriptedAgentPolicy, ScriptedHostPolicy
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.trainer import AnyTrainer

NUM_GAMES = 10_000
SPLIT = "confirmation"
REFERENCES = {
    "host": ("zeillinger", "all_coord", "random"),
    "agent": ("choose_first", "choose_last", "random"),
}


@dataclass(frozen=True)
class Row:
    """One player's measures against the opponents of its role."""

    player: str
    role: str
    metrics: dict[str, dict[str, float]]
    """by metric name: value, low, high, capped, games"""


def load_trainer(config: TrainerConfig, checkpoints: Path) -> AnyTrainer:
    """Return a trainer of one member at the end of its training.

    Raises:
        CorruptError: if its last checkpoint is missing or damaged.
    """
    trainer = build([config])
    try:
        trainer.load(checkpoint.path_of(checkpoints, config.steps), 0)
    except CorruptError as error:
        raise CorruptError(
            f"the last checkpoint in {checkpoints} is missing or damaged; export another trial "
            "with --trial, or run the study again with another name"
        ) from error
    return trainer


def compare(trainer: AnyTrainer) -> list[Row]:
    """Return the rows of a trained player and of the scripted players of its roles."""
    config = trainer.config
    trained = trainer.evaluate_rho(num_games=NUM_GAMES, split=SPLIT)[0]
    rows = []
    for role, opponents in config.measured_against().items():
        own = {name: rho for name, rho in trained.items() if name.split("/")[1] == role}
        rows.append(_row("trained", role, own))
        for name in REFERENCES[role]:
            measured = _measure_scripted(role, name, opponents, config)
            rows.append(_row(name, role, measured))
    return rows


def _row(player: str, role: str, metrics: Metrics) -> Row:
    return Row(player, role, {name: asdict(rho) for name, rho in metrics.items()})


def _measure_scripted(
    role: str, name: str, opponents: Sequence[str], config: TrainerConfig
) -> Metrics:
    rules = config.evaluation
    how = Measurement(
        game_config(config),
        NUM_GAMES,
        rules.max_steps,
        exploration=0.0,
        split=SPLIT,
        modes=MODES[:1],
        device=torch.device(config.device),
    )
    if role == "host":
        return measure_hosts(ScriptedHostPolicy(name), opponents, 1, how)[0]
    return measure_agents(ScriptedAgentPolicy(name), opponents, 1, how)[0]


def plain_rows(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Return rows as JSON holds them."""
    return [asdict(row) for row in rows]
