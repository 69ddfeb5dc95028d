"""What an executor starts in a job's process; torch is imported from here on."""

import os
from collections.abc import Sequence
from pathlib import Path

from hpsearch.cluster.signals import stop_flag
from hpsearch.cluster.study_dir import JobDir


def train(job_folder: str) -> None:
    """Train the trials of a job.

    The thread pools are sized before they exist: a pool that is larger than what a job uses keeps
    its idle threads spinning, and two such jobs on two cores all but stop each other.
    """
    # Before the imports, which take seconds: a request to stop must not be lost meanwhile.
    with stop_flag() as flag:
        num_threads = JobDir(Path(job_folder)).read().num_threads
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(num_threads)
        from hpsearch.cluster.worker import train_job

        train_job(job_folder, flag)


def train_as_task(job_folders: Sequence[str]) -> None:
    """Train one of several jobs that share a SLURM job: this task's, on this task's GPUs."""
    task = int(os.environ.get("SLURM_LOCALID", "0"))
    if task >= len(job_folders):  # the last SLURM job of an array may have more tasks than work
        return
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    num_tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    if devices and num_tasks > 1:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(share(devices.split(","), task, num_tasks))
    train(job_folders[task])


def share(devices: Sequence[str], task: int, num_tasks: int) -> list[str]:
    """Return the devices of one of several tasks: as many for each, all different."""
    each = len(devices) // num_tasks
    return list(devices[task * each : (task + 1) * each])
