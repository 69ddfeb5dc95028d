"""How the ranks of a job begin and find each other: on this machine, or as tasks of a SLURM job.

The first rank serves a store at a free port. On a cluster it announces the port in the job's
folder; on one machine it starts the others and tells them.
"""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

from torch import distributed
from torch.distributed import TCPStore  # type: ignore[attr-defined]

from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.machine import VISIBLE, share
from hpsearch.cluster.rank_group import MEETING_SECONDS, Processes, RankGroup, UnknownProcesses
from hpsearch.cluster.records import RankAddress
from hpsearch.cluster.served_store import LOOPBACK, serve
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError, HpsearchError, TrainingFailedError

LEAVING_SECONDS = 30.0  # in which the others end, once all is done
GLANCE_SECONDS = 0.1  # between two looks for the first rank's announcement
REACHING_SECONDS = 1.0  # between two tries to reach the first rank
_LOOPBACK_ALONE = {"GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}


@contextmanager
def local_team(
    size: int, num_threads: int, flag: StopFlag, weights: Path | None = None
) -> Iterator[Team]:
    """Give the team of which this process is the first; the other ranks end with the block.

    Each rank has ``num_threads``, and its share of the GPUs that CUDA_VISIBLE_DEVICES names.
    ``weights`` is the folder of the files from which all ranks' actors read weights.
    """
    os.environ |= _LOOPBACK_ALONE
    if size == 1:
        yield from _ended(Team(flag, weights=weights, num_threads=num_threads))
        return
    gpus = os.environ.get(VISIBLE)
    store = serve(LOOPBACK)
    others = _Started(
        [_start(store.port, rank, size, num_threads, gpus) for rank in range(1, size)]
    )
    try:
        if gpus:
            os.environ[VISIBLE] = ",".join(share(gpus.split(","), 0, size))
        group = RankGroup(store, 0, size, others)
        team = Team(flag, group, weights, num_threads=num_threads)
        yield from _ended(team)
        with suppress(subprocess.TimeoutExpired):  # all is done and written
            for process in others.processes:
                process.wait(LEAVING_SECONDS)
    finally:
        others.kill()


def _ended(team: Team) -> Iterator[Team]:
    """Give a team to a block; what an error ends tells the other ranks of it by itself."""
    try:
        yield team
        team.end()
    finally:
        team.end_actors()


@dataclass(frozen=True)
class _Started:
    """The other ranks as children of the first one."""

    processes: "list[subprocess.Popen[bytes]]"  # from rank 1 on

    def find_ended(self) -> int | None:
        ended = (n for n, process in enumerate(self.processes, 1) if process.poll() is not None)
        return next(ended, None)

    def kill(self) -> None:
        for process in self.processes:
            process.kill()
            process.wait()


@contextmanager
def cluster_team(job: JobDir, size: int, num_threads: int, flag: StopFlag) -> Iterator[Team]:
    """Give the team of which this task is the first; the others look for it in the job's folder."""
    if size == 1:
        yield from _ended(Team(flag, weights=job.weights, num_threads=num_threads))
        return
    store = serve()
    job.address.write(RankAddress(socket.gethostname(), store.port))
    group = RankGroup(store, 0, size, _Tasks(0, size))
    team = Team(flag, group, job.weights, num_threads=num_threads)
    yield from _ended(team)


@dataclass(frozen=True)
class _Tasks:
    """The ranks as tasks of a SLURM step, which ends once one of them has failed."""

    rank: int  # this one
    size: int

    def find_ended(self) -> int | None:
        return None

    def kill(self) -> None:
        """Kill all tasks of the step, unless it has those of other jobs as well."""
        # One of those that are left will do: the first, or the next where that one hangs.
        if self.rank <= 1 and os.environ.get("SLURM_NTASKS") == str(self.size):
            step = f"{os.environ['SLURM_JOB_ID']}.{os.environ['SLURM_STEP_ID']}"
            command = ["scancel", "--signal=KILL", step]
            subprocess.run(command, timeout=LEAVING_SECONDS, check=False)


def join(job: JobDir, rank: int, size: int, num_threads: int, flag: StopFlag) -> None:
    """Do what the first task of a job does; ConflictError if it cannot be reached."""
    deadline = time.monotonic() + MEETING_SECONDS
    while (address := job.address.try_read()) is None and time.monotonic() < deadline:
        time.sleep(GLANCE_SECONDS)
    if address is None:
        raise ConflictError(
            f"rank 0 of {job.root} announced itself nowhere within {MEETING_SECONDS:.0f} s; its "
            "log says why, and all nodes must see the same folder"
        )
    _follow(address, rank, size, num_threads, flag, _Tasks(rank, size))


def join_here(port: int, rank: int, size: int, num_threads: int, flag: StopFlag) -> None:
    """Do what the first rank does, which serves its store at a port of this machine."""
    address = RankAddress(LOOPBACK, port)
    _follow(address, rank, size, num_threads, flag, UnknownProcesses())


def _follow(
    address: RankAddress,
    rank: int,
    size: int,
    num_threads: int,
    flag: StopFlag,
    others: Processes,
) -> None:
    try:
        group = RankGroup(_reach(address, rank), rank, size, others)
        Team(flag, group, num_threads=num_threads).follow()
    except Exception as error:
        if isinstance(error, HpsearchError):  # of all else the first rank tells
            print(f"rank {rank}: {error}", flush=True)
        # An end with finalizers would wait for the other ranks.
        os._exit(TrainingFailedError.exit_code)


def _reach(address: RankAddress, rank: int) -> TCPStore:
    """Return the store that the first rank serves; a ConflictError if it cannot be reached."""
    place, deadline = (address.host, address.port), time.monotonic() + MEETING_SECONDS
    seconds = timedelta(seconds=MEETING_SECONDS)  # for each later call of the store, too
    # torch's own tries take twice the time that they are given, and print pages.
    while True:
        left = deadline - time.monotonic()
        try:
            socket.create_connection(place, max(left, GLANCE_SECONDS)).close()
            return TCPStore(*place, timeout=seconds, wait_for_workers=False)
        except (OSError, distributed.DistError) as error:
            if left < REACHING_SECONDS:
                why, *_ = str(error).splitlines()
                raise ConflictError(
                    f"rank {rank} on {socket.gethostname()} cannot reach the first rank at "
                    f"{address.host}:{address.port} ({why}); hpsearch doctor says how nodes see "
                    "each other"
                ) from error
        time.sleep(REACHING_SECONDS)


def _start(
    port: int, rank: int, size: int, num_threads: int, gpus: str | None
) -> "subprocess.Popen[bytes]":
    threads = str(num_threads)
    own = {"OMP_NUM_THREADS": threads, "NUMBA_NUM_THREADS": threads}
    environment = os.environ | same_code() | own
    if gpus:
        environment[VISIBLE] = ",".join(share(gpus.split(","), rank, size))
    words = (str(port), str(rank), str(size), threads)
    # In a session of its own, since the first rank alone hears Ctrl-C.
    command = [sys.executable, "-m", "hpsearch.cluster.job_entry", *words]
    return subprocess.Popen(command, env=environment, start_new_session=True)
