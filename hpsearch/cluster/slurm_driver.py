"""The driver as a SLURM job of one CPU, which SLURM starts again wherever it was interrupted."""

import os
import shlex
import signal
import sys
from contextlib import suppress
from pathlib import Path

from hpsearch.cluster.code_snapshot import take_snapshot
from hpsearch.cluster.detached import supervise_command
from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import SchedulerCalls, driver_options
from hpsearch.cluster.slurm_profile import SlurmProfile, setup_lines
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import UsageError

WALLTIME_SIGNAL = signal.SIGUSR1
"""tells the supervisor that its walltime ends; SIGTERM is what a user's scancel sends"""
LONGEST_WARNING = 300
"""seconds before the walltime, in which the driver leaves and SLURM takes the job back"""
LEAVE_SECONDS = 30
"""of them, after which a driver that does not leave is killed"""

# exec: SLURM sends its signals to the shell alone, so the supervisor takes its place.
_SCRIPT = """\
#!/bin/bash
{setup}
export PYTHONUNBUFFERED=1
exec {command}
"""


class SlurmDriver:
    """Submits the driver of one study."""

    def __init__(self, profile: SlurmProfile, folder: StudyDir, runs: Path) -> None:
        """Drive the study in ``folder``, which lies below ``runs``, as ``profile.driver`` says."""
        self._profile = profile
        self._folder = folder
        self._runs = runs
        self._calls = SchedulerCalls(profile.max_calls_per_minute)

    def start(self) -> str:
        """Submit the job.

        Raises:
            UsageError: if SLURM does not take it.
        """
        try:
            submit = ["sbatch", "--parsable", *self._arguments()]
            job_id = self._calls.run(submit, self._script()).strip()
        except SchedulerSilentError as error:
            raise UsageError(
                f"SLURM did not take the driver ({error}); check the profile's block driver, or "
                f"drive the study from a terminal with: hpsearch run"
            ) from error
        return f"job {job_id.partition(';')[0]}"

    def _arguments(self) -> list[str]:
        warning = min(LONGEST_WARNING, 30 * self._profile.driver.walltime_minutes)
        return [
            *driver_options(self._profile.driver),
            *(f"--job-name=hpsearch-driver-{self._folder.key}", "--requeue", "--open-mode=append"),
            "--dependency=singleton",  # a second one of this name waits until the first has ended
            f"--signal=B:{WALLTIME_SIGNAL.name.removeprefix('SIG')}@{warning}",
            f"--output={self._folder.output}",
            f"--chdir={os.getcwd()}",
        ]

    def _script(self) -> str:
        """Return what the job runs."""
        code = take_snapshot(self._folder.code).folder
        setup = "\n".join(setup_lines(self._profile, code))
        command = shlex.join(supervise_command(self._folder, self._runs))
        return _SCRIPT.format(setup=setup, command=command)


def requeue_own_job() -> bool:
    """Let SLURM start the job that this process is once more; return whether it will."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if job_id is None:
        return True
    try:
        SchedulerCalls(60).run(["scontrol", "requeue", job_id])
    except SchedulerSilentError as error:
        with suppress(OSError):  # a disk that is full
            print(f"hpsearch: {error}; asking again", file=sys.stderr)
        return False
    return True
