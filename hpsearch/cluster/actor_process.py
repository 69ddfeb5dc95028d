"""An actor's process, and what it and its learner share: memory, and messages over a pipe.

The memory is one block for the weights and one for the rollouts that wait; a message says what lies
there. Whichever side ends, the other one's pipe says so.
"""

import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.cluster.failures import SAVE_SIGNAL, STOP_SIGNALS
from hpsearch.errors import DiskError
from hpsearch.trainers.acting import Rollout, RolloutPlayer, Setup, Tensors
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.ranks import Ranks

LOST = (EOFError, OSError)  # what a pipe raises whose other end is gone
FOR_LEARNERS = (signal.SIGINT, *STOP_SIGNALS, SAVE_SIGNAL)
"""what asks a learner to stop or to save is not for its actors, which begin with these blocked"""
ALIGNMENT = 64  # bytes; more than any type of number needs

Layout = Sequence[tuple[str, torch.dtype, torch.Size]]


class Block(NamedTuple):
    """Memory that processes share, one open file whatever number of tensors lie in it."""

    data: Tensor  # uint8
    layout: Layout  # of each of its equal places

    @classmethod
    def of(cls, layout: Layout, count: int) -> "Block":
        """Make room for such tensors ``count`` times, or raise DiskError."""
        size = sum(_room(dtype, shape) for _, dtype, shape in layout)
        try:
            return cls(torch.zeros(count, size, dtype=torch.uint8).share_memory_(), layout)
        except RuntimeError as error:  # of torch
            raise DiskError(
                f"the memory that processes share (/dev/shm) has no room for {count * size} bytes "
                f"of actors ({error}); enlarge it, lower rollouts.actors or "
                "rollouts.max_staleness, or write rollouts: {mode: inline}"
            ) from error

    @classmethod
    def filled(cls, tensors: Tensors) -> "Block":
        block = cls.of(layout_of(tensors), 1)
        block.fill(0, tensors)
        return block

    def fill(self, number: int, tensors: Tensors) -> None:
        for name, own in self.place(number).items():
            own.copy_(tensors[name])

    def place(self, number: int) -> dict[str, Tensor]:
        """Return the tensors of one place, by name."""
        tensors, first = {}, 0
        for name, dtype, shape in self.layout:
            last = first + shape.numel() * dtype.itemsize
            tensors[name] = self.data[number, first:last].view(dtype).view(shape)
            first += _room(dtype, shape)
        return tensors


def layout_of(tensors: Tensors) -> Layout:
    return [(name, tensor.dtype, tensor.shape) for name, tensor in tensors.items()]


def _room(dtype: torch.dtype, shape: torch.Size) -> int:
    return -(-shape.numel() * dtype.itemsize // ALIGNMENT) * ALIGNMENT


class Begin(NamedTuple):
    """Tells an actor to begin anew."""

    number: int  # which beginning this is; what the actor says after it names it
    setup: Setup  # without its tensors
    games: Block
    weights: Block
    num_places: int


class NewWeights(NamedTuple):
    version: int
    path: Path | None  # None: they lie in the shared memory


class Free(NamedTuple):
    place: int  # of a rollout, which the actor may fill again


class Ready(NamedTuple):
    """An actor's first word."""


class NeedsRoom(NamedTuple):
    """Asks the learner for memory for rollouts, of which each consists of so much.

    A process that shares memory must answer the one that opens it. So it is the learner that
    shares it, which then waits for no actor.
    """

    begin: int
    layout: Layout


class Room(NamedTuple):
    rollouts: Block


class Took(NamedTuple):
    """The actor has read its weights."""

    begin: int


class RolloutReady(NamedTuple):
    begin: int
    rollout: Rollout  # without its tensors
    place: int


def act(pipe: Connection, configs: Sequence[CommonConfig], part: Ranks) -> None:
    """Be an actor, until the learner is gone."""
    for number in FOR_LEARNERS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_LEARNERS)
    torch.set_num_threads(1)
    player = RolloutPlayer(build(configs, part))
    player.play()  # which compiles what it takes
    with suppress(*LOST):
        pipe.send(Ready())
        _Acting(pipe, player, configs).play_on()


class _Acting:
    def __init__(
        self, pipe: Connection, player: RolloutPlayer, configs: Sequence[CommonConfig]
    ) -> None:
        self._pipe, self._player, self._configs = pipe, player, configs
        self._begin = 0
        self._each = 0.0  # rollouts that it may play by weights that come
        self._free: list[int] = []  # places for rollouts
        self._left = 0.0  # and by those that it has
        self._rollouts: Block | None = None

    def play_on(self) -> None:
        while True:
            while self._left <= 0 or not self._free or self._pipe.poll():
                self._hear(self._pipe.recv())
            self._left -= 1
            self._play(self._free.pop())

    def _hear(self, message: object) -> None:
        match message:
            case Begin(number, setup, games, weights, num_places):
                self._begin = number
                if self._configs != setup.configs:
                    self._player = RolloutPlayer(build(setup.configs, setup.part))
                self._configs, self._weights, self._each = setup.configs, weights, setup.each
                self._player.set_up(replace(setup, games=games.place(0), weights=weights.place(0)))
                self._left, self._rollouts = setup.first, None
                self._free = list(range(num_places))
                self._pipe.send(Took(number))
            case NewWeights(version, path):
                self._player.take(version, _read(path) if path else self._weights.place(0))
                self._left = self._each
                self._pipe.send(Took(self._begin))
            case Free(place):
                self._free.append(place)
            case Room(rollouts):
                self._rollouts = rollouts

    def _play(self, place: int) -> None:
        rollout, begin = self._player.play(), self._begin
        if self._rollouts is None:
            self._pipe.send(NeedsRoom(begin, layout_of(rollout.tensors)))
        while self._rollouts is None:
            self._hear(self._pipe.recv())
            if self._begin != begin:  # so the rollout is of games that are no more
                return
        self._rollouts.fill(place, rollout.tensors)
        self._pipe.send(RolloutReady(begin, replace(rollout, tensors={}), place))


def _read(path: Path) -> Tensors:
    from safetensors.torch import load_file

    return load_file(path)
