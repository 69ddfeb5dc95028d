"""Jobs on a SLURM cluster: submitit submits arrays of them.

One job is one attempt: SLURM is told not to requeue it, since two runs of one attempt could not be
told apart. What was preempted goes on as the next attempt, in another job.
"""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
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


class SlurmExecutor:
    patience = PATIENCE
    max_jobs: int | None = None

    def __init__(
        self,
        profile: SlurmProfile,
        study: StudyDir,
        *,
        ranks: int = 1,
        min_ranks: int | None = None,
        pilot_seconds: float = 0.0,
        withheld: Collection[str] = (),
    ) -> None:
        """Submit as ``profile`` says, without the environment variables ``withheld``.

        Raises SchedulerUnavailableError if this machine has no SLURM that answers.
        """
        self._profile = profile
        self._study = study
        self._calls = slurm_calls.SchedulerCalls(profile.max_calls_per_minute)
        self._queue = slurm_calls.SlurmQueue(self._calls, study, profile.nodes)
        self._waiting: set[str] = set()  # SLURM jobs that waited at the last look
        self._strays: set[str] = set()
        """SLURM jobs of this study's that the driver did not know at the last look"""
        self.pilot_seconds = pilot_seconds
        self._withheld = withheld
        self.num_threads = profile.cpus_per_task
        self.ranks = ranks
        self._min_ranks = min_ranks
        self.gpus_per_job = float(profile.gpus_per_task * ranks)
        try:
            config = slurm_calls.read_config(self._calls)
        except SchedulerSilentError as error:
            raise SchedulerUnavailableError(
                f"SLURM does not answer here ({error}); run this on a login node of the cluster, "
                "or give the study the executor local"
            ) from error
        # The indices of an array run from 0 to MaxArraySize - 1.
        self.max_batch = max(1, int(config.get("MaxArraySize", "1"))) * profile.tasks_per_job

    @property
    def num_calls(self) -> int:
        return self._calls.num_calls

    # Submitting.

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        tasks = self._profile.tasks_per_job
        folders = [str(job.root) for job in jobs]
        groups = [tuple(folders[n : n + tasks]) for n in range(0, len(folders), tasks)]
        self._calls.take_turn()
        executor = submitit.SlurmExecutor(folder=jobs[0].root, max_num_timeout=0)
        name = self._queue.array_name(jobs[0].name, tasks, len(jobs))
        setup = setup_lines(self._profile, self._code)
        parameters = sbatch_parameters(self._profile, self.ranks, self._min_ranks)
        parameters |= {"setup": setup, "job_name": name}
        executor.update_parameters(**parameters)
        try:
            with changed_environment({}, without=(*self._withheld, *OF_DRIVER)):
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
            return {}
        listed, wanted = self._queue.jobs(), {job.name for job, _ in jobs}
        self._waiting = {slurm_id for slurm_id, phase, _ in listed if phase == "queued"}
        self._strays = set()
        seen: dict[str, JobStatus] = {}
        for slurm_id, phase, statuses in listed:
            if phase != "ended" and not wanted & statuses.keys():
                self._strays.add(slurm_id)
            seen |= {name: status for name, status in statuses.items() if name in wanted}
        vanished = [(job, i) for job, i in jobs if i is not None and job.name not in seen]
        return seen | self._queue.ends(vanished)

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
        index = int(slurm_id.partition("_")[2] or 0)
        first = int(job.name) - index * self._profile.tasks_per_job - int(task or 0)
        first_rank = int(task or 0) * self.ranks
        return job.study.job(f"{first:05d}").root / f"{slurm_id}_{first_rank}_log.out"
