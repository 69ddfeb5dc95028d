"""A driver that outlives the terminal: as a process of this machine, or as a job of SLURM's.

Why it tries again stands in a file, which `hpsearch status` can read while the database is away.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from hpsearch.cluster.code_snapshot import take_snapshot
from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.records import DriverRetry
from hpsearch.cluster.slurm_calls import SchedulerCalls
from hpsearch.cluster.slurm_profile import SlurmProfile, driver_options, setup_lines
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import DiskError, UsageError

WALLTIME_SIGNAL = signal.SIGUSR1
"""tells the supervisor that its walltime ends; SIGTERM is what a user's scancel sends"""
LONGEST_WARNING = 300
"""seconds before the walltime, in which the driver leaves and SLURM takes the job back"""
LEAVE_SECONDS = 30  # of them, after which a driver that does not leave is killed

# exec: SLURM sends its signals to the shell alone, so the supervisor takes its place.
_SCRIPT = """\
#!/bin/bash
{setup}
export PYTHONUNBUFFERED=1
exec {command}
"""


def start_process(folder: StudyDir, runs: Path) -> str:
    """Start driver and supervisor as processes of this machine, in a session of their own.

    What they print goes to `StudyDir.output`. Return what was started, such as ``process 1234``.
    """
    folder.root.mkdir(parents=True, exist_ok=True)
    with folder.output.open("ab") as output:
        process = subprocess.Popen(
            supervise_command(folder, runs),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
    # No process waits for it; Python would warn of it at exit.
    process.returncode = 0
    return f"process {process.pid}"


def submit_driver(profile: SlurmProfile, folder: StudyDir, runs: Path) -> str:
    """Submit driver and supervisor as a job of one CPU, which SLURM starts again if interrupted.

    Return what was submitted, such as ``job 1234``; raises UsageError if SLURM does not take it.
    """
    setup = "\n".join(setup_lines(profile, take_snapshot(folder.code)))
    script = _SCRIPT.format(setup=setup, command=shlex.join(supervise_command(folder, runs)))
    warning = min(LONGEST_WARNING, 30 * profile.driver.walltime_minutes)
    command = [
        *("sbatch", "--parsable"),
        *driver_options(profile.driver),
        *(f"--job-name=hpsearch-driver-{folder.key}", "--requeue", "--open-mode=append"),
        "--dependency=singleton",  # a second one of this name waits until the first has ended
        f"--signal=B:{WALLTIME_SIGNAL.name.removeprefix('SIG')}@{warning}",
        *(f"--output={folder.output}", f"--chdir={os.getcwd()}"),
    ]
    try:
        answer = SchedulerCalls(profile.max_calls_per_minute).run(command, script)
    except SchedulerSilentError as error:
        raise UsageError(
            f"SLURM did not take the driver ({error}); check the profile's block driver, or "
            "drive the study from a terminal with: hpsearch run"
        ) from error
    return f"job {answer.strip().partition(';')[0]}"


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


def drive_command(folder: StudyDir, runs: Path) -> Sequence[str]:
    return [sys.executable, "-m", "hpsearch.cli", *_drive(folder, runs)]


def supervise_command(folder: StudyDir, runs: Path) -> Sequence[str]:
    """Return the command line of a supervisor, which runs `drive_command`."""
    return [sys.executable, "-m", "hpsearch.cluster.supervisor", *_drive(folder, runs)]


def _drive(folder: StudyDir, runs: Path) -> Sequence[str]:
    return ["drive", folder.root.name, "--runs", str(runs.absolute())]


def note_retry(folder: StudyDir, reason: str) -> None:
    """Note that the driver could not get on just now; where that is not possible, go without.

    A folder that was removed, or whose file system is away, is not made again.
    """
    if not os.path.isdir(folder.root):
        return
    now, before = time.time(), folder.driver_retry.try_read()
    retry = DriverRetry(now if before is None else before.since, now, reason)
    with suppress(DiskError):
        folder.driver_retry.write(retry)


def forget_retry(folder: StudyDir) -> None:
    with suppress(OSError):
        folder.driver_retry.path.unlink(missing_ok=True)
