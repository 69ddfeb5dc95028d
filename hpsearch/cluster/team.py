"""The ranks of a job, each with a trainer of the same members: what the first one does, all do.

The first rank decides, reads and writes. What changes its trainer it tells the others, which do the
same with theirs; then all say how it went, and whether one of them was asked to stop.
"""

import socket
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, TypeVarTuple

from hpsearch.cluster.failures import RankLostError, StopFlag, kind_of, message_of
from hpsearch.cluster.rank_group import RankGroup
from hpsearch.cluster.records import RankHeartbeat
from hpsearch.errors import HpsearchError
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.ranks import ALONE, BrokenOffError
from hpsearch.trainers.trainer import AnyTrainer

A = TypeVarTuple("A")
R = TypeVar("R")


class Team:
    def __init__(self, flag: StopFlag, group: RankGroup | None = None) -> None:
        """Set ``flag`` once any rank is asked to stop or to save; without a group there is one."""
        self._flag = flag
        self.group = group
        self.ranks = ALONE if group is None else group.ranks
        self.heartbeats: Sequence[RankHeartbeat] = ()
        """of all ranks, if there are several and they have trained"""
        self.own_heartbeat: RankHeartbeat | None = None
        self.built: AnyTrainer | None = None
        """this rank's trainer, if there is one; it stays for the next trials, which may fit it"""

    @property
    def trainer(self) -> AnyTrainer:
        assert self.built is not None, "`build` was called"
        return self.built

    def build(self, configs: Sequence[TrainerConfig]) -> None:
        """Give each rank a fresh trainer."""
        self._all(_build, tuple(configs))

    def hosts(self) -> list[str]:
        """Return the machine of each rank."""
        return self._all(_hosts)

    def train(self, steps: int) -> None:
        self._all(_train, steps)

    def select(self, members: Sequence[int]) -> None:
        """Go on with some of the members, in new trainers."""
        self._all(_select, tuple(members))

    def do(self, action: Callable[[AnyTrainer, *A], R], *arguments: *A) -> R:
        """Call ``action`` with the trainer of each rank; return what this one's gave.

        The action is a function of a module and the arguments are plain data: both are sent.
        RankLostError if another rank could not do it, or is lost.
        """
        return self._all(_act, action, arguments)

    def _all(self, change: Callable[["Team", *A], R], *arguments: *A) -> R:
        if self.group is None:
            return change(self, *arguments)
        try:
            self.ranks.told_by_first((change, arguments))
            return self._try(change, *arguments)
        except BrokenOffError as error:
            loss = self.group.wait_for_loss()
            if loss is None:
                raise
            raise loss from error

    def _try(self, change: Callable[["Team", *A], R], *arguments: *A) -> R:
        """Make a change, and raise what it raised here, or else what it raised elsewhere."""
        failure: HpsearchError | OSError | None = None
        try:
            result = change(self, *arguments)
        except (HpsearchError, OSError) as error:
            failure = error
        own = None if failure is None else (kind_of(failure), message_of(failure))
        flag, is_first = self._flag, self.ranks.rank == 0
        told = self.ranks.told_by_all((flag.is_set, flag.is_save_asked, own, self.own_heartbeat))
        flag.is_save_asked &= is_first  # it alone sees to it
        self.heartbeats = [heartbeat for *_, heartbeat in told if heartbeat is not None]
        for rank, (is_stopped, is_save_asked, fault, _) in enumerate(told):
            flag.is_set |= is_stopped
            flag.is_save_asked |= is_save_asked and is_first
            if fault is not None and failure is None:
                kind, message = fault
                failure = RankLostError(f"rank {rank}: {message}", kind)
        if failure is not None:
            raise failure
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
        self.group.leave()

    def _follow(self) -> None:
        while (told := self.ranks.told_by_first(None)) is not None:
            change, arguments = told
            with suppress(HpsearchError, OSError):  # the first rank knows, and decides
                self._try(change, *arguments)

    def end(self) -> None:
        """Let the other ranks leave."""
        if self.group is not None:
            self.ranks.told_by_first(None)
            self.group.leave()


def _build(team: Team, configs: Sequence[TrainerConfig]) -> None:
    team.built = None  # before the new one needs memory
    team.built = build(configs, team.ranks)


def _hosts(team: Team) -> list[str]:
    return team.ranks.told_by_all(socket.gethostname())


def _train(team: Team, steps: int) -> None:
    waiting, began = team.ranks.waiting.seconds, time.perf_counter()
    team.trainer.train(steps)
    step = int(team.trainer.step[0])  # waits for the device
    seconds = time.perf_counter() - began
    share = min(1.0, (team.ranks.waiting.seconds - waiting) / seconds)
    team.own_heartbeat = RankHeartbeat(socket.gethostname(), step, share)


def _select(team: Team, members: Sequence[int]) -> None:
    team.built = team.trainer.select(members)


def _act(team: Team, action: Callable[..., R], arguments: tuple[Any, ...]) -> R:
    return action(team.trainer, *arguments)
