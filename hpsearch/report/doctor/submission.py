"""Whether sbatch would take the jobs of a study: it is asked, without submitting."""

from collections.abc import Mapping
from typing import Any

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.cluster.slurm_profile import DriverProfile, SlurmProfile, sbatch_parameters
from hpsearch.report.doctor.finding import Finding

_OPTIONS = (
    *("partition", "account", "qos", "constraint", "gres", "gpus_per_node", "nodes"),
    *("ntasks_per_node", "cpus_per_task", "gpus_per_task", "mem", "time"),
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


def check_submission(calls: SchedulerCalls, options: list[str], whose: str) -> Finding:
    """Ask sbatch whether it would take a job."""
    name = f"submission of {whose}"
    command = ["sbatch", "--test-only", *options, "--wrap=true"]
    try:
        calls.run(command)
    except SchedulerSilentError as error:
        said = " ".join(str(error).split())
        return Finding(name, "error", f"{said}; change the profile, or ask the site")
    return Finding(name, "ok", f"sbatch takes {' '.join(options)}")


def _options(parameters: Mapping[str, Any]) -> list[str]:
    """Return what is set of the parameters as options."""
    return [
        f"--{key.replace('_', '-')}={parameters[key]}"
        for key in _OPTIONS
        if parameters.get(key) is not None
    ]
