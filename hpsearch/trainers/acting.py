"""Acting: what an actor does. It plays with a version of the weights, and learns nothing.

A version is the step of the learner at which the weights were handed out. Axes: P members, T moves
of a step, B games.
"""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.members import prefixed
from hpsearch.trainers.ranks import Ranks
from hpsearch.trainers.rollouts import Transitions, stack

Tensors = Mapping[str, Tensor]
STARTS = "game_starts"  # int64 (P, T, B): which start each game is from
GAMES = "games"  # begins the names of the state of the games


@dataclass(frozen=True)
class Setup:
    """What an actor begins with: to forget all that it played before."""

    configs: Sequence[CommonConfig]
    part: Ranks  # which of all shards it has, as if it were a rank
    games: Tensors
    weights: Tensors
    version: int
    first: float  # rollouts that it plays until the next version
    each: float  # and with each later one


@dataclass(frozen=True)
class Rollout:
    """What an actor played in one step."""

    version: int
    number: int  # among those since it was set up
    tensors: Tensors
    """by name: each field of `Transitions` for all its games (P, T, B, ...), and those above"""
    began: float = 0.0
    ended: float = 0.0  # seconds since 1970


class RolloutPlayer:
    """What plays, in an actor's process or in the learner's."""

    def __init__(self, trainer: Any) -> None:
        """Play as ``trainer`` does, which was built for the games of one part and never learns."""
        self._trainer = trainer
        self._version = self._number = 0
        self._tensors: dict[str, Tensor] = {}

    def set_up(self, setup: Setup) -> None:
        own = self._trainer.rollouts.state()
        for name, tensor in setup.games.items():
            own[name].copy_(tensor)
        self._trainer.fused_game.refresh()
        self._number = 0
        self.take(setup.version, setup.weights)

    def take(self, version: int, weights: Tensors) -> None:
        """Play by other weights from now on."""
        own = self._trainer.playing_state()
        for name, tensor in weights.items():
            own[name].copy_(tensor)
        self._version = version

    @torch.no_grad()
    def play(self) -> Rollout:
        """Play one rollout; its tensors are valid until the next one."""
        began, trainer = time.time(), self._trainer
        trainer.run("rollout", self._play)
        trainer.step += 1  # by which exploration goes
        games = prefixed(GAMES, trainer.rollouts.state())
        number, self._number = self._number, self._number + 1
        return Rollout(self._version, number, self._tensors | games, began, time.time())

    def _play(self) -> None:
        trainer = self._trainer
        moves, starts, length = [], [], trainer.config.rollout_length
        playing = trainer.rollouts.play(length, looks_ahead=trainer.looks_ahead)
        for _ in range(length):
            starts.append(trainer.fused_game.starts.clone())
            moves.append(next(playing))
        seen = [stack(own) for own in zip(*moves, strict=True)]
        joined = (torch.cat(parts, dim=2) for parts in zip(*seen, strict=True))
        self._tensors = Transitions(*joined)._asdict() | {STARTS: torch.stack(starts, dim=1)}
