"""The driver as a SLURM job of one CPU, which SLURM starts again wherever it was interrupted."""

import os
import shlex
import sys
from pathlib import Path

from hpsearch.cluster.code_snapshot import take_snapshot
from hpsearch.cluster.detached import drive_command
from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.sbatch import driver_options
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.cluster.slurm_profile import SlurmProfile, setup_lines
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, UsageError

WALLTIME_SIGNAL = "USR1"
"""tells the driver that its walltime ends; SIGTERM is what a user's scancel sends"""
WARNING_SECONDS = 60
"""before the walltime"""


_SCRIPT = """\
#!/bin/bash
{setup}
export PYTHONUNBUFFERED=1
while :; do
    {command} &
    driver=$!
    trap 'kill -USR1 $driver' USR1
    trap 'kill -TERM $driver' TERM
    wait $driver; code=$?
    while kill -0 $driver 2>/dev/null; do wait $driver; code=$?; done
    [ $code -eq 137 ] || exit $code
    sleep 5
done
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
        """Submit the job unless it is there.

        Raises:
            ConflictError: if a job of this name waits or runs.
            UsageError: if SLURM does not take it.
        """
        name = f"hpsearch-driver-{self._folder.key}"
        listed = ["squeue", "--me", "--noheader", f"--name={name}"]
        try:
            waiting = self._calls.run([*listed, "--format=%i"]).split()
            if waiting:
                raise ConflictError(
                    f"the driver of {self._folder.root.name} is in the queue already, as job "
                    f"{waiting[0]}; end it with: scancel {waiting[0]}"
                )
            submit = ["sbatch", "--parsable", *self._arguments(name)]
            job_id = self._calls.run(submit, self._script()).strip()
        except SchedulerSilentError as error:
            raise UsageError(
                f"SLURM did not take the driver ({error}); check the profile's block driver, or "
                f"drive the study from a terminal with: hpsearch run"
            ) from error
        return f"job {job_id.partition(';')[0]}"

    def _arguments(self, name: str) -> list[str]:
        return [
            *driver_options(self._profile.driver),
            *(f"--job-name={name}", "--requeue", "--open-mode=append"),
            f"--signal=B:{WALLTIME_SIGNAL}@{WARNING_SECONDS}",
            f"--output={self._folder.output}",
            f"--chdir={os.getcwd()}",
        ]

    def _script(self) -> str:
        """Return what the job runs: the driver, and again wherever it was killed.

        The shell passes on the signals that SLURM sends to it alone.
        """
        code = take_snapshot(self._folder.code).folder
        setup = "\n".join(setup_lines(self._profile, code))
        command = shlex.join(drive_command(self._folder, self._runs))
        return _SCRIPT.format(setup=setup, command=command)


def requeue_own_job() -> None:
    """Let SLURM start the job that this process is once more."""
    job_id = os.environ.get("SLURM_JOB_ID")
    if job_id is None:
        return
    try:
        SchedulerCalls(60).run(["scontrol", "requeue", job_id])
    except SchedulerSilentError as error:
        print(f"hpsearch: {error}; start the driver again with: hpsearch resume", file=sys.stderr)
