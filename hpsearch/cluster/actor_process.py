"""An actor's process, and what it and its learner share: memory, and messages over a pipe.

The memory is one block for the weights and one for the rollouts that wait; a message says what lies
there. Newer weights may travel otherwise. Whichever side ends, the other one's pipe says so.
"""

import multiprocessing
import os
import signal
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from multiprocessing.connection import Connection
from threading import Thread
from typing import NamedTuple

import torch

from hpsearch.cluster.block import Block, Layout, layout_of
from hpsearch.cluster.failures import SAVE_SIGNAL, STOP_SIGNALS
from hpsearch.cluster.machine import keep_freed_memory
from hpsearch.cluster.weight_transport import Receiver
from hpsearch.trainers.acting import Rollout, RolloutPlayer, Setup
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.kernel_cache import compile_kernels
from hpsearch.trainers.ranks import Ranks

LOST = (EOFError, OSError)  # what a pipe raises whose other end is gone
FOR_LEARNERS = (signal.SIGINT, *STOP_SIGNALS, SAVE_SIGNAL)
"""what asks a learner to stop or to save is not for its actors, which begin with these blocked"""


class Begin(NamedTuple):
    """Tells an actor to begin anew."""

    number: int  # which beginning this is; what the actor says after it names it
    setup: Setup  # without its tensors
    games: Block
    weights: Block
    num_places: int


class NewWeights(NamedTuple):
    version: int


class Free(NamedTuple):
    place: int  # of a rollout, which the actor may fill again


class Started(NamedTuple):
    """An actor's first word; it connects to the learner, by which weights may travel."""


class Ready(NamedTuple):
    """It can be set up."""


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


def act(pipe: Connection, configs: Sequence[CommonConfig], part: Ranks, receiver: Receiver) -> None:
    """Be an actor, until the learner is gone."""
    for number in FOR_LEARNERS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, FOR_LEARNERS)
    Thread(target=_end_with_learner, daemon=True).start()
    keep_freed_memory()
    torch.set_num_threads(1)
    if configs[0].device == "cpu":
        compile_kernels(configs[0].dimension)
    player = RolloutPlayer(build_trainer(configs, part))
    player.play()  # which compiles what it takes
    with suppress(*LOST):
        pipe.send(Started())
        receiver.connect()
        pipe.send(Ready())
        _Acting(pipe, player, configs, receiver).play_on()


def _end_with_learner() -> None:
    """End also where the main thread waits for a GPU, and hears of nothing."""
    learner = multiprocessing.parent_process()
    assert learner is not None, "an actor is a child of its learner"
    learner.join()
    os._exit(1)


class _Acting:
    def __init__(
        self,
        pipe: Connection,
        player: RolloutPlayer,
        configs: Sequence[CommonConfig],
        receiver: Receiver,
    ) -> None:
        self._pipe, self._player, self._configs = pipe, player, configs
        self._receiver = receiver
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
                    self._player = RolloutPlayer(build_trainer(setup.configs, setup.part))
                self._configs, self._weights, self._each = setup.configs, weights, setup.each
                self._player.set_up(replace(setup, games=games.place(0), weights=weights.place(0)))
                self._left, self._rollouts = setup.first, None
                self._free = list(range(num_places))
                self._pipe.send(Took(number))
            case NewWeights(version):
                self._player.take(version, self._receiver.receive(self._weights))
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
