"""The actors of a learner: processes on its machine, which play the games that it learns from."""

import atexit
import multiprocessing
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

from hpsearch.cluster.actor_process import (
    FOR_LEARNERS,
    LOST,
    Begin,
    Free,
    NeedsRoom,
    NewWeights,
    Ready,
    RolloutReady,
    Room,
    Started,
    Took,
    act,
)
from hpsearch.cluster.block import Block
from hpsearch.cluster.child_processes import blocked, changed_environment, same_code
from hpsearch.cluster.machine import VISIBLE, counted
from hpsearch.cluster.weight_transport import (
    ByFile,
    ByGroup,
    ByMemory,
    NotConnectedError,
    Sender,
)
from hpsearch.errors import ConflictError
from hpsearch.trainers.acting import Rollout, RolloutPlayer, Setup, Tensors
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.rollouts import ActorRollouts
from hpsearch.trainers.ranks import ALONE, Ranks

ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}  # of each actor
START_SECONDS = 60.0  # in which actors begin; later on the learner plays their games itself
MOST_LOSSES = 3  # in a row, after which an actor is replaced no more


class ActorProcess:
    """One actor, as the learner sees it; its methods are those of `trainers.actors.Actor`."""

    def __init__(
        self,
        number: int,
        part: Ranks,
        configs: Sequence[CommonConfig],
        sender: Callable[[], Sender],
        gpu: str | None,
    ) -> None:
        """Begin one that makes ready for the games of a part, by configurations to play.

        ``gpu`` is its own one, None where it has none.
        """
        self._number, self._new_sender = number, sender
        self._first = configs, part
        self._environment = ONE_THREAD if gpu is None else ONE_THREAD | {VISIBLE: gpu}
        self._losses = 0  # in a row
        self._begins = 0  # set-ups so far
        self._begin()

    def _begin(self) -> None:
        self.is_new = self._is_set_up = False
        self._has_weights = False
        self._num_places, self._rollouts = 0, Block.filled({})
        self._waiting: list[Rollout] = []
        self._places: dict[int, int] = {}  # of each rollout that is not released, by its number
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._sender = self._new_sender()
        given = theirs, *self._first, self._sender.receiver
        # A daemon ends with this process.
        self._process = context.Process(target=act, args=given, daemon=True)
        with changed_environment(same_code() | self._environment):
            with blocked(()):
                resource_tracker.ensure_running()  # which unblocks some where it has to begin
            with blocked(FOR_LEARNERS):
                self._process.start()
        theirs.close()

    @property
    def is_lost(self) -> bool:
        if not self._is_set_up and not self.is_new:
            self._listen(0.0)
        return not self._is_set_up and not self.is_new

    @property
    def has_weights(self) -> bool:
        self._listen(0.0)
        return self._has_weights

    def wait_until_new(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while self.is_lost and (left := deadline - time.monotonic()) > 0:
            if self._pipe.closed:  # it is replaced no more
                return
            self._listen(left)

    def set_up(self, setup: Setup, num_places: int) -> None:
        games, self._weights = Block.filled(setup.games), Block.filled(setup.weights)
        self.is_new, self._is_set_up, self._has_weights = False, True, False
        self._waiting, self._places, self._num_places = [], {}, num_places
        bare = replace(setup, games={}, weights={})
        self._begins += 1
        self._say(Begin(self._begins, bare, games, self._weights, num_places))

    def send(self, version: int, weights: Tensors) -> None:
        self._has_weights = False
        try:
            self._sender.send(weights, self._weights)
        except NotConnectedError as error:
            self.replace(str(error))
        else:
            self._say(NewWeights(version))

    def receive(self, seconds: float) -> Rollout | None:
        deadline = time.monotonic() + seconds
        while not self._waiting and self._is_set_up:
            left = deadline - time.monotonic()
            if not self._listen(max(0.0, left)) and left <= 0:
                break
        return self._waiting.pop(0) if self._waiting else None

    def release(self, rollout: Rollout) -> None:
        place = self._places.pop(rollout.number, None)
        if place is not None:
            self._say(Free(place))

    def replace(self, why: str | None = None) -> None:
        self._losses += 1
        self.end()
        why = why or f"with the exit code {self._process.exitcode}"
        what = f"actor {self._number} is lost, {why}"
        if self._losses < MOST_LOSSES:
            print(f"{what}; another one begins", flush=True)
            self._begin()
        else:
            print(f"{what}, {self._losses} times; the learner plays its games", flush=True)

    def end(self) -> None:
        self.is_new = self._is_set_up = False
        self._waiting = []
        self._process.kill()
        self._process.join()
        self._pipe.close()
        self._sender.end()

    # The pipe.

    def _say(self, message: NamedTuple) -> None:
        try:
            self._pipe.send(message)
        except LOST:
            self.replace()

    def _listen(self, seconds: float) -> bool:
        """Hear the next message within so many seconds; return whether there was one."""
        if self._pipe.closed:
            return False
        try:
            if not self._pipe.poll(seconds):
                return False
            message = self._pipe.recv()
        except LOST:
            self.replace()
            return False
        self._hear(message)
        return True

    def _hear(self, message: object) -> None:
        match message:
            case Started():
                self._sender.connect()
            case Ready():
                self.is_new = True
            case Took(begin) | NeedsRoom(begin, _) | RolloutReady(begin, _, _) if (
                begin != self._begins
            ):
                pass  # said before the actor heard that it begins anew
            case Took():
                self._has_weights = True
            case NeedsRoom(_, layout):
                self._rollouts = Block.shared(layout, self._num_places)
                self._say(Room(self._rollouts))
            case RolloutReady(_, rollout, place):
                self._losses = 0
                self._places[rollout.number] = place
                self._waiting.append(replace(rollout, tensors=self._rollouts.place(place)))


class ActorPool:
    """The actors of one learner, whichever trainer it has; see `trainers.actors.Actors`."""

    def __init__(
        self,
        how: ActorRollouts,
        configs: Sequence[CommonConfig],
        ranks: Ranks = ALONE,
        folder: Path | None = None,
    ) -> None:
        """Start those of one of ``ranks``; they end with this process, or by `end`.

        Weights that go through files lie in ``folder`` meanwhile.
        """
        self.how, self._folder = how, folder
        numbers = range(ranks.rank * how.actors, (ranks.rank + 1) * how.actors)
        plays = [config.to_play() for config in configs]
        self.actors = [
            ActorProcess(number, part, plays, partial(_sender, how, number, folder), gpu)
            for number, part, gpu in zip(numbers, ranks.split(how.actors), _gpus(how), strict=True)
        ]
        atexit.register(self.end)  # multiprocessing would ask them to end, which they ignore
        self._here: dict[Ranks, tuple[Sequence[CommonConfig], RolloutPlayer]] = {}

    def wait(self) -> None:
        """Wait until they have begun, or most of them, as some may not."""
        deadline = time.monotonic() + START_SECONDS
        for actor in self.actors:
            actor.wait_until_new(deadline - time.monotonic())

    def play_here(self, setup: Setup) -> Rollout:
        configs, player = self._here.get(setup.part, (None, None))
        if player is None or configs != setup.configs:
            player = RolloutPlayer(build_trainer(setup.configs, setup.part))
            self._here[setup.part] = setup.configs, player
        player.set_up(setup)
        return player.play()

    def end(self) -> None:
        atexit.unregister(self.end)
        for actor in self.actors:
            actor.end()
        if self._folder is not None:
            with suppress(OSError):  # it is not there, or files of other ranks lie there
                self._folder.rmdir()


def _gpus(how: ActorRollouts) -> list[str | None]:
    """Return the GPU that each actor has for itself, if any; ConflictError if there are too few."""
    if how.gpus == 0:
        return [None] * how.actors
    visible = [name for name in os.environ.get(VISIBLE, "").split(",") if name]
    if len(visible) < 1 + how.gpus:
        raise ConflictError(
            f"rollouts.sync_method: nccl needs {counted(1 + how.gpus)} for each rank, one for the "
            f"learner and one for each actor, but {VISIBLE} names {len(visible)}; give the job "
            "more, lower rollouts.actors, or write sync_method: memory"
        )
    return list(visible[1 : 1 + how.gpus])


def _sender(how: ActorRollouts, number: int, folder: Path | None) -> Sender:
    match how.sync_method:
        case "memory":
            return ByMemory()
        case "checkpoint":
            assert folder is not None
            return ByFile(folder / f"actor-{number}.safetensors")
        case "nccl":
            return ByGroup(how.device, how.actor_timeout)
