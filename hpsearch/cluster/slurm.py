"""Jobs on a SLURM cluster: submitit submits arrays of them, squeue tells how they are.

One job is one attempt: SLURM is told not to requeue it, since two runs of one attempt could not be
told apart. What was preempted goes on as the next attempt, in another job.

A job is found by its name, whatever became of the answer to its submission: an array is named after
the study's folder, its first job and its tasks a job, and holds jobs numbered one after another.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TypeVar

import submitit
from submitit.core.utils import FailedJobError

from hpsearch.cluster.code_snapshot import CodeSnapshot, take_snapshot
from hpsearch.cluster.executor import (
    JobStatus,
    SchedulerSilentError,
    SubmissionRefusedError,
    shared_part,
)
from hpsearch.cluster.job_entry import train_as_task
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.cluster.slurm_profile import SlurmProfile, sbatch_parameters, setup_lines
from hpsearch.cluster.slurm_states import meaning
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import DiskError, UsageError

T = TypeVar("T")

PATIENCE = 120.0
"""seconds for which an array that sbatch did not confirm may still appear in the queue"""
IDS_PER_CALL = 500
"""ids on one command line"""
NO_ANSWER = ("timed out", "unable to contact", "connection refused", "communication", "try again")
"""words of sbatch after which it is unknown whether it submitted"""
FIELDS = "%F|%K|%T|%j"
"""of squeue: array's id, index in it, state, name; names of other jobs may be anything"""


@dataclass(frozen=True)
class QueueEntry:
    """One SLURM job, an element of an array or alone."""

    id: str
    name: str
    index: int
    """in its array"""
    state: str


class SlurmExecutor:
    """Jobs of one study on a SLURM cluster."""

    patience = PATIENCE

    def __init__(
        self, profile: SlurmProfile, study: StudyDir, *, pilot_seconds: float = 0.0
    ) -> None:
        """Submit as ``profile`` says, for the study in one folder.

        A job that has trained its trials waits ``pilot_seconds`` for more.

        Raises:
            UsageError: if this machine has no SLURM.
        """
        self._profile = profile
        self._study = study
        self._calls = SchedulerCalls(profile.max_calls_per_minute)
        self._ended: dict[str, JobStatus] = {}
        """what sacct said of jobs that had left the queue"""
        self._queued: set[str] = set()
        """SLURM jobs that waited at the last look"""
        self._strays: set[str] = set()
        """SLURM jobs of this study's that nobody knew at the last look"""
        self._prefix = f"hps-{study.key}-"
        self.pilot_seconds = pilot_seconds
        self.num_threads = profile.cpus_per_task
        self.gpus_per_job = float(profile.gpus_per_task)
        self.max_batch = _max_array_size(self._calls) * profile.tasks_per_job

    @property
    def num_calls(self) -> int:
        """Return how often this executor called the scheduler."""
        return self._calls.num_calls

    # Submitting.

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        """Submit the jobs as one array."""
        tasks = self._profile.tasks_per_job
        groups = [tuple(str(job.root) for job in group) for group in _chunks(jobs, tasks)]
        self._calls.take_turn()
        executor = self._submitter(jobs)
        try:
            submitted = executor.map_array(train_as_task, groups)
        except FailedJobError as error:
            raise _refusal(str(error)) from error
        except OSError as error:
            raise DiskError(
                f"the job {jobs[0].root} cannot be submitted ({error.strerror}); free some space, "
                "then run the same command again"
            ) from error
        ids = [str(one.job_id) for one in submitted]
        return {job.name: _job_id(ids[n // tasks], n % tasks) for n, job in enumerate(jobs)}

    def _submitter(self, jobs: Sequence[JobDir]) -> submitit.SlurmExecutor:
        executor = submitit.SlurmExecutor(folder=jobs[0].root, max_num_timeout=0)
        parameters = sbatch_parameters(self._profile)
        setup = setup_lines(self._profile, self._code.folder)
        executor.update_parameters(**{**parameters, "setup": setup, "job_name": self._name(jobs)})
        return executor

    @cached_property
    def _code(self) -> CodeSnapshot:
        return take_snapshot(self._study.code)

    def _name(self, jobs: Sequence[JobDir]) -> str:
        """Return the name of an array: its first job, its tasks a SLURM job, its jobs."""
        return f"{self._prefix}{jobs[0].name}x{self._profile.tasks_per_job}n{len(jobs)}"

    # Looking.

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Ask squeue once; ask sacct too of jobs that have left the queue.

        Jobs of this study's that nobody asked about are strays, such as an array that appeared
        after it had been given up.
        """
        if not jobs:
            return {}
        queue = self._queue()
        self._queued = {entry.id for entry in queue if meaning(entry.state)[0] == "queued"}
        wanted = {job.name for job, _ in jobs}
        found = {name: status for entry in queue for name, status in self._jobs_of(entry).items()}
        self._strays = {
            entry.id
            for entry in queue
            if meaning(entry.state)[0] != "ended" and not wanted & self._jobs_of(entry).keys()
        }
        seen = {name: status for name, status in found.items() if name in wanted}
        vanished = [(job, i) for job, i in jobs if i is not None and job.name not in seen]
        return seen | self._from_accounting(vanished)

    def _queue(self) -> list[QueueEntry]:
        """Return all SLURM jobs of this study that wait, run, or ended within some minutes."""
        printed = self._calls.run(
            [
                *("squeue", "--me", "--noheader", "--array", "--states=all"),
                f"--format={FIELDS}",
            ]
        )
        lines = (line.split("|", 3) for line in printed.splitlines())
        return [
            _entry(name, array, index, state)
            for array, index, state, name in lines
            if name.startswith(self._prefix)
        ]

    def _jobs_of(self, entry: QueueEntry) -> dict[str, JobStatus]:
        """Return our jobs in a SLURM job, by name."""
        first, tasks, count = map(int, re.split("[xn]", entry.name.removeprefix(self._prefix)))
        before = entry.index * tasks
        phase, failure = meaning(entry.state)
        return {
            f"{first + before + task:05d}": JobStatus(_job_id(entry.id, task), phase, failure)
            for task in range(min(tasks, count - before))
        }

    def _from_accounting(self, jobs: Sequence[tuple[JobDir, str]]) -> dict[str, JobStatus]:
        """Return how jobs that left the queue ended; of those without an account nothing is said.

        A job that was submitted a moment ago may be in neither answer yet.
        """
        unknown = {_slurm_id(job_id) for _, job_id in jobs if job_id not in self._ended}
        states = self._accounted(sorted(unknown))
        for _, job_id in jobs:
            phase, failure = meaning(states.get(_slurm_id(job_id), ""))
            if phase == "ended":
                self._ended[job_id] = JobStatus(job_id, "ended", failure)
        return {job.name: self._ended[job_id] for job, job_id in jobs if job_id in self._ended}

    def _accounted(self, ids: Sequence[str]) -> dict[str, str]:
        try:
            printed = self._call_for(
                ["sacct", "--noheader", "--parsable2", "--allocations", "--format=JobID,State"],
                ids,
                option="--jobs=",
            )
        except SchedulerSilentError:  # a site may keep no accounts
            return {}
        rows = (line.split("|") for line in printed.splitlines())
        return {job_id: state for job_id, state in rows}

    # Ending.

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Let running jobs save and leave; those that wait are taken out of the queue.

        The signal goes to the job's first step: to a whole job of an array of which others still
        wait, scancel tries to deliver it for a minute, and fails.
        """
        ids = {_slurm_id(job_id) for _, job_id in jobs}
        self._call_for(["scancel"], sorted(ids & self._queued))
        steps = [f"{slurm_id}.0" for slurm_id in sorted(ids - self._queued)]
        with suppress(SchedulerSilentError):  # what it says if one of them has ended meanwhile
            self._call_for(["scancel", "--signal=TERM"], steps)

    def cancel_strays(self) -> None:
        """Cancel the jobs of this study's that the last look found and nobody knows."""
        self._call_for(["scancel"], sorted(self._strays))
        self._strays = set()

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End jobs; SLURM kills what has not left after its KillWait."""
        self._call_for(["scancel"], sorted({_slurm_id(job_id) for _, job_id in jobs}))

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return the file of what the job printed, in the folder of the first job of its array."""
        slurm_id, _, task = job_id.partition(":")
        index = int(slurm_id.partition("_")[2] or 0)
        first = int(job.name) - index * self._profile.tasks_per_job - int(task or 0)
        return job.study.job(f"{first:05d}").root / f"{slurm_id}_{task or 0}_log.out"

    def _call_for(self, command: Sequence[str], ids: Sequence[str], option: str = "") -> str:
        """Run a program for some ids, so many at once as a command line takes."""
        printed = []
        for some in _chunks(ids, IDS_PER_CALL):
            given = [option + ",".join(some)] if option else list(some)
            printed.append(self._calls.run([*command, *given]))
        return "".join(printed)


def _max_array_size(calls: SchedulerCalls) -> int:
    """Return how many jobs an array may hold: indices run from 0 to MaxArraySize - 1.

    Raises:
        UsageError: if this machine has no SLURM.
    """
    try:
        printed = calls.run(["scontrol", "show", "config"])
    except SchedulerSilentError as error:
        raise UsageError(
            f"SLURM does not answer here ({error}); run this on a login node of the cluster, or "
            "give the study the executor local"
        ) from error
    for line in printed.splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "MaxArraySize":
            return max(1, int(value))
    return 1


def _entry(name: str, array: str, index: str, state: str) -> QueueEntry:
    """Return a line of squeue; a job alone has no index."""
    is_alone = not index.isdigit()
    job_id = array if is_alone else f"{array}_{index}"
    return QueueEntry(job_id, name, 0 if is_alone else int(index), state)


def _job_id(slurm_id: str, task: int) -> str:
    return f"{slurm_id}:{task}" if task else slurm_id


def _slurm_id(job_id: str) -> str:
    return shared_part(job_id)


def _refusal(said: str) -> SubmissionRefusedError | SchedulerSilentError:
    """Return what became of a submission by what sbatch said."""
    unknown = any(words in said.lower() for words in NO_ANSWER)
    return SchedulerSilentError(said) if unknown else SubmissionRefusedError(said.strip())


def _chunks(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
