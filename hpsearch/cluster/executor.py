"""What an executor is: it submits jobs, looks at them, asks them to leave, and decides nothing."""

from collections.abc import Sequence
from typing import Protocol

from hpsearch.cluster.trial_dir import JobDir


class Executor(Protocol):
    """What the driver needs of a place where jobs run."""

    def submit(self, job: JobDir) -> str:
        """Start the job and return its id.

        Raises:
            DiskError: if its files cannot be written.
        """
        ...

    def find(self, job: JobDir) -> str | None:
        """Return the id of a job that was announced, None if it never reached the executor."""
        ...

    def alive(self, jobs: Sequence[tuple[JobDir, str]]) -> frozenset[str]:
        """Return the ids of those jobs that wait or run, by one look for all of them."""
        ...

    def interrupt(self, job: JobDir, job_id: str) -> None:
        """Ask the job to save its trials and leave; nothing happens if it has left."""
        ...
