"""Players that learned before: a role's networks, read from a checkpoint."""

from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hpsearch.errors import ConflictError, CorruptError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import Checkpoint
from hpsearch.trainers.checkpoint_name import STATE
from hpsearch.trainers.config import CommonConfig, TrainerConfig, read_config
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies import AgentPolicy, HostPolicy, LearnedAgent, LearnedHost
from hpsearch.trainers.role_nets import Style, build_net, style


@dataclass(frozen=True)
class SavedPlayer:
    """One role of a checkpoint, ready to play with one member (P = 1)."""

    config: TrainerConfig
    """what it was trained with"""
    step: int
    net: Network
    policy: HostPolicy | AgentPolicy
    style: Style
    """how it draws its actions"""


def load_player(path: Path, role: str, device: torch.device) -> SavedPlayer:
    """Return the player that a checkpoint holds for ``role``, "host" or "agent".

    Raises:
        CorruptError: if the checkpoint is damaged.
        ConflictError: if there is none, or the role did not learn in it.
        ConfigError: if its configuration is of another version.
    """
    saved = _load(path, f"{role}.net.")
    config = _config(saved, path)
    learning = config.learning()
    if role not in learning:
        raise ConflictError(
            f"the {role} of the checkpoint {path} is no learned player; it holds: "
            f"{', '.join(learning)}"
        )
    net = build_net(role, learning[role], config, [config.seed], device)
    for name, tensor in net.state().items():
        tensor[0].copy_(_tensor(saved, path, f"{role}.net.{name}", tensor.shape[1:]))
    return player_of(role, config, saved.step, net)


def player_of(role: str, config: TrainerConfig, step: int, net: Network) -> SavedPlayer:
    """Return the player that a learning role's network of one member makes."""
    how = style(config.learning()[role])
    return SavedPlayer(config, step, net, _policy(role, net, how), how)


def with_net(player: SavedPlayer, role: str, net: Network) -> SavedPlayer:
    """Return a player of ``role`` who plays by another network as ``player`` does by its own."""
    return replace(player, net=net, policy=_policy(role, net, player.style))


def _policy(role: str, net: Network, how: Style) -> HostPolicy | AgentPolicy:
    kind = LearnedHost if role == "host" else LearnedAgent
    return kind(net, how.weigh)


def saved_roles(path: Path) -> tuple[str, ...]:
    """Return which roles a checkpoint holds learned players for.

    Raises:
        CorruptError, ConflictError, ConfigError: as `load_player`.
    """
    return tuple(_config(_load(path, "no tensor"), path).learning())


def load_opponent(path: Path, role: str, config: CommonConfig, device: torch.device) -> SavedPlayer:
    """Return the player of a checkpoint that plays the game of ``config``.

    Raises:
        CorruptError, ConflictError: as `load_player`; also if it plays another game.
    """
    player = load_player(path, role, device)
    for key, own, its in (
        ("dimension", config.dimension, player.config.dimension),
        ("max_num_points", config.max_num_points, player.config.max_num_points),
    ):
        if own != its:
            raise ConflictError(
                f"the {role} must play the same game, but {path} was trained with {key}={its} "
                f"instead of {own}; train one with this {key}"
            )
    return player


def _load(path: Path, prefix: str) -> Checkpoint:
    found = checkpoint.newest(path)
    if found is None:
        raise ConflictError(
            f"there is no checkpoint at {path}; name one, or the folder of a run or a trial"
        )
    return checkpoint.load(found, prefix)


def _config(saved: Checkpoint, path: Path) -> TrainerConfig:
    return read_config(saved.config, source=str(path / STATE))


def _tensor(saved: Checkpoint, path: Path, name: str, shape: torch.Size) -> torch.Tensor:
    tensor = saved.tensors.get(name)
    if tensor is None or tensor.shape != shape:
        raise CorruptError(f"the checkpoint {path} lacks {name} of shape {tuple(shape)}")
    return tensor
