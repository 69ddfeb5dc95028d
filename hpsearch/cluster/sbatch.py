"""What sbatch is asked for, what its refusals mean, and whether it would take a job."""

from collections.abc import Mapping, Sequence
from typing import Any

from hpsearch.cluster.executor import (
    SchedulerSilentError,
    SchedulerUnreachableError,
    SubmissionRefusedError,
)
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.cluster.slurm_profile import DriverProfile, SlurmProfile, sbatch_parameters

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
