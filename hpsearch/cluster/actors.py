"""The actors of a learner: processes on its machine, which play the games that it learns from."""

import atexit
import multiprocessing
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing import resource_tracker
from pathlib import Path
from typing import NamedTuple

from hpsearch.cluster.actor_process import (
    FOR_LEARNERS,
    LOST,
    Begin,
    Block,
    Free,
    NeedsRoom,
    NewWeights,
    Ready,
    RolloutReady,
    Room,
    Took,
    act,
)
from hpsearch.cluster.child_processes import blocked, changed_environment, same_code
from hpsearch.files import write_bytes
from hpsearch.trainers.acting import Rollout, RolloutPlayer, Setup, Tensors
from hpsearch.trainers.algorithms import build
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
        weights_file: Path | None,
    ) -> None:
        """Begin one that makes ready for the games of a part, by configurations to play."""
        self._number, self._weights_file = number, weights_file
        self._first = configs, part
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
        # A daemon ends with this process.
        self._process = context.Process(target=act, args=(theirs, *self._first), daemon=True)
        with changed_environment(same_code() | ONE_THREAD):
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
        if self._weights_file is None:
            self._weights.fill(0, weights)
        else:
            _write(self._weights_file, weights)
        self._has_weights = False
        self._say(NewWeights(version, self._weights_file))

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

    def replace(self) -> None:
        self._losses += 1
        self.end()
        code = self._process.exitcode
        what = f"actor {self._number} is lost, with the exit code {code}"
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
            case Ready():
                self.is_new = True
            case Took(begin) | NeedsRoom(begin, _) | RolloutReady(begin, _, _) if (
                begin != self._begins
            ):
                pass  # said before the actor heard that it begins anew
            case Took():
                self._has_weights = True
            case NeedsRoom(_, layout):
                self._rollouts = Block.of(layout, self._num_places)
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
        self._files: list[Path | None] = [None] * how.actors
        numbers = range(ranks.rank * how.actors, (ranks.rank + 1) * how.actors)
        if how.sync_method == "checkpoint":
            assert folder is not None
            # One file per actor: what one was told to read must not become another one's weights.
            self._files = [folder / f"actor-{number}.safetensors" for number in numbers]
        plays = [config.to_play() for config in configs]
        self.actors = [
            ActorProcess(number, part, plays, path)
            for number, part, path in zip(
                numbers, ranks.split(how.actors), self._files, strict=True
            )
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
            player = RolloutPlayer(build(setup.configs, setup.part))
            self._here[setup.part] = setup.configs, player
        player.set_up(setup)
        return player.play()

    def end(self) -> None:
        atexit.unregister(self.end)
        for actor in self.actors:
            actor.end()
        with suppress(OSError):  # the folder is not there, or those of other ranks lie there
            for path in filter(None, self._files):
                path.unlink(missing_ok=True)
            if self._folder is not None:
                self._folder.rmdir()


def _write(path: Path, weights: Tensors) -> None:
    from safetensors.torch import save

    plain = {name: tensor.cpu().contiguous() for name, tensor in weights.items()}
    write_bytes(path, save(plain), is_flushed=False)
