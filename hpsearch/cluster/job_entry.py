"""What an executor starts in a job's process; torch is imported from here on."""

import atexit
import gc
import os
from collections.abc import Sequence
from pathlib import Path

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.machine import VISIBLE, Gpu, hold_gpus
from hpsearch.cluster.study_dir import JobDir


def train(job_folder: str) -> None:
    # Before the imports, which take seconds: a request to stop must not be lost meanwhile.
    with stop_flag() as flag:
        _train(job_folder, flag)


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
        JobDir(Path(job_folder)).waits.unlink(missing_ok=True)
        _train(job_folder, flag)


def _train(job_folder: str, flag: StopFlag) -> None:
    """Train, with threads for no more than the job may use, sized before their pools exist."""
    job = JobDir(Path(job_folder))
    # Idle threads of larger pools spin on: two such jobs on two cores all but stop each other.
    num_threads = str(job.plan.required().num_threads)
    os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = num_threads
    gc.disable()  # imports make a million objects, which stay: see `hpsearch.cli.entry`
    from hpsearch.cluster.worker import run_job

    gc.enable()
    atexit.register(gc.freeze)
    run_job(job, flag)


def train_as_task(job_folders: Sequence[str]) -> None:
    """Train one of several jobs that share a SLURM job: this task's, on this task's GPUs."""
    task = int(os.environ.get("SLURM_LOCALID", "0"))
    if task >= len(job_folders):  # the last SLURM job of an array may have more tasks than work
        return
    devices = os.environ.get(VISIBLE)
    num_tasks = int(os.environ.get("SLURM_NTASKS", "1"))
    if devices and num_tasks > 1:
        os.environ[VISIBLE] = ",".join(share(devices.split(","), task, num_tasks))
    train(job_folders[task])


def share(devices: Sequence[str], task: int, num_tasks: int) -> list[str]:
    """Return the devices of one of several tasks: equally many for each task, all different."""
    count = len(devices) // num_tasks
    return list(devices[task * count : (task + 1) * count])
