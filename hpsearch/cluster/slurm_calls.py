"""Calls of SLURM's programs: few enough for the site, each with a deadline; sbatch's answers.

sbatch through submitit takes its turn here too, and has no deadline but its own.

What sbatch is asked for, what its refusals mean, and whether it would take a job.

The configuration of a site's SLURM.
"""

import subprocess
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hpsearch.cluster.executor import (
    SchedulerSilentError,
    SchedulerUnreachableError,
    SubmissionRefusedError,
)
from hpsearch.cluster.slurm_profile import DriverProfile, SlurmProfile, sbatch_parameters

CALL_SECONDS = 60.0
"""after which a program of the scheduler is given up"""
MINUTE = 60.0
IDS_PER_CALL = 500
"""on one command line"""


class SchedulerCalls:
    """Runs programs, at most so many a minute.

    Attributes:
        num_calls: how many were run.
    """

    def __init__(
        self,
        max_per_minute: int,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """Run at most ``max_per_minute`` programs in any minute; more of them wait."""
        self._max_per_minute = max_per_minute
        self._clock = clock
        self._sleep = sleep
        self._recent: deque[float] = deque()
        self.num_calls = 0

    def take_turn(self) -> None:
        """Wait until one more call is allowed, and count it."""
        while len(self._recent) == self._max_per_minute:
            wait = self._recent[0] + MINUTE - self._clock()
            if wait <= 0:
                self._recent.popleft()
            else:
                self._sleep(wait)
        self._recent.append(self._clock())
        self.num_calls += 1

    def run(self, command: Sequence[str], script: str | None = None) -> str:
        """Return what a program prints; ``script`` is what it reads.

        Raises:
            SchedulerSilentError: if it fails.
            SchedulerUnreachableError: if it is not there or takes too long.
        """
        self.take_turn()
        try:
            done = subprocess.run(
                command,
                capture_output=True,
                encoding="utf-8",
                errors="replace",
                check=True,
                timeout=CALL_SECONDS,
                input=script,
            )
        except subprocess.CalledProcessError as error:
            said = (error.stderr or "").strip()
            raise SchedulerSilentError(
                f"{command[0]} failed: {said or error.returncode}"
            ) from error
        except (subprocess.TimeoutExpired, OSError) as error:
            raise SchedulerUnreachableError(f"{command[0]} gave no answer ({error})") from error
        return done.stdout

    def run_for(self, command: Sequence[str], ids: Collection[str], option: str = "") -> str:
        """Return what a program prints of some jobs, of as many at once as a command line takes.

        The ids follow the command, or stand behind ``option`` with commas between them.

        Raises:
            SchedulerSilentError: if it failed for some; it was run for all.
        """
        every, printed, silent = sorted(ids), "", None
        for start in range(0, len(every), IDS_PER_CALL):
            some = every[start : start + IDS_PER_CALL]
            try:
                printed += self.run([*command, *([option + ",".join(some)] if option else some)])
            except SchedulerSilentError as error:
                silent = error
        if silent is not None:
            raise silent
        return printed


NO_ANSWER = (
    *("timed out", "unable to contact", "connection refused", "communication", "try again"),
    "configuration source",
)
"""words of sbatch after which it is unknown whether it submitted"""
FULL = ("submit limit", "maxsubmit", "job limit", "too many", "accounting/qos policy")
"""words of sbatch after which it may take the same job later"""
_OPTIONS = (
    *("partition", "account", "qos", "constraint", "gres", "nodes"),
    *("ntasks_per_node", "cpus_per_task", "mem", "time"),
)
"""parameters of submitit that sbatch knows by the same name"""


def trial_options(profile: SlurmProfile) -> list[str]:
    """Return sbatch's options of a job that trains trials."""
    parameters = sbatch_parameters(profile)
    signal = f"--signal=USR2@{profile.signal_delay_seconds}"
    return [*_options(parameters), signal, "--no-requeue"]


def driver_options(driver: DriverProfile) -> list[str]:
    """Return sbatch's options of the job that drives a study."""
    parameters = {
        "partition": driver.partition,
        "account": driver.account,
        "qos": driver.qos,
        "nodes": 1,
        "ntasks_per_node": 1,
        "cpus_per_task": 1,
        "mem": f"{driver.memory_gib}G",
        "time": driver.walltime_minutes,
    }
    return _options(parameters)


def try_submission(calls: SchedulerCalls, options: Sequence[str]) -> None:
    """Ask sbatch whether it would take a job; nothing is submitted.

    Raises:
        SubmissionRefusedError: if it would not.
        SchedulerSilentError: if it gave no answer.
    """
    try:
        calls.run(["sbatch", "--test-only", *options, "--wrap=true"])
    except SchedulerUnreachableError:
        raise
    except SchedulerSilentError as error:
        raise refusal(str(error)) from error


def refusal(said: str) -> SubmissionRefusedError | SchedulerSilentError:
    """Return what became of a submission by what sbatch said."""
    unknown = any(words in said.lower() for words in NO_ANSWER)
    words = " ".join(said.split())
    return SchedulerSilentError(words) if unknown else SubmissionRefusedError(words)


def may_pass(refused: SubmissionRefusedError) -> bool:
    """Return whether sbatch refused a job for what is in the queue, and not for what it asks."""
    return any(words in str(refused).lower() for words in FULL)


def _options(parameters: Mapping[str, Any]) -> list[str]:
    """Return what is set of the parameters as options."""
    return [
        f"--{key.replace('_', '-')}={parameters[key]}"
        for key in _OPTIONS
        if parameters.get(key) is not None
    ]


def read_config(calls: SchedulerCalls) -> dict[str, str]:
    """Return the configuration as ``scontrol show config`` prints it.

    Raises:
        SchedulerSilentError: if there is no answer.
    """
    return parse_config(calls.run(["scontrol", "show", "config"]))


def parse_config(printed: str) -> dict[str, str]:
    """Return the values by key."""
    pairs = (line.partition("=") for line in printed.splitlines())
    return {key.strip(): value.strip() for key, separator, value in pairs if separator}
