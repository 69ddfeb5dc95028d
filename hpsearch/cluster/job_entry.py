"""What an executor starts in a job's process; torch is imported from here on."""

import atexit
import gc
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.machine import VISIBLE, Gpu, hold_gpus, share
from hpsearch.cluster.study_dir import JobDir


def train(job_folder: str) -> None:
    # Before the imports, which take seconds: a request to stop must not be lost meanwhile.
    with stop_flag() as flag:
        _train(JobDir(Path(job_folder)), flag)


def train_on_gpus(job_folder: str, gpus: Sequence[Gpu], count: int) -> None:
    """Do a job on ``count`` of ``gpus``, once so many are free, and hold them until it ends."""
    with stop_flag() as flag:
        names = ",".join(gpu.name for gpu in gpus)
        print(f"this job waits for {count} of the GPUs {names}", flush=True)
        held = hold_gpus(gpus, count, flag)
        if held is None:
            return
        os.environ[VISIBLE] = ",".join(gpu.name for gpu in held)
        print(f"{VISIBLE}={os.environ[VISIBLE]}", flush=True)
        job = JobDir(Path(job_folder))
        job.waits.unlink(missing_ok=True)
        _train(job, flag)


def train_as_task(job_folders: Sequence[str]) -> None:
    """Do this task's part of several jobs that share a SLURM job, on this task's GPUs."""
    num_tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    asked = JobDir(Path(job_folders[0])).plan.required().ranks
    # Where SLURM had fewer nodes for a job; what divides the ranks asked for divides the shards.
    ranks = max(n for n in range(1, asked + 1) if asked % n == 0 and n <= num_tasks)
    index, rank = divmod(int(os.environ.get("SLURM_PROCID", "0")), ranks)
    if index >= len(job_folders):  # the last SLURM job of an array may have more tasks than work
        return
    devices = os.environ.get(VISIBLE)
    num_nodes = int(os.environ.get("SLURM_NNODES", "1"))
    of_node = num_tasks // num_nodes
    if devices and of_node > 1:
        task = int(os.environ.get("SLURM_LOCALID", "0"))
        os.environ[VISIBLE] = ",".join(share(devices.split(","), task, of_node))
    with stop_flag() as flag:
        job = JobDir(Path(job_folders[index]))
        with _threads_and_garbage(job):
            from hpsearch.cluster.meeting import cluster_team, join
            from hpsearch.cluster.worker import run_job

        if rank > 0:
            join(job, rank, ranks, flag)
            return
        with cluster_team(job, ranks, flag) as team:
            run_job(job, flag, team)


def _train(job: JobDir, flag: StopFlag) -> None:
    with _threads_and_garbage(job):
        from hpsearch.cluster.meeting import local_team
        from hpsearch.cluster.worker import run_job

    plan = job.plan.required()
    with local_team(plan.ranks, plan.num_threads, flag) as team:
        run_job(job, flag, team)


@contextmanager
def _threads_and_garbage(job: JobDir) -> Iterator[None]:
    """Import torch in the block: with threads for no more than the job may use, and quickly."""
    # Idle threads of larger pools spin on: two such jobs on two cores all but stop each other.
    num_threads = str(job.plan.required().num_threads)
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = num_threads
    gc.disable()  # imports make a million objects, which stay: see `hpsearch.cli.entry`
    yield
    gc.enable()
    atexit.register(gc.freeze)
