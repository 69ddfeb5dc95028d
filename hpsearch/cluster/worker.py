"""The worker: what runs inside a job. Trains the job's trials as one population.

It speaks with the driver through files alone and never sees the database.
"""

import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import torch

from hpsearch.cluster.failures import CODE
from hpsearch.cluster.member import Member
from hpsearch.cluster.messages import Assignment, AttemptResult
from hpsearch.cluster.population import Population
from hpsearch.cluster.signals import StopFlag, stop_flag
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import DiskError, HpsearchError
from hpsearch.monitor.places import JobPlace
from hpsearch.trainers.trainer import AnyTrainer

GLANCE_SECONDS = 0.5
"""between two looks for more trials"""


def work(job_folder: str) -> None:
    """Train the trials of a job; signals that ask to stop are heeded from here on."""
    with stop_flag() as flag:
        train_job(job_folder, flag)


def train_job(job_folder: str, flag: StopFlag) -> None:
    """Train the trials of a job until each has finished or has been stopped, or ``flag`` is set.

    A pilot then waits for more of the same shape, so that what a process pays once (imports, the
    device, compilation) is paid once for all of them. Every attempt's result is written before this
    returns; what it raises is for the job's log.
    """
    job = JobDir(Path(job_folder))
    plan = job.read()
    torch.set_num_threads(plan.num_threads)
    assignments, number, trainer = plan.assignments, 0, None
    while assignments:
        # Also when the flag is set: each attempt says how it ended.
        trainer = _train(job, assignments, flag, trainer)
        number += 1
        assignments = _next(job, number, plan.pilot_seconds, flag)


def _train(
    job: JobDir, assignments: Sequence[Assignment], flag: StopFlag, trainer: AnyTrainer | None
) -> AnyTrainer | None:
    """Train some trials, with the trainer of those before if it fits; return their trainer."""
    opened = [_open(job.study, assignment) for assignment in assignments]
    members = [m for m in opened if m is not None and m.stop_reason() is None]
    if not members:
        return trainer
    population = _begin(members, flag, job, trainer)
    try:
        population.run()
    except Exception as error:
        population.fail(error)
        raise
    return population.trainer


def _next(job: JobDir, number: int, seconds: float, flag: StopFlag) -> tuple[Assignment, ...]:
    """Return what a pilot is given within some seconds, nothing if it should leave."""
    deadline = time.monotonic() + seconds
    while seconds > 0 and not flag.is_set:
        given = job.read_next(number)
        if given is not None or time.monotonic() > deadline:
            return given or ()
        time.sleep(GLANCE_SECONDS)
    return ()


def _open(study: StudyDir, assignment: Assignment) -> Member | None:
    """Read a trial; one that cannot be read ends here, and the others go on."""
    try:
        return Member.open(study, assignment)
    except HpsearchError as error:
        print(error, flush=True)
        attempt = study.trial(assignment.trial).attempt(assignment.attempt)
        attempt.write_result(AttemptResult(assignment.token, "failed", 0, CODE, str(error), {}))
        return None


def _begin(
    members: Sequence[Member], flag: StopFlag, job: JobDir, trainer: AnyTrainer | None
) -> Population:
    place = JobPlace(job.study.root.name, job.name, job.textfile, job.traces)
    try:
        return Population(members, flag, place, lambda standing: None, trainer)
    except Exception as error:
        for member in members:
            with suppress(DiskError):  # the others may still be told
                member.fail(error, step=0)
        raise


if __name__ == "__main__":
    work(sys.argv[1])
