"""Contenders in processes of their own, each set up as its users have it.

What a process asks of its C library and of its threads holds for all that it runs: so hpsearch and
what it is compared with take turns, but share no process.
"""

import multiprocessing
import resource
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection

import torch
from measuring import Contender

from hpsearch.cluster.child_processes import changed_environment
from hpsearch.cluster.machine import keep_freed_memory
from hpsearch.cluster.threads import SPIN_LONG

Build = Callable[[], Callable[[], int]]
"""a function of a module that sets a contender up and returns its `run`"""


@dataclass(frozen=True)
class Apart:
    threads: int
    is_quick: bool
    """whether all run in this process instead, to show that they run"""

    def theirs(self, build: Build) -> Contender:
        """Return what runs as Python starts it."""
        return self._contender(build, {}, is_ours=False)

    def ours(self, build: Build) -> Contender:
        """Return what runs as a job of ours does."""
        return self._contender(build, SPIN_LONG, is_ours=True)

    def _contender(
        self, build: Build, environment: Mapping[str, str], *, is_ours: bool
    ) -> Contender:
        if self.is_quick:
            return Contender(build())
        context = multiprocessing.get_context("spawn")
        pipe, theirs = context.Pipe()
        given = theirs, build, self.threads, is_ours
        process = context.Process(target=_take_turns, args=given, daemon=True)
        with changed_environment(environment):
            process.start()
        used = 0.0

        def run() -> int:
            nonlocal used
            pipe.send(None)
            units, used = pipe.recv()
            return int(units)

        return Contender(run, processor=lambda: used)


def _take_turns(pipe: Connection, build: Build, threads: int, is_ours: bool) -> None:
    if is_ours:
        keep_freed_memory()
    torch.set_num_threads(threads)
    run = build()
    with suppress(EOFError):  # all is measured
        while True:
            pipe.recv()
            units, usage = run(), resource.getrusage(resource.RUSAGE_SELF)
            pipe.send((units, usage.ru_utime + usage.ru_stime))
