"""Runs a driver without a terminal, and starts it again after a failure that may pass.

    python -m hpsearch.cluster.supervisor drive STUDY --runs RUNS

runs as a process of this machine, or as a job of SLURM's. It decides from exit codes alone. Why a
driver is tried again stands in a file, which `hpsearch status` reads while the database is away.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType

from hpsearch import errors
from hpsearch.cluster.child_processes import same_code
from hpsearch.cluster.code_snapshot import take_snapshot
from hpsearch.cluster.executor import SchedulerSilentError, SchedulerUnreachableError
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.records import DriverRetry
from hpsearch.cluster.slurm_calls import SchedulerCalls, refusal
from hpsearch.cluster.slurm_profile import SlurmProfile, driver_options, setup_lines
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.files import open_file

WALLTIME_SIGNAL = signal.SIGUSR1
"""tells the supervisor that its walltime ends; SIGTERM is what a user's scancel sends"""
SUPERVISOR = "hpsearch.cluster.supervisor"
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
    """Start driver and supervisor in a session of their own; return such as ``process 1234``."""
    folder.root.mkdir(parents=True, exist_ok=True)
    with folder.output.open("ab") as output:
        process = subprocess.Popen(
            _command(SUPERVISOR, folder, runs),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=os.environ | same_code() | {"PYTHONUNBUFFERED": "1"},
        )
    # No process waits for it; Python would warn of it at exit.
    process.returncode = 0
    return f"process {process.pid}"


def submit_driver(profiles: Mapping[str, SlurmProfile], folder: StudyDir, runs: Path) -> str:
    """Submit driver and supervisor as a job of one CPU, which SLURM starts again if interrupted.

    It goes by the first of the profiles, by their files, that SLURM does not refuse. Return what
    was submitted, such as ``job 1234``; raises UsageError if SLURM does not take it.
    """
    said = []
    for file, profile in profiles.items():
        command, script = _driver_job(profile, folder, runs)
        try:
            answer = SchedulerCalls(profile.max_calls_per_minute).run(command, script)
        except SchedulerSilentError as error:
            said.append(f"by {file}: {error}")
            is_unknown = isinstance(refusal(str(error)), SchedulerSilentError)
            if is_unknown or isinstance(error, SchedulerUnreachableError):
                break  # another one might be a second driver
        else:
            return f"job {answer.strip().partition(';')[0]}"
    raise errors.UsageError(
        f"SLURM did not take the driver ({'; '.join(said)}); check the block driver there, or "
        "drive the study from a terminal with: hpsearch run"
    )


def _driver_job(profile: SlurmProfile, folder: StudyDir, runs: Path) -> tuple[Sequence[str], str]:
    """Return the call of sbatch, and the script that it reads."""
    setup = "\n".join(setup_lines(profile, take_snapshot(folder.code)))
    script = _SCRIPT.format(setup=setup, command=shlex.join(_command(SUPERVISOR, folder, runs)))
    warning = min(LONGEST_WARNING, 30 * profile.driver.walltime_minutes)
    command = [
        *("sbatch", "--parsable"),
        *driver_options(profile.driver),
        *(f"--job-name=hpsearch-driver-{folder.key}", "--requeue", "--open-mode=append"),
        "--dependency=singleton",  # a second one of this name waits until the first has ended
        f"--signal=B:{WALLTIME_SIGNAL.name.removeprefix('SIG')}@{warning}",
        *(f"--output={folder.output}", f"--chdir={os.getcwd()}"),
    ]
    return command, script


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


def _command(module: str, folder: StudyDir, runs: Path) -> Sequence[str]:
    drive = ["drive", folder.root.name, "--runs", str(runs.absolute())]
    return [sys.executable, "-m", module, *drive]


def note_retry(folder: StudyDir, reason: str) -> None:
    """Note that the driver could not get on just now, where that is possible."""
    if not os.path.isdir(folder.root):  # removed, or its file system is away: it is not made again
        return
    now, before = time.time(), folder.driver_retry.try_read()
    retry = DriverRetry(now if before is None else before.since, now, reason)
    with suppress(errors.DiskError):
        folder.driver_retry.write(retry)


def forget_retry(folder: StudyDir) -> None:
    with suppress(OSError):
        folder.driver_retry.path.unlink(missing_ok=True)


FINAL = frozenset(
    {0, errors.ConflictError.exit_code, errors.StudyFailedError.exit_code, errors.INTERRUPTED}
)
"""exit codes that the same driver would end with again, or that a user wanted"""
DOUBTFUL = frozenset(
    {errors.UsageError.exit_code, errors.ConfigError.exit_code, errors.CorruptError.exit_code}
)
"""the same, unless the study's folder is missing: then its file system may be away"""
MISSING_SECONDS = 24 * 3600.0  # after which a folder that is missing has been removed
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # seconds between two drivers, doubled each time
STEADY_SECONDS = 20.0
"""after which a driver got on, since it begins within a few, and the next pause is the shortest"""
TAIL_BYTES = 4096  # of what a driver printed, in which its last sentence is looked for


class Supervisor:
    def __init__(self, folder: StudyDir, command: Sequence[str]) -> None:
        self._folder = folder
        self._command = command
        self._flag = StopFlag()
        self._driver: subprocess.Popen[bytes] | None = None

    def run(self) -> int:
        """Drive until the end is final, or a signal asks to stop; return the exit code."""
        for number in (signal.SIGTERM, signal.SIGINT, WALLTIME_SIGNAL):
            signal.signal(number, self._stop)
        signal.signal(signal.SIGALRM, self._kill)
        pause, well_at = FIRST_PAUSE, time.monotonic()
        while True:
            began, printed = time.monotonic(), _size(self._folder.output)
            code = self._drive()
            if self._flag.is_set or self._is_final(code, began - well_at):
                break
            if time.monotonic() - began > STEADY_SECONDS:
                pause, well_at = FIRST_PAUSE, time.monotonic()
            reason = _reason(code, self._folder.output, printed)
            note_retry(self._folder, reason)  # for `hpsearch status`
            with suppress(OSError):  # a full disk
                print(f"hpsearch: {reason}; it is started again in {pause:.0f} seconds", flush=True)
            self._flag.rest(pause)
            if self._flag.is_set:
                code = errors.INTERRUPTED
                break
            pause = min(2 * pause, LONGEST_PAUSE)
        if self._flag.signal == WALLTIME_SIGNAL and code not in FINAL - {errors.INTERRUPTED}:
            self._flag = StopFlag()
            # Until SLURM does it: if it does not answer now, it ends this job no sooner.
            while not self._flag.is_set and not requeue_own_job():
                self._flag.rest(FIRST_PAUSE)
        return code

    def _drive(self) -> int:
        """Return the exit code of one driver, negative for a signal."""
        try:
            self._driver = subprocess.Popen(self._command)
        except OSError:  # no memory, or the file system of the interpreter is away
            return errors.DiskError.exit_code
        if self._flag.is_set:  # asked since the last look
            self._stop_driver()
        code = self._driver.wait()
        signal.alarm(0)
        self._driver = None
        return errors.INTERRUPTED if self._flag.is_set and code < 0 else code

    def _is_final(self, code: int, seconds: float) -> bool:
        """Return whether no other driver is started, ``seconds`` after the last one got on."""
        is_there = _size(self._folder.spec) > 0
        return code in FINAL or (code in DOUBTFUL and (is_there or seconds > MISSING_SECONDS))

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._flag.set(number, frame)
        self._stop_driver()

    def _stop_driver(self) -> None:
        """Ask the driver to leave; one that hangs is killed, since any round may die."""
        if self._driver is not None:
            self._driver.terminate()
            signal.alarm(LEAVE_SECONDS)

    def _kill(self, number: int, frame: FrameType | None) -> None:
        if self._driver is not None:
            self._driver.kill()


def _reason(code: int, output: Path, printed: int) -> str:
    """Return why a driver ended: what it said last, beyond ``printed`` bytes, or its exit code."""
    if code < 0:
        return f"the driver was killed by signal {-code}"
    reason = f"the driver ended with code {code}"
    with suppress(errors.CorruptError, OSError), open_file(output) as file:
        file.seek(max(printed, _size(output) - TAIL_BYTES))
        for line in file.read(TAIL_BYTES).decode(errors="replace").splitlines():
            if line.startswith("hpsearch: "):
                reason = line.removeprefix("hpsearch: ")
    return reason


def _size(path: Path) -> int:
    with suppress(OSError):
        return path.stat().st_size
    return 0


def main(arguments: Sequence[str]) -> int:
    _, name, _, runs = arguments
    os.umask(0o077)
    folder = StudyDir(Path(runs) / name)
    return Supervisor(folder, _command("hpsearch.cli", folder, Path(runs))).run()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
