"""Jobs on a SLURM cluster: submitit submits arrays of them.

One job is one attempt: SLURM is told not to requeue it, since two runs of one attempt could not be
told apart. What was preempted goes on as the next attempt, in another job.
"""

import math
import time
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import submitit
from submitit.core.utils import FailedJobError, FailedSubmissionError

from hpsearch.cluster import slurm_calls
from hpsearch.cluster.child_processes import changed_environment
from hpsearch.cluster.code_snapshot import take_snapshot
from hpsearch.cluster.executor import (
    JobStatus,
    SchedulerSilentError,
    SubmissionRefusedError,
    shared_part,
)
from hpsearch.cluster.job_entry import train_as_task
from hpsearch.cluster.slurm_profile import SlurmProfile, sbatch_parameters, setup_lines
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import SchedulerUnavailableError, unwritten

PATIENCE = 300.0
"""seconds from its announcement for which an array that sbatch did not confirm may still appear in
the queue; writing the files of a thousand jobs may take the first minute"""

OF_DRIVER = ("SLURM_NTASKS", "SLURM_NPROCS")
"""variables that jobs must not inherit from a driver that is a SLURM job itself: srun would read
the driver's number of tasks as theirs"""

REST_SECONDS = 300.0
"""after a refusal, in which nothing is submitted by that profile if there are others"""


@dataclass(frozen=True)
class Allowance:
    """What a study may ask for by a profile."""

    profile: SlurmProfile
    jobs: int | None = None
    """at once, waiting ones included; None: what the driver submits"""


class SlurmExecutor:
    patience = PATIENCE

    def __init__(
        self,
        allowances: Sequence[Allowance],
        study: StudyDir,
        *,
        ranks: int = 1,
        min_ranks: int | None = None,
        pilot_seconds: float = 0.0,
        withheld: Collection[str] = (),
    ) -> None:
        """Submit as profiles say, without the environment variables ``withheld``.

        A job goes by the first of ``allowances`` that has room for it. Raises
        SchedulerUnavailableError if this machine has no SLURM that answers.
        """
        self._allowances = allowances
        self._taken = Counter[int]()
        """by profile's index, jobs that waited or ran at the last look, or were submitted since"""
        self._rests_until: dict[int, float] = {}  # by the index of a profile that refused jobs
        self._refused: set[int] = set()  # indices of profiles that refused jobs, one after another
        self._most = [math.inf] * len(allowances)
        """by profile, jobs that one submission may hold; halved by refusals"""
        self._next = 0
        """index of the profile by which the next jobs go; the same from one look to a submission"""
        profiles = [allowance.profile for allowance in allowances]
        self._study = study
        self._calls = slurm_calls.SchedulerCalls(min(own.max_calls_per_minute for own in profiles))
        self._queue = slurm_calls.SlurmQueue(self._calls, study, profiles[0].nodes)
        self._waiting: set[str] = set()  # SLURM jobs that waited at the last look
        self._strays: set[str] = set()
        """SLURM jobs of this study's that the driver did not know at the last look"""
        self.pilot_seconds = pilot_seconds
        self._withheld = withheld
        self.ranks = ranks
        self._min_ranks = min_ranks
        try:
            config = slurm_calls.read_config(self._calls)
        except SchedulerSilentError as error:
            raise SchedulerUnavailableError(
                f"SLURM does not answer here ({error}); run this on a login node of the cluster, "
                "or give the study the executor local"
            ) from error
        # The indices of an array run from 0 to MaxArraySize - 1.
        self._longest_array = max(1, int(config.get("MaxArraySize", "1")))

    @property
    def num_calls(self) -> int:
        return self._calls.num_calls

    # The profile by which the next jobs are submitted.

    def _choose(self) -> None:
        """Let the next jobs go by the first profile that has room and does not rest.

        If all that have room rest, by the one that has rested longest, as any may take jobs again.
        """
        with_room = [n for n in range(len(self._allowances)) if self._room(n) > 0] or [0]
        self._next = min(with_room, key=self._end_of_rest)

    def _room(self, index: int) -> float:
        jobs = self._allowances[index].jobs
        return math.inf if jobs is None else jobs - self._taken[index]

    def _rests(self, index: int) -> bool:
        return self._end_of_rest(index) > -math.inf

    def _end_of_rest(self, index: int) -> float:
        """Return until when a profile rests, -inf if it does not."""
        end = self._rests_until.get(index, -math.inf)
        return end if time.monotonic() < end else -math.inf

    @property
    def max_jobs(self) -> int | None:
        """Return how many there can be while some profiles rest; None where there is but one."""
        total = 0
        for index, allowance in enumerate(self._allowances):
            if allowance.jobs is None:
                return None
            total += self._taken[index] if self._rests(index) else allowance.jobs
        return total

    @property
    def max_batch(self) -> int:
        longest = self._longest_array * self._allowances[self._next].profile.tasks_per_job
        return max(1, int(min(longest, self._room(self._next), self._most[self._next])))

    @property
    def num_threads(self) -> int:
        return self._allowances[self._next].profile.cpus_per_task

    @property
    def gpus_per_job(self) -> float:
        return float(self._allowances[self._next].profile.gpus_per_task * self.ranks)

    # Submitting.

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        index = self._next
        self._taken[index] += len(jobs)  # also where there is no answer
        try:
            ids = self._submit(jobs, index)
            self._most[index] *= 2
            self._rests_until.pop(index, None)
            self._refused.clear()
        except SubmissionRefusedError as error:
            self._taken[index] -= len(jobs)
            self._most[index] = max(1, len(jobs) // 2)
            self._rests_until[index] = time.monotonic() + REST_SECONDS
            self._refused.add(index)
            self._choose()
            error.has_alternative = self._next not in self._refused
            if not error.has_alternative:
                self._refused.clear()  # all have been asked, and are asked again after a pause
            raise
        finally:
            self._choose()
        return ids

    def _submit(self, jobs: Sequence[JobDir], index: int) -> Mapping[str, str]:
        profile = self._allowances[index].profile
        tasks = profile.tasks_per_job
        folders = [str(job.root) for job in jobs]
        groups = [tuple(folders[n : n + tasks]) for n in range(0, len(folders), tasks)]
        self._calls.take_turn()
        executor = submitit.SlurmExecutor(folder=jobs[0].root, max_num_timeout=0)
        by = (index, profile.nodes) if len(self._allowances) > 1 else None
        name = self._queue.array_name(jobs[0].name, tasks, len(jobs), by)
        setup = setup_lines(profile, self._code)
        parameters = sbatch_parameters(profile, self.ranks, self._min_ranks)
        parameters |= {"setup": setup, "job_name": name}
        executor.update_parameters(**parameters)
        try:
            given = {key for key, value in parameters.items() if value} | profile.sbatch.keys()
            overruling = slurm_calls.overruling(given)
            with changed_environment({}, without=(*self._withheld, *OF_DRIVER, *overruling)):
                submitted = executor.map_array(train_as_task, groups)
        except FailedJobError as error:
            raise slurm_calls.refusal(str(error)) from error
        except FailedSubmissionError as error:  # sbatch said something, but no id
            raise SchedulerSilentError(str(error)) from error
        except OSError as error:
            raise unwritten(f"the job {jobs[0].root}", error) from error
        ids = [str(job.job_id) for job in submitted]
        task_id = slurm_calls.task_id
        return {job.name: task_id(ids[n // tasks], n % tasks) for n, job in enumerate(jobs)}

    @cached_property
    def _code(self) -> Path:
        return take_snapshot(self._study.code)

    # Looking.

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Ask squeue once, and sacct of jobs that left it; those not asked about are strays."""
        if not jobs:
            self._taken.clear()
            self._choose()
            return {}
        listed, wanted = self._queue.jobs(), {job.name: job_id for job, job_id in jobs}
        self._waiting = {own.id for own in listed if own.phase == "queued"}
        self._strays, self._taken = set(), Counter()
        seen: dict[str, JobStatus] = {}
        for own in listed:
            asked = wanted.keys() & own.jobs.keys()
            is_ours = bool(asked) and not self._cannot_run(own, [wanted[name] for name in asked])
            if own.phase != "ended":
                self._taken[own.profile] += len(own.jobs)
                if not is_ours:
                    self._strays.add(own.id)
            if is_ours:
                seen |= {name: own.jobs[name] for name in asked}
        self._choose()
        vanished = [(job, i) for job, i in jobs if i is not None and job.name not in seen]
        return seen | self._queue.ends(vanished)

    def _cannot_run(self, own: slurm_calls.SlurmJob, known: Sequence[str | None]) -> bool:
        """Return whether a job lacks what it is to do, which submitit names by the answer's ids.

        Without an answer, or killed before that, it leaves a job that waits for a minute and fails.
        """
        if any(job_id is not None for job_id in known):
            return False
        return not (self._study.job(own.first).root / f"{own.id}_submitted.pkl").exists()

    # Ending.

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Let running jobs save and leave; those that wait are taken out of the queue."""
        ids = {shared_part(i) for _, i in jobs}
        self._calls.run_for(["scancel"], ids & self._waiting)
        # The first step gets it: scancel fails for a whole job while others of its array wait.
        steps = [f"{slurm_id}.0" for slurm_id in ids - self._waiting]
        with suppress(SchedulerSilentError):  # scancel fails if a job has ended meanwhile
            self._calls.run_for(["scancel", "--signal=TERM"], steps)

    def cancel_strays(self) -> None:
        self._calls.run_for(["scancel"], self._strays)
        self._strays = set()

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """End jobs; SLURM kills what has not left after its KillWait."""
        self._calls.run_for(["scancel"], {shared_part(i) for _, i in jobs})

    def log(self, job: JobDir, job_id: str) -> Path:
        """Return the file of what the job printed, in the folder of the first job of its array."""
        slurm_id, _, task = job_id.partition(":")
        index, first_rank = int(slurm_id.partition("_")[2] or 0), int(task or 0) * self.ranks
        files: list[Path] = []
        for allowance in self._allowances:  # once it has left the queue, any may have been its own
            first = int(job.name) - index * allowance.profile.tasks_per_job - int(task or 0)
            folder = job.study.job(f"{first:05d}").root
            files.append(folder / f"{slurm_id}_{first_rank}_log.out")
        return next((file for file in files if file.exists()), files[0])
