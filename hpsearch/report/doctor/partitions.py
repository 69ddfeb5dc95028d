"""The partitions of a cluster, and whether what a profile asks of them can be had."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.errors import unknown_name
from hpsearch.report.doctor.finding import Finding

_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>[\d:]+)")


@dataclass(frozen=True)
class Partition:
    """One partition."""

    name: str
    is_up: bool
    max_minutes: float | None
    """of walltime; none for no limit"""


def read_partitions(calls: SchedulerCalls) -> list[Partition]:
    """Return all partitions.

    Raises:
        SchedulerSilentError: if there is no answer.
    """
    return parse_partitions(calls.run(["sinfo", "--noheader", "--format=%R|%a|%l"]))


def parse_partitions(printed: str) -> list[Partition]:
    """Return the partitions of sinfo's lines: name, availability, limit of walltime."""
    rows = dict.fromkeys(tuple(line.split("|")) for line in printed.splitlines() if "|" in line)
    return [Partition(name, up == "up", minutes(limit)) for name, up, limit in rows]


def minutes(limit: str) -> float | None:
    """Return a time of SLURM's, such as 1-12:00:00 or 30:00, in minutes; None for infinite."""
    match = _LIMIT.fullmatch(limit.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:  # days-hours, and perhaps minutes and seconds
        hours, mins, seconds = (*parts, 0, 0)[:3]
        return int(match["days"]) * 1440 + hours * 60 + mins + seconds / 60
    hours, mins, seconds = (0, 0, *parts)[-3:] if len(parts) > 1 else (0, parts[0], 0)
    return hours * 60 + mins + seconds / 60


def check_partitions(
    wanted: str | None, walltime_minutes: int, partitions: Sequence[Partition], whose: str
) -> Iterator[Finding]:
    """Look at the partitions that a profile names for ``whose`` jobs, comma between them."""
    name = f"partition of {whose}"
    if wanted is None:
        yield Finding(name, "ok", "the site's default")
        return
    known = {partition.name: partition for partition in partitions}
    for one in wanted.split(","):
        if one not in known:
            yield Finding(name, "error", f"{unknown_name('partition', one, known)}")
        else:
            yield _fits(name, known[one], walltime_minutes)


def _fits(name: str, partition: Partition, walltime_minutes: int) -> Finding:
    limit = partition.max_minutes
    if limit is not None and walltime_minutes > limit:
        return Finding(
            name,
            "error",
            f"{partition.name} ends jobs after {limit:g} minutes, but walltime_minutes is "
            f"{walltime_minutes}; set it to {limit:g} or less, or name another partition",
        )
    if not partition.is_up:
        said = f"{partition.name} is down, jobs will wait; ask the site, or name another partition"
        return Finding(name, "warning", said)
    return Finding(name, "ok", f"{partition.name} takes jobs of {walltime_minutes} minutes")
