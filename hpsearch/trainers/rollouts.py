"""Rollouts: the games that a population plays, and what its learners see in them.

Axes: P members, B games, N points, D coordinates, A actions, R rows of a batch, F numbers of an
observation, I inputs of a network.

Transitions: what a role saw, did and got in one move.

Axes: P members, B games, N points, D coordinates, F numbers of an observation, T moves.
"""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from hpsearch.errors import ConflictError
from hpsearch.game.fused_game import FusedGame, GameConfig
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import HostActionEncoder, reward_function
from hpsearch.trainers.config import CommonConfig, RewardName, shape_key
from hpsearch.trainers.policies import Position, agent_features
from hpsearch.trainers.role_nets import member_stream
from hpsearch.trainers.roles import GameGroup, L, Roles, SavedPlayers


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


C = TypeVar("C", bound=CommonConfig)


class Rollouts(Roles[L], Generic[C, L]):
    """Plays the games in which the roles of P members learn.

    Attributes:
        config: the configuration of the first member, for the fields that all members share.
        step: int64 (P,), training steps that each member has made.
        fused_game: P x B games; the first lanes are the host's, the last ones the agent's.
    """

    def __init__(self, configs: Sequence[C], saved_players: SavedPlayers | None = None) -> None:
        """Build a fresh population, one member for each of ``configs``.

        ``saved_players`` have been loaded already, as `Roles` says.

        Raises:
            ValueError: if the configurations are not of one shape.
            ConflictError: if the machine has no such device.
        """
        if len({shape_key(config) for config in configs}) != 1:
            raise ValueError("members of one population must share every field but per-member ones")
        self.configs = tuple(configs)
        self.config = config = configs[0]
        self.device = torch.device(config.device)
        backend = default_backend(self.device)
        self.kernel = BACKENDS[backend]
        if config.device == "cuda":
            if not torch.cuda.is_available():
                raise ConflictError(
                    "device is cuda, but torch finds no CUDA device on this machine; write "
                    "device: cpu, or train where there is a GPU"
                )
            # One process trains one configuration, so a switch of the whole process will do.
            torch.backends.cuda.matmul.allow_tf32 = config.precision == "tf32"
        # use_deterministic_algorithms would load the compiler besides, which takes each job 2 s.
        torch.set_deterministic_debug_mode("warn" if config.deterministic else "default")
        torch.autograd.set_detect_anomaly(config.detect_anomaly)
        super().__init__(configs, self.device, saved_players or {})
        self.step = torch.zeros(len(configs), dtype=torch.int64, device=self.device)
        seeds = [member.seed for member in configs]
        starts = member_stream(seeds, self.device, "starts")
        num_games = self.tables[-1].lanes.stop
        self.fused_game = FusedGame(
            game_config(config), starts.keys, num_games, self.device, backend, observes=True
        )
        self._play_stream = member_stream(seeds, self.device, "play")
        self._encoder = HostActionEncoder(config.dimension)
        self._reward_func = reward_function(config.reward)

    def begin_snapshots(self, name: str, member: int) -> None:
        """Let the other role meet one member's present networks instead of earlier ones."""
        if name in self.snapshots:
            self.snapshots[name].begin_with(self._learning(name).net, self.step, member)

    @property
    def num_members(self) -> int:
        """Return P."""
        return len(self.configs)

    def replace_reward_func(self, name: RewardName) -> None:
        """Reward by another function from now on; the configurations say so too.

        Raises:
            ValueError: if there is no reward of that name, with those there are.
        """
        self.fused_game.replace_reward(name)
        self._reward_func = reward_function(name)
        self.configs = tuple(replace(config, reward=name) for config in self.configs)
        self.config = self.configs[0]

    @abstractmethod
    def _exploration(self, learner: L) -> Tensor:
        """Return how much a role explores in the games in which it learns, float32 (P, 1)."""

    @torch.no_grad()
    def _roll_out(self, *, looks_ahead: bool) -> tuple[Transitions, ...]:
        """Play one move of every game and return what each learner saw in its own.

        Where a learner ``looks_ahead``, an agent also sees what the host would choose next.
        """
        game = self.fused_game
        # The game goes on in place.
        points, observation = game.points.clone(), game.observation.clone()
        for table in self.tables:
            if table.draws is not None:
                table.draws.draw(game.starts[:, table.lanes], self.kernel.uniform)
        before = Position(points, lambda: observation)
        noise = self._play_stream.uniform(game.num_games * 6).unflatten(1, (game.num_games, 6))
        chosen = [self._choose(table, before, noise) for table in self.tables]
        action, axis = (torch.cat(parts, dim=1) for parts in zip(*chosen, strict=True))
        step = game.step(action, axis)
        for table in self.tables:
            self._count(table, step.done)
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
            last=step.truncated | (step.length >= self.config.max_steps),
        )
        return tuple(self._seen(table, moves, noise, looks_ahead) for table in self.tables)

    def _choose(
        self, table: GameGroup[L], before: Position, noise: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the host's action and the agent's axis in the games of a table."""
        lanes = partial(_lanes, lanes=table.lanes)
        position, noise, rate = before.map(lanes), lanes(noise), self._exploration(table.learner)
        action = table.host(position, noise[..., 0:2], rate)
        return action, table.agent(position, self._encoder.decode(action), noise[..., 2:4], rate)

    def _seen(
        self, table: GameGroup[L], moves: Transitions, noise: Tensor, looks_ahead: bool
    ) -> Transitions:
        """Return the moves of a table as its learner saw them."""
        seen = Transitions(*(_lanes(tensor, table.lanes) for tensor in moves))
        if table.learner.name == "host":
            return seen._replace(action=seen.subset)
        seen = seen._replace(reward=-seen.reward)
        if not looks_ahead:
            return seen
        # The agent next moves when the host has chosen.
        noise = _lanes(noise, table.lanes)[..., 4:6]
        after = Position(seen.next_points, lambda: seen.next_observation)
        return seen._replace(next_subset=table.host(after, noise, torch.zeros_like(noise[..., 0])))

    def _count(self, table: GameGroup[L], done: Tensor) -> None:
        """Tell the snapshots of both roles which games ended."""
        done = done[:, table.lanes]
        for name, snapshots in self.snapshots.items():
            if name == table.learner.name:
                snapshots.count_own(done)
            else:
                snapshots.count(done, table.meets_snapshots(done))

    def features(self, learner: L, observation: Tensor, subset: Tensor) -> Tensor:
        """Return what a role sees, float32 (P, R, I), of positions and the host's choices."""
        if learner.name == "host":
            return observation
        return agent_features(observation, self._encoder.decode(subset))

    def legal(self, learner: L, subset: Tensor) -> Tensor:
        """Return which actions are legal, bool (P, R, A): all of a host's, an agent's in subset."""
        if learner.name == "agent":
            return self._encoder.decode(subset)
        shape = (*subset.shape, self._encoder.num_actions)
        return torch.ones(shape, dtype=torch.bool, device=subset.device)


def _lanes(tensor: Tensor, lanes: slice) -> Tensor:
    """Return some of the games of a tensor (P, B, ...)."""
    return tensor[:, lanes]


def game_config(config: CommonConfig) -> GameConfig:
    """Return the game that a trainer configuration describes."""
    return GameConfig(
        dimension=config.dimension,
        max_num_points=config.max_num_points,
        max_value=config.max_value,
        max_steps=config.max_steps,
        reposition=config.reposition,
        reward=config.reward,
    )
