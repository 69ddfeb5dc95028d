"""What an executor starts in a job's process; torch is imported from here on.

Another rank on the same machine is: python -m hpsearch.cluster.job_entry PORT RANK SIZE THREADS
"""

import atexit
import gc
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.machine import VISIBLE, Gpu, hold_gpus, keep_freed_memory, share
from hpsearch.cluster.records import HeldGpus
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.threads import let_threads_spin


def train(job_folder: str) -> None:
    # Before the imports, which take seconds: a request to stop must not be lost meanwhile.
    job = JobDir(Path(job_folder))
    with stop_flag() as flag:
        _train(job, flag, job.plan.required().ranks)


def train_on_gpus(job_folder: str, gpus: Sequence[Gpu], counts: Sequence[int]) -> None:
    """Do a job on some of ``gpus``, once so many are free, and hold them until it ends.

    ``counts`` are the numbers of GPUs with which it may run, the largest first, which has all ranks
    of its plan; with a smaller one there are fewer ranks in proportion.
    """
    with stop_flag() as flag:
        names, wanted = ",".join(gpu.name for gpu in gpus), " or ".join(map(str, counts))
        print(f"this job waits for {wanted} of the GPUs {names}", flush=True)
        held = hold_gpus(gpus, counts, flag)
        if held is None:
            return
        os.environ[VISIBLE] = ",".join(gpu.name for gpu in held)
        print(f"{VISIBLE}={os.environ[VISIBLE]}", flush=True)
        job = JobDir(Path(job_folder))
        # Before the job counts as running: that it has fewer is to be known from then on.
        job.held.write(HeldGpus(tuple(gpu.name for gpu in held)))
        job.waits.unlink(missing_ok=True)
        _train(job, flag, job.plan.required().ranks * len(held) // counts[0])


def train_as_task(job_folders: Sequence[str]) -> None:
    """Do this task's part of several jobs that share a SLURM job, on this task's GPUs."""
    with stop_flag() as flag:
        num_tasks = int(os.environ.get("SLURM_NTASKS", "1"))
        asked = JobDir(Path(job_folders[0])).plan.required().ranks
        # Where SLURM had fewer nodes for a job; what divides the ranks asked for divides shards.
        ranks = max(n for n in range(1, asked + 1) if asked % n == 0 and n <= num_tasks)
        index, rank = divmod(int(os.environ.get("SLURM_PROCID", "0")), ranks)
        if index >= len(job_folders):  # the last job of an array may have more tasks than work
            return
        _take_share(num_tasks // int(os.environ.get("SLURM_NNODES", "1")))
        job = JobDir(Path(job_folders[index]))
        if job.plan.required().programs:
            _run_programs(job, flag)
            return
        num_threads = job.plan.required().num_threads
        with _importing(num_threads):
            from hpsearch.cluster.meeting import cluster_team, join
            from hpsearch.cluster.worker import run_job

        if rank > 0:
            join(job, rank, ranks, num_threads, flag)
            return
        with cluster_team(job, ranks, num_threads, flag) as team:
            run_job(job, flag, team)


def _take_share(tasks_of_node: int) -> None:
    """Let this task see its own part of the node's GPUs."""
    devices = os.environ.get(VISIBLE)
    if devices and tasks_of_node > 1:
        task = int(os.environ.get("SLURM_LOCALID", "0"))
        os.environ[VISIBLE] = ",".join(share(devices.split(","), task, tasks_of_node))


def _train(job: JobDir, flag: StopFlag, ranks: int) -> None:
    if job.plan.required().programs:
        _run_programs(job, flag)
        return
    num_threads = job.plan.required().num_threads
    with _importing(num_threads):
        from hpsearch.cluster.meeting import local_team
        from hpsearch.cluster.worker import run_job

    with local_team(ranks, num_threads, flag, job.weights) as team:
        run_job(job, flag, team)


def _run_programs(job: JobDir, flag: StopFlag) -> None:
    # Imported here, as the trials of most studies are no programs.
    from hpsearch.cluster.program_job import run_programs

    run_programs(job, flag)


def main(arguments: Sequence[str]) -> None:
    """Be a rank of a job, or of a run, whose first rank is on this machine."""
    port, rank, size, num_threads = map(int, arguments)
    with stop_flag() as flag:
        with _importing(num_threads):
            from hpsearch.cluster.meeting import join_here

        join_here(port, rank, size, num_threads, flag)


@contextmanager
def _importing(num_threads: int) -> Iterator[None]:
    """Set up threads and memory, and collect no garbage, while the block imports torch."""
    keep_freed_memory()
    let_threads_spin()
    # Idle threads of larger pools spin on: two such jobs on two cores all but stop each other.
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(num_threads)
    gc.disable()  # imports make a million objects, which stay: see `hpsearch.cli.entry`
    try:
        yield
    finally:
        gc.enable()
    atexit.register(gc.freeze)


if __name__ == "__main__":
    main(sys.argv[1:])
