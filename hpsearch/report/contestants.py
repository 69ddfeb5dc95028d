"""Who is evaluated: the players of a checkpoint, or a scripted player by its name."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

import torch

from hpsearch.errors import UsageError, unknown_name
from hpsearch.game.config import GameConfig
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.trainers import checkpoint
from hpsearch.trainers.metrics import MODES
from hpsearch.trainers.policies import (
    AgentPolicy,
    HostPolicy,
    ScriptedAgentPolicy,
    ScriptedHostPolicy,
)
from hpsearch.trainers.rollouts import game_config
from hpsearch.trainers.saved_player import load_player, saved_roles

RANDOM_PLAYERS: Final = ("random", "random_pair")
"""scripted players that draw their moves"""
STANDARD_GAME: Final = GameConfig(
    dimension=3, max_num_points=20, max_value=20, max_steps=100, reposition=True, reward="terminal"
)
"""what scripted players, who know any game, are evaluated on"""


@dataclass(frozen=True)
class Contestant:
    """A host, an agent, or one of each that learned together."""

    name: str
    checkpoint: Path | None
    """where it lies; None of a scripted player"""
    host: HostPolicy | None
    agent: AgentPolicy | None
    game: GameConfig
    """the games that they know"""
    max_steps: int
    """moves after which a game counts as unfinished"""
    exploration: float
    """share of its moves that the sampled policy draws"""
    modes: tuple[str, ...]
    """greedy and sampled, or only greedy"""
    is_deterministic: bool
    """whether the greedy policy always answers alike"""


def find_contestant(name_or_path: Path, device: torch.device) -> Contestant:
    """Return the scripted player of that name, or the learned ones of a checkpoint.

    Raises:
        UsageError: if there is neither.
        CorruptError: if the checkpoint is damaged.
    """
    name = str(name_or_path)
    if name in HOSTS or name in AGENTS:
        return _scripted(name)
    return _learned(find_checkpoint(name_or_path), device)


def _scripted(name: str) -> Contestant:
    return Contestant(
        name,
        checkpoint=None,
        host=ScriptedHostPolicy(name) if name in HOSTS else None,
        agent=ScriptedAgentPolicy(name) if name in AGENTS else None,
        game=STANDARD_GAME,
        max_steps=STANDARD_GAME.max_steps,
        exploration=0.0,
        modes=MODES[:1],
        is_deterministic=name not in RANDOM_PLAYERS,
    )


def _learned(path: Path, device: torch.device) -> Contestant:
    players = {role: load_player(path, role, device) for role in saved_roles(path)}
    host, agent = players.get("host"), players.get("agent")
    one = next(iter(players.values()))
    return Contestant(
        f"{path.parent.parent.name} at step {one.step:,}",
        checkpoint=path,
        host=None if host is None else cast(HostPolicy, host.policy),
        agent=None if agent is None else cast(AgentPolicy, agent.policy),
        game=game_config(one.config),
        max_steps=one.config.evaluation.max_steps,
        exploration=one.config.evaluation.er,
        modes=MODES,
        is_deterministic=True,
    )


def find_checkpoint(path: Path) -> Path:
    """Return the checkpoint at ``path``, or the newest whole one below it."""
    found = checkpoint.newest(path)
    if found is not None:
        for step in checkpoint.damaged_steps(found.parent):
            damaged = checkpoint.path_of(found.parent, step)
            if damaged != found:
                print(f"hpsearch: {damaged} is damaged and left out", file=sys.stderr)
        return found
    if path.is_dir():
        raise UsageError(
            f"{path} holds no whole checkpoint; name a checkpoint, or the folder of a run or a "
            "trial, such as runs/NAME or runs/STUDY/trials/0"
        )
    names = {*HOSTS, *AGENTS}
    raise UsageError(f"no folder {path}; {unknown_name('scripted player', str(path), names)}")
