"""The configuration of a site's SLURM."""

from hpsearch.cluster.scheduler_calls import SchedulerCalls


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
