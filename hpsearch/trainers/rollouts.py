"""Rollouts: the games that a population plays, and what its learners see in them.

Axes: P members, B games, N points, D coordinates, F numbers of an observation, T moves.
"""

from collections.abc import Sequence
from functools import partial
from typing import Generic, NamedTuple

import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.members import member_stream, prefixed
from hpsearch.trainers.policies import Position
from hpsearch.trainers.roles import GameGroup, L, Roles


class Transitions(NamedTuple):
    """What a role saw, did and got. A ``subset`` is the index of the host's choice.

    A truncated game is not done. What is learned from a rollout bootstraps from its next
    observation, which a replay buffer does not keep: it learns from no `last` move.
    """

    points: Tensor
    """int32 (P, B, N, D)"""
    observation: Tensor
    """float32 (P, B, F), of the points"""
    subset: Tensor
    """int64 (P, B): the host's action at ``points``"""
    action: Tensor
    """int64 (P, B): the role's own action"""
    reward: Tensor
    """float32 (P, B)"""
    next_points: Tensor
    """int32 (P, B, N, D)"""
    next_observation: Tensor
    """float32 (P, B, F)"""
    next_subset: Tensor
    """int64 (P, B): the host's action at ``next_points``, 0 where it is not asked for"""
    done: Tensor
    """bool (P, B): the game is over"""
    truncated: Tensor
    """bool (P, B): the game was broken off"""
    last: Tensor
    """bool (P, B): no further move was allowed, whether this one ended the game or not"""


def stack(moves: Sequence[Transitions]) -> Transitions:
    """Return the moves of one role in time, each tensor (P, T, B, ...)."""
    return Transitions(*(torch.stack(parts, dim=1) for parts in zip(*moves, strict=True)))


class Rollouts(Generic[L]):
    """The games in which the roles of P members learn.

    Attributes:
        fused_game: P x B games; the first lanes are the host's, the last ones the agent's.
    """

    def __init__(self, configs: Sequence[CommonConfig], roles: Roles[L], step: Tensor) -> None:
        """Begin the games; exploration follows ``step`` int64 (P,), which changes in place."""
        config, seeds = configs[0], [member.seed for member in configs]
        self._roles, self._step, self._max_steps = roles, step, config.max_steps
        backend = default_backend(step.device)
        self.kernel = BACKENDS[backend]
        self.encoder = HostActionEncoder(config.dimension)
        keys = member_stream(seeds, step.device, "starts").keys
        num_games = roles.groups[-1].lanes.stop
        self.fused_game = FusedGame(
            game_config(config), keys, num_games, step.device, backend, observes=True
        )
        self._stream = member_stream(seeds, step.device, "play")

    @torch.no_grad()
    def play(self, *, looks_ahead: bool) -> tuple[Transitions, ...]:
        """Play one move of every game and return what each learner saw in its own.

        Where a learner ``looks_ahead``, an agent also sees what the host would choose next.
        """
        game = self.fused_game
        # The game moves on in place.
        points, observation = game.points.clone(), game.observation.clone()
        for group in self._roles.groups:
            if group.draws is not None:
                group.draws.draw(game.starts[:, group.lanes], self.kernel.uniform)
        before = Position(points, lambda: observation)
        noise = self._stream.uniform(game.num_games * 6).unflatten(1, (game.num_games, 6))
        chosen = [self._choose(group, before, noise) for group in self._roles.groups]
        action, axis = (torch.cat(parts, dim=1) for parts in zip(*chosen, strict=True))
        step = game.step(action, axis)
        self._count(step.done)
        moves = Transitions(
            points=points,
            observation=observation,
            subset=action,
            action=axis,
            reward=step.reward,
            next_points=step.next_points,
            next_observation=step.next_observation,
            next_subset=torch.zeros_like(action),
            done=step.done,
            truncated=step.truncated,
            last=step.truncated | (step.length >= self._max_steps),
        )
        return tuple(self._seen(group, moves, noise, looks_ahead) for group in self._roles.groups)

    def _choose(
        self, group: GameGroup[L], before: Position, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the host's action and the agent's axis in the games of a group."""
        lanes = partial(_lanes, lanes=group.lanes)
        position, noise = before.map(lanes), lanes(noise)
        rate = group.learner.exploration(self._step)
        action = group.host(position, None, noise[..., 0:2], rate)
        return action, group.agent(position, self.encoder.decode(action), noise[..., 2:4], rate)

    def _count(self, done: Tensor) -> None:
        """Tell the snapshots of both roles which games ended, bool (P, B)."""
        for group in self._roles.groups:
            ended = done[:, group.lanes]
            for name, snapshots in self._roles.snapshots.items():
                if name == group.learner.name:
                    snapshots.count_own(ended)
                else:
                    snapshots.count(ended, group.meets_snapshots(ended))

    def _seen(
        self, group: GameGroup[L], moves: Transitions, noise: Tensor, looks_ahead: bool
    ) -> Transitions:
        """Return the moves of a group as its learner saw them."""
        seen = Transitions(*(_lanes(tensor, group.lanes) for tensor in moves))
        if group.learner.name == "host":
            return seen._replace(action=seen.subset)
        seen = seen._replace(reward=-seen.reward)
        if not looks_ahead:
            return seen
        # The agent next moves when the host has chosen.
        noise = _lanes(noise, group.lanes)[..., 4:6]
        after = Position(seen.next_points, lambda: seen.next_observation)
        never = torch.zeros_like(noise[..., 0])
        return seen._replace(next_subset=group.host(after, None, noise, never))

    def state(self) -> dict[str, Tensor]:
        games = prefixed("fused_game", self.fused_game.state())
        return {"play_stream.counters": self._stream.counters, **games}

    def settings(self) -> dict[str, Tensor]:
        return {"fused_game.keys": self.fused_game.keys, "play_stream.keys": self._stream.keys}


def _lanes(tensor: Tensor, lanes: slice) -> Tensor:
    return tensor[:, lanes]


def game_config(config: CommonConfig) -> GameConfig:
    return GameConfig(
        dimension=config.dimension,
        max_num_points=config.max_num_points,
        max_value=config.max_value,
        max_steps=config.max_steps,
        reposition=config.reposition,
        reward=config.reward,
    )
