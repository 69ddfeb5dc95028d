"""How the ranks of a job meet, and how each of them learns that another one is lost.

They meet at torch's TCPStore, which the first rank serves at a free port. Meanwhile and after that
a thread of each gives heartbeats there: one that ends or hangs would let the others wait in a
collective call for ever.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from datetime import timedelta
from threading import Event, Thread
from traceback import format_exception
from typing import Protocol

import torch
from torch import distributed
from torch.distributed import PrefixStore, Store  # type: ignore[attr-defined]

from hpsearch.cluster.code_snapshot import code_hash
from hpsearch.cluster.failures import RankLostError, kind_of, message_of
from hpsearch.errors import ConflictError
from hpsearch.package import __version__
from hpsearch.trainers.ranks import Ranks

MEETING_SECONDS = 120.0  # in which all ranks must have come
SIGN_SECONDS = 1.0
LOST_SECONDS = 12.0  # without a sign
STOPPED_SECONDS = 5.0
"""between two looks, which says that this process was stopped; the others may have been, too"""
RAISING_SECONDS = 5.0
"""in which the collective call that a lost rank breaks off may raise; then the process is ended"""
GLANCE_SECONDS = 0.05
FAILING_SECONDS = 5.0
"""in which all ranks have failed, if they fail alike; else some may be within a collective call"""
_FOREVER = timedelta(days=365)  # a collective call may wait; that a rank is lost, its signs tell


class Processes(Protocol):
    """What one rank knows of the others' processes."""

    def find_ended(self) -> int | None:
        """Return a rank whose process has ended, None if none is known to have."""
        ...

    def kill(self) -> None:
        """End the others', also those that are stopped."""
        ...


class UnknownProcesses:
    def find_ended(self) -> int | None:
        return None

    def kill(self) -> None:
        """Do nothing: they end by themselves."""


class RankGroup:
    def __init__(self, store: Store, rank: int, size: int, others: Processes) -> None:
        """Meet the other ranks at ``store``; one process has one group.

        Raises ConflictError if they run different code; RankLostError if one does not come.
        """
        self.loss: RankLostError | None = None
        self.on_stuck: Callable[[RankLostError], None] | None = None
        """set while it is to be called beside a stuck main thread, before the process is ended"""
        self._store = store
        self._others = others
        self.ranks = Ranks(rank, size)
        self._has_met, self._has_left = Event(), Event()
        self._knows_loss, self._is_raising = Event(), Event()
        self._signs = 0  # of life that this rank gave
        self._answered_at: float | None = time.monotonic()  # the first rank; None once it is gone
        self._give_sign()
        loops = [self._watch] if rank == 0 else [self._watch, self._ask_first]
        self._threads = [Thread(target=loop, daemon=True) for loop in loops]
        for thread in self._threads:
            thread.start()
        backends = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        distributed.init_process_group(
            backends,
            # One that waits would let no other thread use it.
            store=PrefixStore("group", store.clone()),  # type: ignore[attr-defined]
            rank=rank,
            world_size=size,
            timeout=_FOREVER,
        )
        codes = self.ranks.told_by_all((__version__, code_hash()))
        self._has_met.set()
        if len(set(codes)) > 1:
            listed = ", ".join(
                f"rank {rank} {version} ({digest})" for rank, (version, digest) in enumerate(codes)
            )
            raise ConflictError(
                f"all ranks must run the same code of hpsearch, but {listed}; install the same one "
                "on all nodes"
            )

    def leave(self) -> None:
        """Leave together with all others; not after an error, which ends the others too."""
        self.ranks.told_by_all(None)
        self._has_left.set()
        for thread in self._threads:
            thread.join()
        distributed.destroy_process_group()

    def tell_failure(self, error: Exception) -> None:
        """Let the first rank know why this one ends."""
        failure = (kind_of(error), message_of(error), "".join(format_exception(error)))
        self._store.set("failure", json.dumps((self.ranks.rank, *failure)))
        distributed.destroy_process_group()  # which breaks off the first rank's call
        # SLURM kills all tasks once one has failed, and the first is to write this down before.
        self._knows_loss.wait(LOST_SECONDS)

    def have_all_failed(self) -> bool:
        """Return whether all ranks come here after equally many collective calls.

        If so, none of them is within one, and their next calls meet.
        """
        failed = f"failed after {self.ranks.calls.num} calls"
        deadline = time.monotonic() + FAILING_SECONDS
        try:
            num = self._store.add(failed, 1)
            while num < self.ranks.size and time.monotonic() < deadline:
                time.sleep(GLANCE_SECONDS)
                num = self._store.add(failed, 0)
        except RuntimeError:  # the first rank, which serves the store, is gone
            return False
        return num == self.ranks.size

    def wait_for_loss(self) -> RankLostError:
        """Return which rank is lost, after a collective call has raised."""
        self._is_raising.set()
        self._knows_loss.wait(LOST_SECONDS + RAISING_SECONDS)
        return self.loss or RankLostError("another rank is gone")

    # Signs of life.

    def _watch(self) -> None:
        last_signs = dict[int, tuple[bytes, float]]()
        now = time.monotonic()
        deadline = now + MEETING_SECONDS
        while not self._has_left.wait(SIGN_SECONDS):
            before, now = now, time.monotonic()
            if now - before > STOPPED_SECONDS and self._answered_at is not None:
                self._answered_at = now
                last_signs.clear()
            if self.ranks.rank > 0:
                self.loss = self._lost_first(now)
            elif self._has_met.is_set():
                self._give_sign()
                self.loss = self._failure() or self._silence(now, last_signs)
            elif now > deadline:
                self.loss = self._absence()
            if self.loss is None and (ended := self._others.find_ended()) is not None:
                self.loss = self._failure() or RankLostError(f"the process of rank {ended} ended")
            if self.loss is not None:
                self._knows_loss.set()
                if not self._is_raising.wait(RAISING_SECONDS) and not self._has_left.is_set():
                    self._end_stuck(self.loss)
                return

    def _end_stuck(self, loss: RankLostError) -> None:
        print(f"hpsearch: {loss}", file=sys.stderr, flush=True)
        try:
            if self.on_stuck is not None:
                self.on_stuck(loss)
            self._others.kill()
        finally:
            os._exit(RankLostError.exit_code)

    def _ask_first(self) -> None:
        """Exchange signs with the first rank; a question to its store hangs where it hangs."""
        while not self._has_left.wait(SIGN_SECONDS):
            try:
                self._give_sign()
                self._store.get(_sign(0))
            except RuntimeError:  # torch's own errors of a store are such
                self._answered_at = None
                return
            self._answered_at = time.monotonic()

    def _lost_first(self, now: float) -> RankLostError | None:
        answered_at = self._answered_at
        if answered_at is None:
            return RankLostError("rank 0 is gone")
        return _silent(0) if now - answered_at > LOST_SECONDS else None

    def _failure(self) -> RankLostError | None:
        if not self._store.check(["failure"]):
            return None
        rank, kind, message, report = json.loads(self._store.get("failure"))
        loss = RankLostError(f"rank {rank}: {message}", kind)
        loss.add_note(report)
        return loss

    def _silence(
        self, now: float, last_signs: dict[int, tuple[bytes, float]]
    ) -> RankLostError | None:
        for rank in range(1, self.ranks.size):
            sign = self._store.get(_sign(rank))
            if rank not in last_signs or last_signs[rank][0] != sign:
                last_signs[rank] = (sign, now)
            elif now - last_signs[rank][1] > LOST_SECONDS:
                return _silent(rank)
        return None

    def _absence(self) -> RankLostError:
        missing = [n for n in range(1, self.ranks.size) if not self._store.check([_sign(n)])]
        if missing:
            which = f"rank {', '.join(map(str, missing))} did not come"
        else:
            which = "the ranks found the first one, but not each other"
        return RankLostError(
            f"{which} within {MEETING_SECONDS:.0f} s; where nodes have several network interfaces, "
            "name the one between them by GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME"
        )

    def _give_sign(self) -> None:
        self._signs += 1
        self._store.set(_sign(self.ranks.rank), str(self._signs))


def _sign(rank: int) -> str:
    return f"sign {rank}"


def _silent(rank: int) -> RankLostError:
    return RankLostError(
        f"rank {rank} has given no heartbeat for {LOST_SECONDS:.0f} s; see whether its process was "
        "stopped, or its node or network hangs"
    )
