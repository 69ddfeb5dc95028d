"""Jobs of PBS, LSF, Flux and other schedulers, by the PSI/J library.

PSI/J submits, cancels and lists jobs by the scheduler's own programs, and knows them by their ids
alone: a job is found by the id that is noted in its folder, and whether it has begun by a file that
it makes there. A job that was submitted by a driver which died before it could note the id is not
found; if it begins later, it sees that its attempts have been replaced, and leaves.
"""

import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from subprocess import CalledProcessError, SubprocessError, run
from typing import Any, Final

from hpsearch.cluster.child_processes import UNHEARD, blocked, changed_environment, same_code
from hpsearch.cluster.executor import (
    JobStatus,
    Phase,
    SchedulerSilentError,
    SubmissionRefusedError,
)
from hpsearch.cluster.job_processes import kill_tree, process_of
from hpsearch.cluster.records import SubmittedJob
from hpsearch.cluster.slurm_calls import refusal
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import SchedulerUnavailableError, UsageError, unwritten
from hpsearch.files import write_text

PATIENCE_SECONDS: Final = 30.0
"""in which a scheduler may not know yet of what it has taken"""
ANSWER_SECONDS: Final = 60.0

SUBMITS: Final[Mapping[str, str]] = {
    "cobalt": "qsub",
    "lsf": "bsub",
    "pbs": "qsub",
    "pbs_classic": "qsub",
    "slurm": "sbatch",
}
"""The program by which PSI/J submits to a scheduler; the others need none."""

UNFINISHED: Final[Mapping[str, Sequence[str]]] = {
    "slurm": (
        *("squeue", "--me", "--noheader", "--array", "--format=%i"),
        "--states=PENDING,RUNNING,SUSPENDED,COMPLETING",
    ),
    "lsf": ("bjobs", "-noheader", "-o", "jobid"),
}
"""What lists the ids of a user's jobs that wait or run, by scheduler. PSI/J's own list has ended
jobs, too; and it reads no job's state once one has failed for a reason that it does not know.
"""
LOCAL: Final = "local"  # PSI/J's name for processes of this machine
REMEDY: Final = (
    "run this on a login node of its cluster, or give the study another scheduler or executor"
)
NONE_UNFINISHED: Final = "No unfinished job found"  # says bjobs, and may fail


class PsijExecutor:
    max_batch = 1
    patience = PATIENCE_SECONDS
    ranks = 1
    max_jobs: int | None = None

    def __init__(
        self,
        scheduler: str,
        *,
        num_threads: int,
        gpus: int,
        walltime: timedelta,
        queue: str | None,
        account: str | None,
        custom: Mapping[str, str],
        setup: Sequence[str],
        pilot_seconds: float,
        withheld: Collection[str],
    ) -> None:
        """Submit jobs of ``num_threads`` cores and ``gpus`` to a scheduler, named as PSI/J does.

        ``custom`` are further options of a job by PSI/J's names, ``setup`` lines of the shell that
        run before it. Raises UsageError without the package, SchedulerUnavailableError without
        the scheduler's programs.
        """
        self._psij, self._batch = _library()
        self._executor: Any = _scheduler(self._psij, scheduler)
        self.num_threads = num_threads
        self.gpus_per_job = float(gpus)
        self.pilot_seconds = pilot_seconds
        self.num_calls = 0
        self._resources: Any = self._psij.ResourceSpecV1(
            process_count=1,
            cpu_cores_per_process=num_threads,
            gpu_cores_per_process=gpus or None,
        )
        self._attributes: Any = self._psij.JobAttributes(
            duration=walltime, queue_name=queue, account=account, custom_attributes={**custom}
        )
        self._setup = setup
        self._withheld = withheld

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        return {job.name: self._submit(job) for job in jobs}

    def _submit(self, job: JobDir) -> str:
        own = self._psij.Job(self._spec(job))
        self.num_calls += 1
        try:
            with blocked(UNHEARD), changed_environment(same_code(), without=self._withheld):
                self._executor.submit(own)
        except self._psij.InvalidJobException as error:
            raise SubmissionRefusedError(str(error)) from error
        except self._psij.SubmitException as error:
            # Of a program that failed; after one that did not, the job may be there.
            if isinstance(error.__context__, CalledProcessError):
                raise refusal(str(error)) from error
            raise self._silent(error, str(error)) from error
        except (SubprocessError, OSError) as error:
            absent = _absent_program(self._executor.name, error)
            if absent is not None:  # the program was there when the driver began
                raise SubmissionRefusedError(absent) from error
            raise self._silent(error, str(error)) from error
        job_id = str(own.native_id)
        job.submitted.write(SubmittedJob(job_id, time.time()))
        return job_id

    def _spec(self, job: JobDir) -> Any:
        setup = None
        if self._setup:
            setup = job.setup
            try:
                write_text(setup, "\n".join([*self._setup, ""]))
            except OSError as error:
                raise unwritten(setup, error) from error
        log = str(job.log)
        return self._psij.JobSpec(
            executable=sys.executable,
            arguments=["-m", "hpsearch.cluster.psij_job", str(job.root)],
            directory=str(Path.cwd()),
            name=f"{job.study.root.name}-{job.name}",
            stdout_path=log,
            stderr_path=log,
            resources=self._resources,
            attributes=self._attributes,
            pre_launch=None if setup is None else str(setup),
        )

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        known = [(job, job.submitted.try_read()) for job, _ in jobs]
        submitted = [(job, own) for job, own in known if own is not None]
        if not submitted:
            return {}
        alive = self._alive([(job, own.id) for job, own in submitted])
        return {
            job.name: JobStatus(own.id, _phase(job, own, is_alive=own.id in alive))
            for job, own in submitted
        }

    def _alive(self, jobs: Sequence[tuple[JobDir, str]]) -> set[str]:
        """Return the ids of jobs that wait or run, those of ``jobs`` at least."""
        self.num_calls += 1
        if self._executor.name == LOCAL:
            return {job_id for job, job_id in jobs if process_of(job, job_id) is not None}
        if self._executor.name in UNFINISHED:
            return _unfinished(self._executor.name)
        try:
            if not isinstance(self._executor, self._batch):
                return {str(job_id) for job_id in self._executor.list()}
            command = self._executor.get_status_command([job_id for _, job_id in jobs])
            done = run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
            said = done.stdout or done.stderr
            states = self._executor.parse_status_output(done.returncode, said)
        except Exception as error:  # whatever PSI/J raises where it does not know what was said
            raise self._silent(error, f"{type(error).__name__}: {error}") from error
        return {str(job_id) for job_id, status in states.items() if not status.state.final}

    def _silent(self, error: Exception, words: str) -> SchedulerSilentError:
        absent = _absent_program(self._executor.name, error)
        return SchedulerSilentError(absent or " ".join(words.split()))

    def cancel_strays(self) -> None:
        """Do nothing: a job whose id is not known sees by itself that it is not wanted."""

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        for job, _ in jobs:
            job.is_to_leave.touch()
        self.cancel([(job, job_id) for job, job_id in jobs if not job.started.exists()])

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Let the scheduler end those jobs that it still has."""
        if self._executor.name == LOCAL:  # PSI/J would log errors of processes that just left
            for process in (process_of(job, job_id) for job, job_id in jobs):
                if process is not None:
                    kill_tree(process)
            return
        alive = self._alive(jobs) if jobs else set()
        for job_id in (job_id for _, job_id in jobs if job_id in alive):
            self.num_calls += 1
            own = self._psij.Job()
            try:
                self._executor.attach(own, job_id)
                self._executor.cancel(own)
            except (self._psij.SubmitException, SubprocessError, OSError) as error:
                raise self._silent(error, str(error)) from error

    def log(self, job: JobDir, job_id: str) -> Path:
        return job.log


def _library() -> tuple[Any, Any]:
    """Return PSI/J, and what its executors of batch schedulers derive from."""
    try:
        import psij
        from psij.executors.batch.batch_scheduler_executor import BatchSchedulerExecutor
    except ImportError as error:
        raise UsageError(
            "the executor psij needs its package: pip install 'hpsearch[psij]'"
        ) from error
    return psij, BatchSchedulerExecutor


def _scheduler(psij: Any, name: str) -> Any:
    """Return PSI/J's executor of a scheduler."""
    listing = UNFINISHED.get(name, ())
    for program in (SUBMITS.get(name), *listing[:1]):
        if program is not None and shutil.which(program) is None:
            raise SchedulerUnavailableError(_absent(name, program))
    try:
        return psij.JobExecutor.get_instance(name)
    except ValueError as error:
        if name != "flux":
            raise
        raise UsageError(
            "the scheduler flux needs Flux's Python bindings, and this Python cannot import flux; "
            "begin hpsearch with a Python that can, or give the study another scheduler or executor"
        ) from error


def check_answers(scheduler: str) -> None:
    """Raise SchedulerUnavailableError if the scheduler does not answer, where we know to ask."""
    if scheduler in UNFINISHED:
        try:
            _unfinished(scheduler)
        except SchedulerSilentError as error:
            raise SchedulerUnavailableError(
                f"the scheduler {scheduler} does not answer ({error}); try again later, or {REMEDY}"
            ) from error


def _unfinished(scheduler: str) -> set[str]:
    """Return the ids of a user's jobs that wait or run."""
    command = UNFINISHED[scheduler]
    try:
        done = run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    except (SubprocessError, OSError) as error:
        absent = _absent_program(scheduler, error)
        raise SchedulerSilentError(absent or f"{command[0]} gave no answer ({error})") from error
    if done.returncode and NONE_UNFINISHED not in done.stderr:
        said = " ".join((done.stderr or done.stdout).split()) or f"exit code {done.returncode}"
        raise SchedulerSilentError(f"{command[0]} failed: {said}")
    return set(done.stdout.split())


def _absent_program(scheduler: str, error: Exception) -> str | None:
    """Return a sentence on a program that could not be run as it is not there, if that is it."""
    if isinstance(error, FileNotFoundError) and "/" not in str(error.filename):
        return _absent(scheduler, str(error.filename))
    return None


def _absent(scheduler: str, program: str) -> str:
    return f"the scheduler {scheduler} needs the program {program}, which is not here; {REMEDY}"


def _phase(job: JobDir, submitted: SubmittedJob, *, is_alive: bool) -> Phase:
    has_started = job.started.exists()
    if is_alive:
        return "running" if has_started else "queued"
    is_new = time.time() - submitted.at < PATIENCE_SECONDS
    return "queued" if is_new and not has_started else "ended"
