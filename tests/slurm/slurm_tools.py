"""What tests ask of a cluster that slurm/dev-cluster made."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

SAVE_SECONDS = 6.0
"""in which slurmctld writes down what jobs there are, which it does every five seconds; what it has
not written when it is killed, the whole cluster forgets"""
DEV_CLUSTER = Path(__file__).parents[2] / "slurm" / "dev-cluster"


@dataclass(frozen=True)
class SlurmCluster:
    """The cluster of a folder, and what tests ask of it."""

    folder: Path

    def dev(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run a command of slurm/dev-cluster."""
        command = [sys.executable, str(DEV_CLUSTER), *arguments, "--dir", str(self.folder)]
        return subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)

    def stop_controller(self) -> None:
        """Let the scheduler go away; ``dev("up")`` brings it back, with the jobs of now."""
        time.sleep(SAVE_SECONDS)
        pid = int((self.folder / "run" / "slurmctld.pid").read_text())
        os.kill(pid, signal.SIGKILL)

    def submit(self, command: str, *options: str) -> str:
        """Submit a line of shell and return the job's id; its output lies in the folder."""
        output = self.folder / "jobs"
        output.mkdir(exist_ok=True)
        return ask(
            *("sbatch", "--parsable", f"--output={output}/%j.out", *options, "--wrap", command)
        ).strip()

    def output(self, job: str) -> str:
        """Return what a job has printed."""
        return (self.folder / "jobs" / f"{job}.out").read_text()

    def state(self, job: str) -> str:
        """Return the job's state as squeue has it."""
        return ask("squeue", "--noheader", "--states=all", "--format=%T", "--jobs", job).strip()

    def wait_for_state(self, job: str, states: Iterable[str], seconds: float = 60) -> str:
        """Wait until the job has one of the states, and return it."""
        wait_until(lambda: self.state(job) in states, seconds, lambda: f"{job}: {self.state(job)}")
        return self.state(job)

    def accounted(self, job: str) -> str:
        """Return the job's state as sacct has it."""
        return ask("sacct", "-X", "-n", "-P", "--format=State", "-j", job).strip()

    def wait_until_accounted(self, job: str, state: str) -> None:
        """Wait until sacct has the job's state; it lags some seconds behind squeue."""
        wait_until(
            lambda: self.accounted(job) == state, 30, lambda: f"{job}: {self.accounted(job)}"
        )


def ask(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout


def wait_until(
    condition: Callable[[], bool], seconds: float, what: Callable[[], str], pause: float = 0.3
) -> None:
    """Wait for a condition, with a ``pause`` in seconds after each look.

    Fail with what is the case instead.
    """
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"not within {seconds} seconds; {what()}"
        time.sleep(pause)


def end_all_jobs() -> None:
    """Take waiting jobs out of the queue and kill the others: they would save first."""
    ask("scancel", "--user=root", "--state=PENDING")
    ask("scancel", "--user=root")
    ask("scancel", "--user=root", "--signal=KILL")
    wait_until(lambda: not ask("squeue", "--noheader"), 90, lambda: ask("squeue"))
