"""What an executor is: it submits jobs, looks them up, asks them to end, and decides nothing."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from hpsearch.cluster.study_dir import JobDir

Phase = Literal["queued", "running", "ended"]


@dataclass(frozen=True)
class JobStatus:
    id: str  # the executor's own name of the job
    phase: Phase
    failure: str | None = None
    """kind of failure, where the executor knows why the job ended; see `failures`"""
    ended_at: float | None = None
    """seconds since the epoch, where the executor knows when the job ended"""
    share: float = 1.0
    """of the GPUs that a job asks for, what it has while it runs: less where it began with fewer"""


def shared_part(job_id: str) -> str:
    """Return what a job's id shares with those of the jobs that end together with it."""
    return job_id.partition(":")[0]


class SchedulerSilentError(Exception):
    """The executor gave no answer; whether it did what it was asked to is unknown."""


class SchedulerUnreachableError(SchedulerSilentError):
    """The executor's programs are missing, or took too long."""


class SubmissionRefusedError(Exception):
    """The executor took none of the jobs, and will not take them later by itself."""

    has_alternative = False
    """whether it would ask for the next ones in another way, which has not been tried yet"""


class Executor(Protocol):
    """What the driver needs of a place where jobs run.

    All but `log` raise SchedulerSilentError if there is no answer; then it is unknown whether it
    did what it was asked to.
    """

    patience: float
    """seconds after its announcement for which a job that cannot be found may still appear"""
    ranks: int  # processes of a job that train together
    pilot_seconds: float
    """for which a job that has trained its trials waits for more; 0 if it leaves"""

    @property
    def max_jobs(self) -> int | None:
        """Return how many can run at once; None where those that have to wait are queued."""
        ...

    # Of the jobs that are submitted next; they change by a look or a submission alone.

    @property
    def max_batch(self) -> int:
        """Return how many one submission may hold."""
        ...

    @property
    def num_threads(self) -> int:
        """Return how many a rank of a job may use."""
        ...

    @property
    def gpus_per_job(self) -> float:
        """Return how many a running job occupies, unless it begins with fewer."""
        ...

    @property
    def num_calls(self) -> int: ...

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Start jobs, numbered one after another, by one call; return their ids by name.

        Raises SubmissionRefusedError if none was taken, DiskError if a file cannot be written.
        """
        ...

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Return what is known of jobs, by name, by one question for all of them.

        A job is given with its id, or with None where it is unknown whether it was submitted. A
        job that is not in the answer does not run and never will, unless it was announced within
        the last `patience` seconds.
        """
        ...

    def cancel_strays(self) -> None:
        """End the jobs of this study that the last look found unasked, such as late ones."""
        ...

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Ask running jobs to save their trials and leave; those that have left are left alone."""
        ...

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End jobs; what they may still write before they end counts for nothing."""
        ...

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return the file of what the job printed; it may not be there."""
        ...
