"""An executor whose jobs run on a simulated cluster, for tests of the driver and its benchmarks.

The cluster is in `simulated_cluster`, what its jobs do in `simulated_job`; here are the calls of
the scheduler and what goes wrong with them. They cost virtual time, stay without an answer whether
or not they had an effect, are refused, and tell what was true a moment ago, or the same job twice.
`tests/contract/test_executors.py` holds it against the executors of this machine.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from hpsearch.cluster.executor import JobStatus, SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.simulated_cluster import SimulatedCluster, Task, Work
from hpsearch.cluster.simulated_job import Course, SimulatedJob
from hpsearch.cluster.slurm_states import meaning
from hpsearch.cluster.study_dir import JobDir

_ORDER = ("queued", "running", "ended")


@dataclass(frozen=True)
class CallFaults:
    """What goes wrong with calls of the scheduler; shares of the calls, and seconds."""

    slow: float = 0.0
    """that take up to `slow_seconds`"""
    slow_seconds: float = 20.0
    lost: float = 0.0
    """that get no answer; half of them have an effect all the same"""
    late_seconds: float = 60.0
    """within which jobs of such a submission appear"""
    refused: float = 0.0
    """submissions that are refused"""
    stale: float = 0.0
    """looks that tell what the look before told, without what was submitted since"""
    repeated: float = 0.0
    """looks that tell every job twice, once as it was at the look before"""


class SimulatedExecutor:
    """Jobs of one study on a simulated cluster."""

    max_jobs: int | None = None

    def __init__(
        self,
        cluster: SimulatedCluster,
        course: Course,
        *,
        seed: int = 0,
        faults: CallFaults | None = None,
        max_batch: int = 1000,
        patience: float = 120.0,
        gpus_per_job: int = 1,
        pilot_seconds: float = 0.0,
    ) -> None:
        """Submit to ``cluster`` jobs whose trials take the given course."""
        self.max_batch = max_batch
        self.patience = patience
        self.num_threads = 1
        self._strays: list[Task] = []
        self.pilot_seconds = pilot_seconds
        self.gpus_per_job = float(gpus_per_job)
        self.num_calls = 0
        self._cluster = cluster
        self._course = course
        self._faults = faults or CallFaults()
        self._random = Random(f"{seed}/calls")
        self._by_name: dict[str, Task] = {}
        self._before: dict[str, JobStatus] = {}
        """what was true at the last look"""

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Put the jobs into the queue by one call."""
        is_lost = self._call()
        if self._happens(self._faults.refused):
            raise SubmissionRefusedError("the limit of jobs of this user is reached")
        if is_lost:
            if self._happens(0.5):
                late = self._random.uniform(0.0, self._faults.late_seconds)
                self._cluster.later(late, lambda: self._enter(jobs))
            raise SchedulerSilentError("sbatch gave no answer")
        self._enter(jobs)
        return {job.name: self._by_name[job.name].id for job in jobs}

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Ask once for all jobs."""
        if not jobs:
            return {}
        if self._call():
            raise SchedulerSilentError("squeue gave no answer")
        wanted = {job.name for job, _ in jobs}
        before, self._before = self._before, self._statuses(wanted)
        if self._happens(self._faults.stale):
            return {name: status for name, status in before.items() if name in wanted}
        self._strays = [task for task in self._cluster.live.values() if task.name not in wanted]
        answers = [self._before, before] if self._happens(self._faults.repeated) else [self._before]
        return _furthest(
            (name, status)
            for answer in answers
            for name, status in answer.items()
            if name in wanted
        )

    def cancel_strays(self) -> None:
        """End the jobs that nobody had asked about."""
        for task in self._strays:
            self._cluster.cancel(task)
        self._strays = []

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Take those that wait out of the queue, then let running jobs save and leave."""
        for task in sorted(self._reached(jobs), key=lambda task: task.state != "PENDING"):
            if task.is_live:
                self._cluster.terminate(task)

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End the jobs at once."""
        for task in self._reached(jobs):
            self._cluster.cancel(task)

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return the name of a file that is never written."""
        return job.root / f"{job_id}_0_log.out"

    def _enter(self, jobs: Sequence[JobDir]) -> None:
        works = [self._work(job) for job in jobs]
        names = [job.name for job in jobs]
        ids = self._cluster.submit(names, works, int(self.gpus_per_job))
        for name, job_id in zip(names, ids, strict=True):
            self._by_name[name] = self._cluster.tasks[job_id]

    def _work(self, job: JobDir) -> Work:
        """Return what runs in a job."""
        return SimulatedJob(job, self._course)

    def _statuses(self, names: set[str]) -> dict[str, JobStatus]:
        known = (self._by_name[name] for name in sorted(names) if name in self._by_name)
        return {task.name: JobStatus(task.id, *meaning(task.state)) for task in known}

    def _reached(self, jobs: Sequence[tuple[JobDir, str]]) -> Iterator[Task]:
        """Yield the jobs that a call reaches; a lost one may reach them all the same."""
        if not jobs:
            return
        is_lost = self._call()
        if not is_lost or self._happens(0.5):
            yield from (self._by_name[job.name] for job, _ in jobs if job.name in self._by_name)
        if is_lost:
            raise SchedulerSilentError("scancel gave no answer")

    def _call(self) -> bool:
        """Count a call, let it take its time, and return whether its answer is lost."""
        self.num_calls += 1
        if self._happens(self._faults.slow):
            self._cluster.advance(self._random.uniform(0.0, self._faults.slow_seconds))
        return self._happens(self._faults.lost)

    def _happens(self, share: float) -> bool:
        return share > 0 and self._random.random() < share


def _furthest(rows: Iterator[tuple[str, JobStatus]]) -> dict[str, JobStatus]:
    """Return one status a job, the furthest of those that are told of it."""
    found: dict[str, JobStatus] = {}
    for name, status in rows:
        known = found.get(name)
        if known is None or _ORDER.index(known.phase) < _ORDER.index(status.phase):
            found[name] = status
    return found
