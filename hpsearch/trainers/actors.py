"""Actors play, and a learner learns from what they played: the learner's side.

Each actor has the games of some shards. A rollout's age is the number of steps since its weights
were handed out. The learner keeps the state in which the newest rollout left its games, so that an
actor can be replaced at any time, and what the learner plays itself meanwhile goes on from there.
Styles and strategies are those of Pan et al., Trinity-RFT, arXiv 2505.17826, section 2. Axes: P
members, T moves of a step, B games.
"""

import math
import random
import time
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from hpsearch.trainers.acting import GAMES, STARTS, Rollout, Setup, Tensors
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.rollouts import ActorRollouts
from hpsearch.trainers.ranks import Ranks, Shards
from hpsearch.trainers.rollouts import COUNTERS, L, Roles, Rollouts, Transitions

RECENT = 300  # times that are kept of what actors and learner did


class WorkSpan(NamedTuple):
    """When an actor played a rollout, or the learner learned from those of a step."""

    actor: int | None  # None: the learner
    version: int
    began: float
    ended: float  # seconds since 1970


class Actor(Protocol):
    """A process that plays. Once it is lost another one may begin in its place."""

    @property
    def is_lost(self) -> bool: ...

    @property
    def is_new(self) -> bool:
        """Whether it waits to be set up."""

    @property
    def has_weights(self) -> bool:
        """Whether it has taken over those sent last, so that newer ones may follow."""

    def set_up(self, setup: Setup, num_places: int) -> None:
        """Let it play on until ``num_places`` rollouts wait to be released."""

    def send(self, version: int, weights: Tensors) -> None: ...

    def receive(self, seconds: float) -> Rollout | None:
        """Return what it played next, once it is there; wait at most so long."""

    def release(self, rollout: Rollout) -> None:
        """Let the actor use a rollout's memory again."""

    def replace(self) -> None:
        """Give it up as lost."""


class Actors(Protocol):
    @property
    def actors(self) -> Sequence[Actor]: ...

    def play_here(self, setup: Setup) -> Rollout:
        """Let this process play in an actor's place."""


@dataclass
class Part:
    """The games of one actor, as the learner sees them."""

    number: int
    actor: Actor
    ranks: Ranks
    places: Tensor  # int64 (B,), where its games are among the learner's
    shards: slice  # which of the learner's shards it has
    waiting: deque[Rollout] = field(default_factory=deque)
    version: int = 0  # of the weights that it was sent last
    is_due: bool = False  # whether it is to get newer ones
    most: float = 0  # rollouts that it may play by its present ones
    num_places: int = 0  # rollouts that may wait
    played: int = 0  # rollouts that came since it got its present weights
    newest: int = -1  # the number of the rollout whose state the games have
    learned: int = -1  # and of the one that was learned from last
    age: int = 0  # steps, of that one
    too_old: int = 0  # rollouts that were dropped
    played_here: int = 0  # rollouts that the learner played in its place

    @property
    def state(self) -> Literal["running", "require_sync", "waiting_sync", "stopped"]:
        if self.actor.is_lost or self.actor.is_new:
            return "stopped"
        if self.is_due:
            return "require_sync"
        is_waiting = self.played >= self.most or len(self.waiting) >= self.num_places
        return "waiting_sync" if is_waiting else "running"


class ActorGames(Rollouts[L]):
    """The games in which roles learn, where actors play them."""

    def __init__(
        self,
        configs: Sequence[CommonConfig],
        roles: Roles[L],
        step: Tensor,
        ranks: Ranks,
        actors: Actors,
    ) -> None:
        super().__init__(configs, roles, step)
        config, how = configs[0], configs[0].rollouts
        assert isinstance(how, ActorRollouts)
        self._how, self._num_moves, self._actors = how, config.rollout_length, actors
        self._is_fixed = how.sync_style == "fixed"
        self._each = how.sync_interval if self._is_fixed else math.inf  # rollouts of a version
        parts = enumerate(ranks.split(len(actors.actors)))
        self.parts = [self._part(config, number, part) for number, part in parts]
        self._random = random.Random(config.seed)
        self._drawn = self._stream.counters.clone()  # random numbers, before this step
        self._clock = 0  # steps of this learner
        self.recent: deque[WorkSpan] = deque(maxlen=RECENT)  # what actors and learner did of late
        self._learns_since: float | None = None
        self._is_changed = True
        # What is learned from in this step; it stays where it is, as a recording reads it.
        self._tensors: dict[str, Tensor] = {}
        self._next = 0  # move

    def _part(self, config: CommonConfig, number: int, ranks: Ranks) -> Part:
        own = self._roles.groups[0].learner.shards
        shards = Shards.of(own.total, ranks)
        lanes, first = [], 0
        for group in self._roles.groups:
            num_games = config.learning()[group.learner.name].rollout_size
            lanes.append(first + shards.lanes(num_games, group.num_parts, self.lanes.device))
            first += num_games
        places = torch.searchsorted(self.lanes, torch.cat(lanes))
        begin = shards.first - own.first
        actor = self._actors.actors[number]
        return Part(number, actor, ranks, places, slice(begin, begin + shards.num_own))

    def change(self) -> None:
        self._is_changed = True

    @torch.no_grad()
    def prepare(self, configs: Sequence[CommonConfig], weights: Tensors) -> None:
        if self._learns_since is not None:
            self.recent.append(WorkSpan(None, self._clock - 1, self._learns_since, time.time()))
        self._drawn.copy_(self._stream.counters)
        for part in self.parts:
            if not part.actor.is_lost and (self._is_changed or part.actor.is_new):
                self._set_up(part, self._setup(part, configs, weights))
            else:
                self._send_if_due(part, weights)
        self._is_changed = False
        for part in self.parts:
            rollout = self._next_of(part, weights)
            if rollout is not None:
                self._learn_from(part, rollout)
                part.actor.release(rollout)
                continue
            self._forget(part)
            self._learn_from(part, self._actors.play_here(self._setup(part, configs, weights)))
            part.newest = part.learned = -1
            part.played_here += 1
        self._clock += 1
        self._learns_since = time.time()

    def _setup(self, part: Part, configs: Sequence[CommonConfig], weights: Tensors) -> Setup:
        return Setup(
            configs=[config.to_play() for config in configs],
            part=part.ranks,
            games=self._games_of(part),
            weights=weights,
            version=self._clock,
            first=self._each - self._clock % self._how.sync_interval,
            each=self._each,
        )

    def _games_of(self, part: Part) -> dict[str, Tensor]:
        games = self.state()
        own = {name: games[name].index_select(1, part.places) for name in self.places()}
        return {COUNTERS: self._drawn, **own}

    def _set_up(self, part: Part, setup: Setup) -> None:
        how = self._how
        self._forget(part)
        self._note_weights(part, setup.version, setup.first)
        # A freed place is filled by weights at most sync_interval - 1 steps old, and learned from
        # num_places steps later: together no more than max_staleness.
        most = max(1, how.max_staleness - how.sync_interval + 1)
        part.num_places = how.sync_interval if self._is_fixed else most
        part.actor.set_up(setup, part.num_places)

    def _note_weights(self, part: Part, version: int, most: float) -> None:
        part.is_due, part.played, part.version, part.most = False, 0, version, most

    def _forget(self, part: Part) -> None:
        """Drop the rollouts that were not learned from; the games go on from where they are."""
        part.waiting.clear()
        if part.learned != part.newest:
            self._leave_games(part)
        part.newest = part.learned = -1

    def _send_if_due(self, part: Part, weights: Tensors) -> None:
        if self._how.sync_style == "dynamic_by_explorer":
            part.is_due |= part.played >= self._how.sync_interval
        else:
            part.is_due |= self._clock % self._how.sync_interval == 0
        self._send(part, weights)

    def _send(self, part: Part, weights: Tensors) -> None:
        if part.is_due and not part.actor.is_lost and part.actor.has_weights:
            part.actor.send(self._clock, weights)
            self._note_weights(part, self._clock, self._each)

    def _next_of(self, part: Part, weights: Tensors) -> Rollout | None:
        """Return what to learn from now; None of an actor that is lost, as one that is too slow."""
        deadline = time.monotonic() + self._how.actor_timeout
        while not part.actor.is_lost:
            seconds = 0.0 if part.waiting else max(0.0, deadline - time.monotonic())
            rollout = part.actor.receive(seconds)
            if rollout is not None:
                part.waiting.append(rollout)
                part.played += 1
                continue
            self._drop(part, [seen for seen in part.waiting if self._is_too_old(seen.version)])
            if part.waiting:
                return self._chosen(part)
            part.is_due |= self._is_too_old(part.version)  # so that what it plays will not be
            self._send(part, weights)
            if time.monotonic() >= deadline:
                part.actor.replace()
        return None

    def _is_too_old(self, version: int) -> bool:
        return self._clock - version > self._how.max_staleness

    def _drop(self, part: Part, rollouts: Sequence[Rollout]) -> None:
        for rollout in rollouts:
            part.waiting.remove(rollout)
            part.actor.release(rollout)
            part.too_old += 1

    def _chosen(self, part: Part) -> Rollout:
        strategy = self._how.sample_strategy
        if strategy == "recent":
            self._drop(part, list(part.waiting)[:-1])
        chosen = self._random.choice(part.waiting) if strategy == "uniform" else part.waiting[0]
        part.waiting.remove(chosen)
        return chosen

    def _learn_from(self, part: Part, rollout: Rollout) -> None:
        """Let the step learn from a rollout, and go on from where it left its games."""
        if rollout.number != part.learned + 1:
            self._leave_games(part)
        for name, tensor in rollout.tensors.items():
            if not name.startswith(GAMES):
                self._room(name, tensor).index_copy_(2, part.places, tensor.to(self._device))
        if rollout.number > part.newest:
            state = {k: rollout.tensors[f"{GAMES}.{k}"].to(self._device) for k in self.state()}
            for name in self.places():
                self.state()[name].index_copy_(1, part.places, state[name])
            # Where actors are not in step, no number is drawn twice.
            counters = self._stream.counters
            torch.maximum(counters, state[COUNTERS], out=counters)
        part.newest, part.learned = max(part.newest, rollout.number), rollout.number
        part.age = self._clock - rollout.version
        times = rollout.began, rollout.ended
        self.recent.append(WorkSpan(part.number, rollout.version, *times))

    def _room(self, name: str, tensor: Tensor) -> Tensor:
        if name not in self._tensors:
            shape = (*tensor.shape[:2], len(self.lanes), *tensor.shape[3:])
            self._tensors[name] = torch.zeros(shape, dtype=tensor.dtype, device=self._device)
        return self._tensors[name]

    def _leave_games(self, part: Part) -> None:
        """Note in memories that the next moves do not follow the last ones."""
        for group in self._roles.groups:
            for member in range(self.fused_game.num_members):
                group.learner.leave_games(member, part.shards)

    def play(self, num_moves: int, *, looks_ahead: bool) -> Iterator[tuple[Transitions, ...]]:
        """Yield the next moves of what was played; the actors know whether to look ahead."""
        for _ in range(num_moves):
            yield self._next_move()

    @torch.no_grad()
    def _next_move(self) -> tuple[Transitions, ...]:
        move, self._next = self._next, (self._next + 1) % self._num_moves
        seen = Transitions(*(self._tensors[name][:, move] for name in Transitions._fields))
        for group in self._roles.groups:
            group.learner.exploration(self._step)  # for its statistics
            if group.draws is not None:
                starts = self._tensors[STARTS][:, move, group.lanes]
                group.draws.draw(starts, self.kernel.uniform)
        self._count(seen.done)
        groups = self._roles.groups
        return tuple(Transitions(*(part[:, group.lanes] for part in seen)) for group in groups)
