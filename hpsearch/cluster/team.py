"""The ranks of a job, each with a trainer of the same members: what the first one does, all do.

The first rank decides, reads and writes. What changes its trainer it tells the others, which do the
same with theirs; then all say how it went, and whether one of them was asked to stop.
"""

import socket
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, TypeVarTuple, cast

import torch

from hpsearch.cluster.actors import ActorPool
from hpsearch.cluster.failures import RankLostError, StopFlag, kind_of, message_of
from hpsearch.cluster.parts import AwaitedParts, PartsWritten, PartWriter
from hpsearch.cluster.rank_group import RankGroup
from hpsearch.cluster.records import ActorHeartbeat, RankHeartbeat
from hpsearch.cluster.training_threads import TrainingThreads
from hpsearch.errors import HpsearchError
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.checkpoint import Checkpoint, CheckpointPart
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.config.rollouts import ActorRollouts
from hpsearch.trainers.kernel_cache import compile_kernels
from hpsearch.trainers.ranks import ALONE, BrokenOffError
from hpsearch.trainers.trainer import AnyTrainer

A = TypeVarTuple("A")
R = TypeVar("R")


class Team:
    def __init__(
        self,
        flag: StopFlag,
        group: RankGroup | None = None,
        weights: Path | None = None,
        *,
        num_threads: int | None = None,
    ) -> None:
        """Set ``flag`` once any rank is asked to stop or to save; without a group there is one.

        Each rank has ``num_threads`` (None: as torch has), or fewer where others need the cores.
        ``weights`` is the folder of the files from which all ranks' actors read weights; the first
        rank's counts.
        """
        self._flag, self._weights = flag, weights
        self.threads = TrainingThreads(num_threads or torch.get_num_threads())
        self.group = group
        self.ranks = ALONE if group is None else group.ranks
        self.heartbeats: Sequence[RankHeartbeat] = ()
        """of all ranks, once they have trained, if there are several or actors play"""
        self.own_heartbeat: RankHeartbeat | None = None
        self.built: AnyTrainer | None = None
        """this rank's trainer, if there is one; it stays for the next trials, which may fit it"""
        self.actors: ActorPool | None = None
        """who plays for it, where its configurations ask for actors"""
        self.is_whole = True
        """whether the other ranks wait for the first one's next call, with states that agree"""
        self.parts = PartWriter(self.ranks)
        self._others_parts = AwaitedParts(self.ranks.size - 1)

    @property
    def trainer(self) -> AnyTrainer:
        assert self.built is not None, "`build` was called"
        return self.built

    def build(self, configs: Sequence[TrainerConfig]) -> None:
        """Give each rank a fresh trainer."""
        self._all(_build, tuple(configs), self._weights)

    def compile(self, dimension: int) -> None:
        """Let each rank have the kernels of games in so many dimensions, which one may lack."""
        self._all(_compile, dimension)

    def hosts(self) -> list[str]:
        """Return the machine of each rank."""
        return self._all(_hosts, is_shared=True)

    def train(self, steps: int) -> None:
        self._all(_train, steps, is_shared=True)

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members, in new trainers."""
        self._all(_select, tuple(members))

    def listen(self) -> None:
        """Let each rank say whether it was asked to stop, while there is nothing to do."""
        self._all(_hear)

    def copy_member(
        self, temporary: Path, row: int, kind: str, parents: tuple[str, ...], seconds: float
    ) -> tuple[Checkpoint, Future[list[CheckpointPart]]]:
        """Return a copy of what this rank saves of a member, and what will hold the others' parts.

        The other ranks begin to write theirs into the unfinished folder ``temporary``. The first
        one hears of them after each later call.
        """
        others = self._others_parts.begin(temporary)
        try:
            copied = self._all(_copy_member, temporary, row, kind, parents, seconds, is_shared=True)
        except BaseException:
            self._others_parts.give_up(temporary)
            raise
        return copied, others

    def await_parts(self) -> None:
        """Wait until the other ranks have written their parts of all checkpoints, or have not."""
        self._all(_await_parts)

    def together(self, action: Callable[["Team", *A], R], *arguments: *A) -> R:
        """Call ``action`` with the team of each rank, as `do_together` does with its trainer."""
        return self._all(action, *arguments, is_shared=True)

    def is_asked_to_stop(self) -> bool:
        """Return whether one of the ranks was; all of them call this, within `together`."""
        # What all were told, not this rank's flag: the others do not know of a later signal.
        return any(self.ranks.told_by_all(self._flag.is_set))

    def do(self, action: Callable[[AnyTrainer, *A], R], *arguments: *A) -> R:
        """Call ``action`` with the trainer of each rank; return what this one's gave.

        The action is a function of a module and the arguments are plain data: both are sent.
        It calls nothing that all ranks call together. Raises what it raised here, RankLostError if
        another rank could not do it, or is lost.
        """
        return self._all(_act, action, arguments)

    def do_together(self, action: Callable[[AnyTrainer, *A], R], *arguments: *A) -> R:
        """Do the same with an action in which ranks call each other: any error ends them all."""
        return self._all(_act, action, arguments, is_shared=True)

    def measure(self, action: Callable[[AnyTrainer, *A], R], *arguments: *A) -> R:
        """Do the same with an action that changes no state.

        So an error that all ranks raise alike leaves them whole.
        """
        return self._all(_act, action, arguments, is_shared=True, is_change=False)

    def _all(
        self,
        action: Callable[["Team", *A], R],
        *arguments: *A,
        is_shared: bool = False,
        is_change: bool = True,
    ) -> R:
        if self.group is None:
            return action(self, *arguments)
        call = _Call(action, arguments, is_shared, is_change)
        self.is_whole = False
        try:
            self.ranks.told_by_first(call)
            result: R = self._try(call)
        except BrokenOffError as error:
            raise self.group.wait_for_loss() from error
        self.is_whole = True
        return result

    def _try(self, call: "_Call") -> Any:
        """Do what is called, and raise what it raised here, or else what it raised elsewhere."""
        assert self.group is not None
        failure: HpsearchError | OSError | None = None
        try:
            result = call.action(self, *call.arguments)
        except BrokenOffError:
            raise
        except Exception as error:
            if not call.is_change:
                self.is_whole = self.group.have_all_failed()
            if call.is_shared or not isinstance(error, HpsearchError | OSError):
                raise  # the others may be within a call that waits for this one
            failure = error
        flag, is_first = self._flag, self.ranks.rank == 0
        is_save_asked = flag.is_save_asked
        if is_save_asked and not is_first:
            flag.is_save_asked = False  # the first rank sees to it
        fault = None if failure is None else (kind_of(failure), message_of(failure))
        written = self.parts.take_written()
        own = _Outcome(flag.is_set, is_save_asked, fault, self.own_heartbeat, written)
        outcomes = self.ranks.told_by_all(own)
        self._others_parts.hear([outcome.written for outcome in outcomes])
        self.heartbeats = [
            outcome.heartbeat for outcome in outcomes if outcome.heartbeat is not None
        ]
        # Never `|=`, which would forget a signal that comes before it has stored what it read.
        if any(outcome.is_stopped for outcome in outcomes):
            flag.is_set = True
        if is_first and any(outcome.is_save_asked for outcome in outcomes):
            flag.is_save_asked = True
        if failure is not None:
            raise failure
        for rank, outcome in enumerate(outcomes):
            if outcome.fault is not None:
                kind, message = outcome.fault
                raise RankLostError(f"rank {rank}: {message}", kind)
        return result

    # The other ranks.

    def follow(self) -> None:
        """Do what the first rank does, until it lets this one leave.

        RankLostError if a rank is gone. Whatever else this raises, the first rank has been told.
        """
        assert self.group is not None
        try:
            self._follow()
        except BrokenOffError as error:
            raise RankLostError("another rank is gone, or has failed") from error
        except Exception as error:
            self.group.tell_failure(error)
            raise
        finally:
            self.end_actors()
        self.group.leave()

    def _follow(self) -> None:
        while (call := self.ranks.told_by_first(cast("_Call | None", None))) is not None:
            self.is_whole = False
            try:
                self._try(call)
            except Exception as error:
                is_told = not call.is_shared and isinstance(error, HpsearchError | OSError)
                if not (is_told or self.is_whole):
                    raise
                # The first rank knows, and decides.

    def end_actors(self) -> None:
        if self.actors is not None:
            self.actors.end()
            self.actors = None

    def end(self) -> None:
        """Let actors and the other ranks leave."""
        self.end_actors()
        if self.group is not None:
            with suppress(BrokenOffError):  # all is done and written
                self.ranks.told_by_first(None)
                self.group.leave()


class _Call(NamedTuple):
    """What the first rank lets all do."""

    action: Callable[..., Any]  # a function of a module
    arguments: tuple[Any, ...]
    is_shared: bool  # whether ranks call each other within it
    is_change: bool  # whether it changes what checkpoints hold


class _Outcome(NamedTuple):
    """What each rank tells all others after each call."""

    is_stopped: bool
    is_save_asked: bool
    fault: tuple[str, str] | None  # kind and message of what it could not do
    heartbeat: RankHeartbeat | None
    written: PartsWritten


def _compile(team: Team, dimension: int) -> None:
    compile_kernels(dimension)


def _build(team: Team, configs: Sequence[TrainerConfig], weights: Path | None) -> None:
    team.built = None  # before the new one needs memory
    how = configs[0].rollouts
    if team.actors is not None and team.actors.how != how:
        team.end_actors()
    if team.actors is None and isinstance(how, ActorRollouts):
        team.actors = ActorPool(how, configs, team.ranks, weights)
    team.built = build_trainer(configs, team.ranks, team.actors)
    if team.actors is not None:
        team.actors.wait()


def _hosts(team: Team) -> list[str]:
    return team.ranks.told_by_all(socket.gethostname())


def _hear(team: Team) -> None:
    """Do nothing; after it, as after all else, each rank hears what the others were asked."""


def _train(team: Team, steps: int) -> None:
    waited, began = team.ranks.calls.waited, time.perf_counter()
    with team.threads.adapted(team.trainer):
        team.trainer.train(steps)
    step = int(team.trainer.step[0])  # waits for the device
    seconds = time.perf_counter() - began
    share = min(1.0, (team.ranks.calls.waited - waited) / seconds)
    games = team.trainer.actor_games
    actors = tuple(
        ActorHeartbeat(part.state, part.age, part.too_old, part.played_here)
        for part in ([] if games is None else games.parts)
    )
    team.own_heartbeat = RankHeartbeat(socket.gethostname(), step, share, actors)
    if team.group is None and actors:
        team.heartbeats = [team.own_heartbeat]


def _copy_member(
    team: Team, temporary: Path, row: int, kind: str, parents: tuple[str, ...], seconds: float
) -> Checkpoint:
    copied = team.trainer.checkpoint(row, kind, parents, seconds).copied()
    if team.ranks.rank > 0:
        team.parts.write(temporary, copied, team.trainer.places())
    return copied


def _await_parts(team: Team) -> None:
    team.parts.wait()


def _select(team: Team, members: Sequence[int]) -> None:
    team.built = team.trainer.select(members)


def _act(team: Team, action: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    with team.threads.adapted(team.trainer):
        return action(team.trainer, *arguments)
