"""Trainer configurations: frozen, exhaustive, without a single default.

Fields marked PER_MEMBER may differ between the members of one population; all others are the
population's shape, and members that share them train together in one job. No torch here.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Final

from hpsearch.schema import leaves, read_hint
from hpsearch.trainers.config.common import (
    AlgorithmExtension,
    CommonConfig,
    LearningRole,
    RewardName,
)
from hpsearch.trainers.config.dqn import DQNConfig, DQNRole, PrioritisedReplay, ReplayBufferConfig
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.config.players import SavedPlayerConfig, ScriptedAgent, ScriptedHost
from hpsearch.trainers.config.ppo import PPOConfig, PPORole

__all__ = [
    "ADDED",
    "GAME",
    "AlgorithmExtension",
    "CommonConfig",
    "DQNConfig",
    "DQNRole",
    "LearningRole",
    "PPOConfig",
    "PPORole",
    "PrioritisedReplay",
    "ReplayBufferConfig",
    "RewardName",
    "SavedPlayerConfig",
    "ScriptedAgent",
    "ScriptedHost",
    "TrainerConfig",
    "read_config",
    "shape_differences",
    "shape_key",
    "training_differences",
]

TrainerConfig = DQNConfig | PPOConfig | AlgorithmExtension

GAME = ("dimension", "max_num_points", "max_value", "reposition")
"""keys of the game; players who differ in one of them cannot meet"""
ADDED: Final[Mapping[str, Any]] = {"shards": 1, "rollouts": {"mode": "inline"}, "end": NEVER}
"""keys that configurations of before version 0.3 lack, with what these trained by"""
MAY_CHANGE = frozenset({"steps", "rollouts", "end", "evaluation", "checkpoint", "monitor"})
"""keys that say how long and where is trained and what is looked at, not what was trained so far"""


def read_config(data: object, *, source: str) -> TrainerConfig:
    """Return the trainer configuration that plain data holds.

    Raises ConfigError listing every missing, unknown or wrong key with its dotted path.
    """
    if isinstance(data, Mapping):
        data = {**ADDED, **data}
    config: TrainerConfig = read_hint(TrainerConfig, data, source=source)
    return config


def training_differences(saved: Mapping[str, Any], own: Mapping[str, Any]) -> list[str]:
    """Return the top keys in which two plain configurations train differently."""
    saved, own = {**ADDED, **saved}, {**ADDED, **own}
    keys = sorted((saved.keys() | own.keys()) - MAY_CHANGE)
    return [key for key in keys if saved.get(key) != own.get(key)]


def shape_differences(first: CommonConfig, other: CommonConfig) -> list[str]:
    """Return the dotted paths in which one could not go on from what the other has learned.

    Per-member fields may differ, and so may what decides how long is trained and what is looked at.
    """
    own, its = _shape(first), _shape(other)
    paths = [path for path in own | its if path.partition(".")[0] not in MAY_CHANGE]
    return sorted(path for path in paths if own.get(path) != its.get(path))


def shape_key(config: CommonConfig) -> str:
    """Return a name of the shape: equal for configurations whose members can train together."""
    text = json.dumps(_shape(config), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _shape(config: CommonConfig) -> dict[str, Any]:
    return {leaf.path: leaf.value for leaf in leaves(config) if not leaf.per_member}
