"""Jobs as processes of this machine."""

import os
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import submitit

from hpsearch.cluster.signals import stop_flag
from hpsearch.cluster.trial_dir import JobDir
from hpsearch.errors import DiskError

LOCAL_TIMEOUT_MINUTES = 60 * 24 * 365
"""submitit ends a local job after its timeout; ours end by themselves"""


class LocalExecutor:
    """Jobs as processes of this machine, through submitit's local executor.

    They outlive the process that submitted them: Ctrl-C and a closed terminal don't reach them.
    """

    def __init__(self) -> None:
        """Begin with no job of this process."""
        # Python warns of a child that is forgotten before it has ended.
        self._children: list[submitit.Job[None]] = []

    def submit(self, job: JobDir) -> str:
        """Start the job's controller process and return its process id."""
        executor = submitit.LocalExecutor(folder=job.root)
        executor.update_parameters(timeout_min=LOCAL_TIMEOUT_MINUTES, stderr_to_stdout=True)
        try:
            with _deaf_children():
                child = executor.submit(_work, str(job.root))
        except OSError as error:
            raise DiskError(
                f"the job {job.root} cannot be submitted ({error.strerror}); free some space, "
                "then run the same command again"
            ) from error
        self._children.append(child)
        return str(child.job_id)

    def find(self, job: JobDir) -> str | None:
        """Return the id of a job that submitit has recorded in its folder."""
        for path in job.root.glob("*_submitted.pkl"):
            return path.name.partition("_")[0]
        return None

    def alive(self, jobs: Sequence[tuple[JobDir, str]]) -> frozenset[str]:
        """Return the ids whose controller process still runs."""
        running = frozenset(job_id for job, job_id in jobs if _controller(job, job_id) is not None)
        # To ask a child whether it is done is to bury it; else each job would leave a zombie.
        self._children = [child for child in self._children if not child.done()]
        return running

    def interrupt(self, job: JobDir, job_id: str) -> None:
        """Send SIGTERM, which the controller passes on to the worker."""
        controller = _controller(job, job_id)
        if controller is not None:
            with suppress(psutil.NoSuchProcess):  # it has left since
                controller.terminate()


def _work(job_folder: str) -> None:
    """Run the worker; torch is imported inside the job alone.

    The thread pools are sized before they exist: a pool that is larger than what a job uses keeps
    its idle threads spinning, and two such jobs on two cores all but stop each other.
    """
    # Before the imports, which take seconds: a request to stop must not be lost meanwhile.
    with stop_flag() as flag:
        _, num_threads = JobDir(Path(job_folder)).read()
        os.environ["OMP_NUM_THREADS"] = os.environ["NUMBA_NUM_THREADS"] = str(num_threads)
        from hpsearch.cluster.worker import train_job

        train_job(job_folder, flag)


def _controller(job: JobDir, job_id: str) -> psutil.Process | None:
    """Return the running controller of a job; a process id may have passed to a stranger."""
    try:
        process = psutil.Process(int(job_id))
        if process.status() == psutil.STATUS_ZOMBIE:
            return None
        return process if _names(process, job.root) else None
    except psutil.Error:  # gone, or another user's by now
        return None


def _names(process: psutil.Process, folder: Path) -> bool:
    return any(Path(part) == folder.absolute() for part in process.cmdline())


@contextmanager
def _deaf_children() -> Iterator[None]:
    """Let children that are started in the block never hear Ctrl-C or a hang-up.

    A blocked signal stays blocked in a new process; here it is delivered after the block.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
