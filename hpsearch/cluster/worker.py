"""The worker: what runs inside a job. Trains the job's trials as one population, or plays a match.

It speaks with the driver through files alone and never sees the database.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from hpsearch.cluster.failures import StopFlag, stop_flag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.match_job import play_match
from hpsearch.cluster.member import Member, TrialQueue
from hpsearch.cluster.population import Population
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import DiskError
from hpsearch.monitor.snapshot import JobPlace
from hpsearch.trainers.trainer import AnyTrainer

GLANCE_SECONDS = 0.5
"""between two looks for more trials"""


def work(job_folder: str) -> None:
    """Train the trials of a job; signals that ask to stop are heeded from here on."""
    with stop_flag() as flag:
        train_job(job_folder, flag)


def train_job(job_folder: str, flag: StopFlag) -> None:
    """Train the trials of a job until each has finished or has been stopped, or ``flag`` is set.

    A job may be for a match instead. A pilot then waits for more trials of the same shape, or a
    match, so that what a process pays once (imports, the device, compilation) is paid once for all
    of them. Every attempt's result is written before this returns, but those of trials that were
    given and have not begun; what it raises is for the job's log.
    """
    job = JobDir(Path(job_folder))
    plan = job.plan.required()
    torch.set_num_threads(plan.num_threads)
    supply = TrialQueue(job, plan)
    heartbeats = Heartbeats(job.heartbeat, plan.heartbeat_seconds)
    trainer = None
    while True:
        # Also when the flag is set: each of the first attempts says how it ended.
        if members := supply.take():
            refills = supply if plan.refills else None
            population = _begin(members, flag, job, trainer, refills, heartbeats)
            _run(population)
            trainer = population.trainer
        elif (match := supply.take_match()) is not None:
            play_match(job.study, match, flag)
        else:
            return
        _wait(supply, plan.pilot_seconds, flag)
        if flag.is_set:
            return


def _run(population: Population) -> None:
    try:
        population.run()
    except Exception as error:
        population.fail(error)
        raise


def _wait(supply: TrialQueue, seconds: float, flag: StopFlag) -> None:
    """Wait until there is something to do, for some seconds at most."""
    deadline = time.monotonic() + seconds
    supply.look()
    while not (_is_waiting_over(supply) or flag.is_set) and time.monotonic() < deadline:
        time.sleep(GLANCE_SECONDS)
        supply.look()


def _is_waiting_over(supply: TrialQueue) -> bool:
    return bool(supply.waiting) or supply.has_match or supply.is_over


def _begin(
    members: Sequence[Member],
    flag: StopFlag,
    job: JobDir,
    trainer: AnyTrainer | None,
    supply: TrialQueue | None,
    heartbeats: Heartbeats,
) -> Population:
    place = JobPlace(job.study.root.name, job.name, job.textfile, job.traces)
    try:
        return Population(members, flag, place, lambda standing: None, trainer, supply, heartbeats)
    except Exception as error:
        for member in members:
            with suppress(DiskError):  # the others may still be told
                member.fail(error, step=0)
        raise


if __name__ == "__main__":
    work(sys.argv[1])
