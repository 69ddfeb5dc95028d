"""Jobs as processes of this machine."""

from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import submitit

from hpsearch.cluster.child_processes import UNHEARD, blocked, changed_environment, same_code
from hpsearch.cluster.executor import JobStatus, Phase, SubmissionRefusedError
from hpsearch.cluster.job_entry import train, train_on_gpus
from hpsearch.cluster.job_processes import kill_tree, process_of
from hpsearch.cluster.machine import NO_GPUS, GpuShare
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import unwritten

LOCAL_TIMEOUT_MINUTES = 60 * 24 * 365
"""submitit ends a local job after its timeout; ours end by themselves"""


class LocalExecutor:
    """Processes that outlive what submitted them: Ctrl-C and a closed terminal don't reach them."""

    max_batch = 1
    patience = 0.0
    num_calls = 0

    def __init__(
        self,
        num_threads: int,
        *,
        ranks: int = 1,
        gpus: GpuShare = NO_GPUS,
        pilot_seconds: float = 0.0,
        withheld: Collection[str] = (),
    ) -> None:
        """Give each of a job's ranks ``num_threads``, and the job its share of ``gpus`` or none.

        Jobs do not get the environment variables ``withheld``.
        """
        self.num_threads = num_threads
        self.ranks = ranks
        self.gpus_per_job = float(gpus.per_job)
        self.max_jobs = gpus.max_jobs
        self._gpus = gpus
        self.pilot_seconds = pilot_seconds
        self._withheld = withheld
        # Python warns of a child that is forgotten before it has ended.
        self._children: list[submitit.Job[None]] = []

    def submit(self, jobs: Sequence[JobDir]) -> Mapping[str, str]:
        if self._gpus.shortage is not None:
            raise SubmissionRefusedError(self._gpus.shortage)
        return {job.name: self._start(job) for job in jobs}

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> Mapping[str, JobStatus]:
        """Return which jobs run; one that waits for GPUs that another study uses is queued."""
        seen = {}
        for job, known_id in jobs:
            pickles = job.root.glob("*_submitted.pkl")
            job_id = known_id or next((path.name.partition("_")[0] for path in pickles), None)
            if job_id is not None:
                lives = process_of(job, job_id) is not None
                phase: Phase = "queued" if job.waits.exists() else "running"
                share = self._share(job) if phase == "running" else 1.0
                seen[job.name] = JobStatus(job_id, phase if lives else "ended", share=share)
        # `done()` also collects the child's exit status; else each job would leave a zombie.
        self._children = [child for child in self._children if not child.done()]
        return seen

    def _share(self, job: JobDir) -> float:
        held = job.held.try_read() if self._gpus.fewer else None
        return 1.0 if held is None else min(1.0, len(held.names) / self._gpus.per_job)

    def cancel_strays(self) -> None:
        """Do nothing: what this machine runs was announced."""

    def interrupt(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        """Send SIGTERM, which the controllers pass on to their workers."""
        for process in _controllers(jobs):
            with suppress(psutil.NoSuchProcess):  # it has left since
                process.terminate()

    def cancel(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        for controller in _controllers(jobs):
            kill_tree(controller)

    def log(self, job: JobDir, job_id: str) -> Path:
        return job.root / f"{job_id}_0_log.out"

    def _start(self, job: JobDir) -> str:
        executor = submitit.LocalExecutor(folder=job.root)
        executor.update_parameters(timeout_min=LOCAL_TIMEOUT_MINUTES, stderr_to_stdout=True)
        folder, gpus = str(job.root), self._gpus
        try:
            with blocked(UNHEARD), changed_environment(same_code(), without=self._withheld):
                if gpus.per_job == 0:
                    # submitit lets it see no GPU.
                    child = executor.submit(train, folder)
                else:
                    job.waits.touch()
                    child = executor.submit(train_on_gpus, folder, gpus.gpus, gpus.counts)
        except OSError as error:
            raise unwritten(f"the job {job.root}", error) from error
        self._children.append(child)
        return str(child.job_id)


def _controllers(jobs: Sequence[tuple[JobDir, str]]) -> list[psutil.Process]:
    controllers = (process_of(job, job_id) for job, job_id in jobs)
    return [process for process in controllers if process is not None]
