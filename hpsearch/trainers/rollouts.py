"""The games in which roles learn, and who plays in them.

The players are learners, scripted or saved players, and snapshots. Axes: P members, B games, N
points, D coordinates, F numbers of an observation, T moves.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from hpsearch.game.fused_game import FusedGame
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE, threads
from hpsearch.game.rules import GameConfig, HostActionEncoder
from hpsearch.trainers import policies
from hpsearch.trainers.config import CommonConfig, SavedPlayerConfig, players
from hpsearch.trainers.config.common import PlayerConfig
from hpsearch.trainers.learner import Learner
from hpsearch.trainers.members import member_stream, prefixed
from hpsearch.trainers.networks import MANY_GAMES
from hpsearch.trainers.opponents import Draws, SavedPlayer, Snapshots, load_opponent
from hpsearch.trainers.policies import NUMBERS_A_CHOICE, Policy, Position, Turn
from hpsearch.trainers.ranks import Ranks


class Transitions(NamedTuple):
    """What a role saw, did and got. A ``subset`` is the index of the host's choice.

    A truncated game is not done. What is learned from a rollout bootstraps from its next
    observation, which a replay buffer does not keep: it learns from no `last` move.
    """

    points: Tensor  # int32 (P, B, N, D)
    observation: Tensor  # float32 (P, B, F), of the points
    subset: Tensor  # int64 (P, B): the host's action at ``points``
    action: Tensor  # int64 (P, B): the role's own action
    log_prob: Tensor
    """float32 (P, B): the logarithm of how likely the policy that played draws the action; 0 where
    roles play by values"""
    reward: Tensor  # float32 (P, B)
    next_points: Tensor  # int32 (P, B, N, D)
    next_observation: Tensor  # float32 (P, B, F)
    next_subset: Tensor
    """int64 (P, B): the host's action at ``next_points``, 0 where it is not asked for"""
    done: Tensor  # bool (P, B): the game is over
    truncated: Tensor  # bool (P, B): the game was broken off
    last: Tensor  # bool (P, B): no further move was allowed, whether the game is done or not


def stack(moves: Sequence[Transitions]) -> Transitions:
    """Return the moves of one role in time, each tensor (P, T, B, ...)."""
    return Transitions(*(torch.stack(parts, dim=1) for parts in zip(*moves, strict=True)))


NUM_CHOICES = 3  # of a game and move: the host's, the agent's, the host's next one
COUNTERS = "play_stream.counters"  # the name of how many random numbers players have drawn

L = TypeVar("L", bound=Learner)
SavedPlayers = Mapping[tuple[str, str], SavedPlayer]  # by role and path


@dataclass(frozen=True)
class GameGroup(Generic[L]):
    """The games of this rank in which one role learns, and who plays them."""

    learner: L
    lanes: slice  # which of the rank's games
    numbers: Tensor  # int64 (B,), which of the role's games on all ranks
    num_parts: int  # S, of equal parts of the games, each against another snapshot
    host: Policy
    agent: Policy
    draws: Draws | None  # which of several opponents each game has; None where there is one
    snapshots_at: int  # the place of the other role's snapshots among them, -1 where they are not

    def by_shard(self, games: Tensor) -> Tensor:
        """Return (P * own shards, games of a shard, ...) of (P, B, ...)."""
        return self.learner.shards.split(games, self.num_parts)


class Roles(Generic[L]):
    """How the roles of a population play, and against which opponents they learn."""

    def __init__(
        self,
        learners: Mapping[str, L],
        configs: Sequence[CommonConfig],
        device: torch.device,
        saved_players: SavedPlayers,
        ranks: Ranks,
    ) -> None:
        self.saved_players = dict(saved_players)
        self._learners, self._config, self._device = learners, configs[0], device
        self._seeds = [config.seed for config in configs]
        pools = [pool for config in configs if (pool := config.snapshots()) is not None]
        # By role, what the other role trains against; empty without a pool.
        self.snapshots: dict[str, Snapshots] = {}
        if pools:
            for name, learner in learners.items():
                keys = member_stream(self._seeds, device, name, "snapshots").keys
                self.snapshots[name] = Snapshots(name, learner.net, pools, keys, ranks)
        groups: list[GameGroup[L]] = []
        for learner in learners.values():
            groups.append(self._group(learner, groups[-1].lanes.stop if groups else 0))
        self.groups = tuple(groups)
        # How the roles play as they are now; one that does not learn, as its opponent meets it.
        self.host_policy = groups[0].host
        self.agent_policy = groups[-1].agent

    def _group(self, learner: L, first: int) -> GameGroup[L]:
        """Return the games of a learner, the first of which is in lane ``first``."""
        role, other = learner.name, players.OTHER[learner.name]
        own: Policy = learner.policy(learner.net)
        num_games, pool = self._config.learning()[role].rollout_size, self._config.snapshots()
        num_parts = 1 if pool is None else pool.at_once
        numbers = learner.shards.lanes(num_games, num_parts, self._device)
        games = slice(first, first + len(numbers)), numbers, num_parts
        listed = self._config.listed_against(role)
        if not listed:
            opponent = self._opponent(other, self._config.players()[other])
            return GameGroup(learner, *games, *players.host_first(role, own, opponent), None, -1)
        keys = member_stream(self._seeds, self._device, role, "opponents").keys
        draws = Draws([item.weight for item in listed], keys, num_games, numbers)
        mixed = [self._opponent(other, item) for item in listed]
        opponent = policies.MixedPolicy(mixed, draws.opponent)
        host, agent = players.host_first(role, own, opponent)
        places = [n for n, item in enumerate(listed) if isinstance(item, players.ListedSnapshots)]
        return GameGroup(learner, *games, host, agent, draws, places[0] if places else -1)

    def _opponent(self, role: str, player: PlayerConfig | players.ListedOpponent | None) -> Policy:
        """Return a role as the other one meets it, by what its configuration says."""
        match player:
            case SavedPlayerConfig(checkpoint=path) | players.ListedCheckpoint(checkpoint=path):
                return self._saved(role, path)
            case (
                players.ScriptedHost(player=script)
                | players.ScriptedAgent(player=script)
                | players.ListedPlayer(player=script)
            ) if script != players.LEARNER:
                return policies.ScriptedPolicy(script)
        learner = self._learners[role]
        if role not in self.snapshots or isinstance(player, players.ListedPlayer):
            return _at_own_rate(learner.policy(learner.net))
        net = self.snapshots[role].net
        return policies.RegroupedPolicy(_at_own_rate(learner.policy(net)), net.weights.shape[0])

    def _saved(self, role: str, path: str) -> Policy:
        if (role, path) not in self.saved_players:
            player = load_opponent(Path(path), role, self._config, self._device)
            self.saved_players[role, path] = player
        return policies.RegroupedPolicy(_at_own_rate(self.saved_players[role, path].policy), 1)

    def state(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for role, snapshots in self.snapshots.items():
            tensors |= prefixed(f"{role}.snapshots", snapshots.state())
        return tensors

    def settings(self) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for group in self.groups:
            if group.draws is not None:
                tensors[f"{group.learner.name}.opponents.keys"] = group.draws.keys
        for role, snapshots in self.snapshots.items():
            tensors |= prefixed(f"{role}.snapshots", snapshots.settings())
        return tensors


def _at_own_rate(policy: policies.LearnedPolicy) -> policies.FixedRatePolicy:
    return policies.FixedRatePolicy(policy, policy.own_rate)


class _Drawing:
    """A learner's policy while it plays a move, and how likely it was to choose as it did."""

    log_prob: Tensor  # float32 (P, B), see `Transitions`

    def __init__(self, policy: Policy) -> None:
        assert isinstance(policy, policies.LearnedPolicy)  # which `Learner.policy` returns
        self._policy = policy

    def __call__(self, turn: Turn) -> Tensor:
        action, self.log_prob = self._policy.with_log_prob(turn)
        return action


class Rollouts(Generic[L]):
    """The games in which the roles of P members learn."""

    def __init__(self, configs: Sequence[CommonConfig], roles: Roles[L], step: Tensor) -> None:
        """Begin the games; exploration follows ``step`` int64 (P,), which changes in place."""
        config, seeds = configs[0], [member.seed for member in configs]
        self._roles, self._step = roles, step
        self._device = step.device
        backend = default_backend(step.device)
        self.kernel = BACKENDS[backend]
        self.encoder = HostActionEncoder(config.dimension)
        keys = member_stream(seeds, step.device, "starts").keys
        # Of all ranks: the host's games first, then the agent's.
        self._num_games, lanes = 0, []
        for group in roles.groups:
            lanes.append(self._num_games + group.numbers)
            self._num_games += config.learning()[group.learner.name].rollout_size
        self.lanes = torch.cat(lanes)  # int64 (B,), which of them are this rank's
        self.fused_game = FusedGame(
            game_config(config),
            keys,
            len(self.lanes),
            step.device,
            backend,
            observes=True,
            lanes=self.lanes,
        )
        self._stream = member_stream(seeds, step.device, "play")

    def change(self) -> None:
        """Take note that more than training has changed the members."""

    def play(self, num_moves: int, *, looks_ahead: bool) -> Iterator[tuple[Transitions, ...]]:
        """Play moves of every game, each when it is asked for; yield what the learners saw of it.

        Each learner sees its own games. Where one ``looks_ahead``, an agent also sees what the host
        would choose next. The random numbers of all moves are drawn before the first one.
        """
        # At once: to draw the few numbers of one move takes as long.
        num_numbers = self._num_games * NUM_CHOICES * NUMBERS_A_CHOICE
        drawn = self._stream.repeated_uniform(num_moves, num_numbers)
        noise = drawn.unflatten(2, (self._num_games, NUM_CHOICES, NUMBERS_A_CHOICE))
        if len(self.lanes) < self._num_games:  # of all ranks
            noise = noise[:, :, self.lanes]
        # In one piece for each choice, so that loops on a CPU need no copies in each move.
        of_choices = noise.permute(3, 0, 1, 2, 4).contiguous()
        for of_move in zip(*(each.unbind() for each in of_choices), strict=True):
            with threads(self._num_threads()):
                moves = self._play(of_move, looks_ahead)
            yield moves

    def _num_threads(self) -> int:
        """Return by how many threads a move is played.

        By one where a job's network has one, too, and games are few: to wake others for short loops
        would take longer than they save.
        """
        num_members, num_games = self.fused_game.lengths.shape
        is_by_one = THREADS_MAY_CHANGE.is_set() and num_members == 1 and num_games < MANY_GAMES
        return 1 if is_by_one else torch.get_num_threads()

    @torch.no_grad()
    def _play(self, noise: Sequence[Tensor], looks_ahead: bool) -> tuple[Transitions, ...]:
        """Play a move by the ``noise`` (P, B, 2) of each choice."""
        game = self.fused_game
        # The game moves on in place.
        points, observation = game.points.clone(), game.observation.clone()
        for group in self._roles.groups:
            if group.draws is not None:
                group.draws.draw(game.starts[:, group.lanes], self.kernel.uniform)
        before = Position(points, lambda: observation)
        chosen = [self._choose(group, before, noise) for group in self._roles.groups]
        action, axis, log_prob = map(_joined, zip(*chosen, strict=True))
        step = game.step(action, axis)
        self._count(step.done)
        moves = Transitions(
            points=points,
            observation=observation,
            subset=action,
            action=axis,
            log_prob=log_prob,
            reward=step.reward,
            next_points=step.next_points,
            next_observation=step.next_observation,
            next_subset=torch.zeros_like(action),
            done=step.done,
            truncated=step.truncated,
            last=step.last,
        )
        return tuple(self._seen(group, moves, noise, looks_ahead) for group in self._roles.groups)

    def _choose(
        self, group: GameGroup[L], now: Position, noise: Sequence[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the host's action, the agent's axis and what `Transitions.log_prob` is."""
        position = now.map(partial(self._own, group))
        numbers = [self._own(group, of_choice) for of_choice in noise[:2]]
        learner, host, agent = group.learner, group.host, group.agent
        rate = learner.exploration(self._step)
        own = _Drawing(host if learner.name == "host" else agent)
        host, agent = (own, agent) if learner.name == "host" else (host, own)
        action, _, axis = policies.choose(host, agent, position, numbers, (rate, rate))
        return action, axis, own.log_prob

    def _count(self, done: Tensor) -> None:
        """Tell the snapshots of both roles which games ended, bool (P, B)."""
        if not self._roles.snapshots:
            return
        for group in self._roles.groups:
            ended, draws = done[:, group.lanes], group.draws
            for name, snapshots in self._roles.snapshots.items():
                if name == group.learner.name:
                    snapshots.count_own(ended)
                elif draws is None:
                    snapshots.count(ended, torch.ones_like(ended))
                else:
                    snapshots.count(ended, draws.opponent == group.snapshots_at)

    def _seen(
        self, group: GameGroup[L], moves: Transitions, noise: Sequence[Tensor], looks_ahead: bool
    ) -> Transitions:
        """Return the moves of a group as its learner saw them."""
        seen = Transitions._make(self._own(group, tensor) for tensor in moves)
        if group.learner.name == "host":
            return seen._replace(action=seen.subset)
        seen = seen._replace(reward=-seen.reward)
        if not looks_ahead:
            return seen
        # The agent next moves when the host has chosen.
        numbers = self._own(group, noise[2])
        after = Position(seen.next_points, lambda: seen.next_observation)
        never = torch.zeros_like(numbers[..., 0])
        return seen._replace(next_subset=group.host(Turn(after, None, numbers, never)))

    def _own(self, group: GameGroup[L], games: Tensor) -> Tensor:
        """Return a group's part of (P, B, ...); a slice of all would take time."""
        return games if len(self._roles.groups) == 1 else games[:, group.lanes]

    def games_ended(self) -> Tensor:
        """Return how many of this rank's games have ended, int64 (P,): each had a next start."""
        return self.fused_game.starts.sum(dim=1)

    def places(self) -> dict[str, Tensor]:
        """Return which of all ranks' games are here, by the names of the state."""
        return prefixed("fused_game", dict.fromkeys(self.fused_game.state(), self.lanes))

    def state(self) -> dict[str, Tensor]:
        games = prefixed("fused_game", self.fused_game.state())
        return {COUNTERS: self._stream.counters, **games}

    def settings(self) -> dict[str, Tensor]:
        return {"fused_game.keys": self.fused_game.keys, "play_stream.keys": self._stream.keys}


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    """Return the games (P, B, ...) of all groups."""
    return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


def game_config(config: CommonConfig) -> GameConfig:
    return GameConfig(
        dimension=config.dimension,
        max_num_points=config.max_num_points,
        max_value=config.max_value,
        max_steps=config.max_steps,
        reposition=config.reposition,
        reward=config.reward,
    )
