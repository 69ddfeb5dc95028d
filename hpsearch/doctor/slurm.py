"""Checks of SLURM: how the site has set it up, its partitions, whether sbatch takes the jobs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpsearch.cluster.executor import SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.slurm_calls import SchedulerCalls, try_submission
from hpsearch.doctor.finding import Finding
from hpsearch.errors import unknown_name

LEAST_JOB_AGE = 60
"""seconds for which a job should be listed after its end: the driver looks every half minute"""
SHORT_KILL_WAIT = 10  # seconds between SIGTERM and SIGKILL in which a job hardly saves


def check_config(config: Mapping[str, str], num_jobs: int | None) -> Iterator[Finding]:
    size, count = _number(config, "MaxArraySize"), _number(config, "MaxJobCount")
    wait, age = _number(config, "KillWait"), _number(config, "MinJobAge")
    yield _judged(
        "array size",
        size is not None and size > 1,
        f"MaxArraySize {size}; longer arrays are divided",
        "the site takes no job arrays (MaxArraySize), so each job is a call of sbatch; ask for "
        "arrays if jobs start slowly",
    )
    yield _judged(
        "job count",
        count is None or num_jobs is None or num_jobs <= count,
        f"MaxJobCount {'unknown' if count is None else count}",
        f"executor.jobs is {num_jobs}, but the site holds {count} jobs (MaxJobCount); the others "
        "will be refused for a while",
    )
    yield _preemption(config)
    yield _judged(
        "KillWait",
        wait is None or wait >= SHORT_KILL_WAIT,
        "unknown" if wait is None else f"{wait} s",
        f"a job has {wait} s from SIGTERM to SIGKILL (KillWait), too few to save; set "
        "signal_delay_seconds high",
    )
    yield _judged(
        "MinJobAge",
        age is None or age >= LEAST_JOB_AGE,
        "unknown" if age is None else f"{age} s",
        f"a job is listed for {age} s after its end (MinJobAge), and is gone before it is looked "
        f"at; ask the site for {LEAST_JOB_AGE} s or more, or set poll_seconds below it",
    )
    requeue = "requeues" if _number(config, "JobRequeue") else "does not requeue"
    yield Finding("requeue", "ok", f"the site {requeue} jobs; ours ask not to be, and go on anew")


def _judged(name: str, is_fine: bool, note: str, warning: str) -> Finding:
    return Finding(name, "ok", note) if is_fine else Finding(name, "warning", warning)


def check_accounting(calls: SchedulerCalls) -> Finding:
    """Look whether sacct answers, by which the end of a job that left the queue is known."""
    try:
        calls.run(["sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID"])
    except SchedulerSilentError as error:
        return Finding(
            "accounting",
            "warning",
            f"{error}; why a job ended is then known only while squeue lists it, so some failures "
            "will be called lost",
        )
    return Finding("accounting", "ok", "sacct answers")


def _preemption(config: Mapping[str, str]) -> Finding:
    mode = config.get("PreemptMode", "OFF")
    if mode == "OFF":
        return Finding("preemption", "ok", "PreemptMode OFF, no job makes way for another")
    if "SUSPEND" in mode:
        note = f"PreemptMode {mode}: a suspended job gives no sign of life and may be replaced"
        return Finding("preemption", "warning", f"{note}; use a partition that is not suspended")
    if "preempt_send_user_signal" not in config.get("SlurmctldParameters", ""):
        return Finding(
            "preemption",
            "warning",
            f"PreemptMode {mode} without preempt_send_user_signal in SlurmctldParameters: a "
            "preempted job gets SIGTERM alone and has GraceTime and KillWait to save; ask the site "
            "for it, or set checkpoint.interval low",
        )
    return Finding("preemption", "ok", f"PreemptMode {mode}, preempted jobs are told to save")


def _number(config: Mapping[str, str], key: str) -> int | None:
    match = re.match(r"\d+", config.get(key, ""))
    return int(match[0]) if match else None


_LIMIT = re.compile(r"(?:(?P<days>\d+)-)?(?P<clock>[\d:]+)")


@dataclass(frozen=True)
class Partition:
    name: str
    is_up: bool
    max_minutes: float | None  # of walltime; none for no limit


def read_partitions(calls: SchedulerCalls) -> list[Partition]:
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
    for word in wanted.split(","):
        if word not in known:
            yield Finding(name, "error", f"{unknown_name('partition', word, known)}")
        else:
            yield _fits(name, known[word], walltime_minutes)


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
        note = f"{partition.name} is down, jobs will wait; ask the site, or name another partition"
        return Finding(name, "warning", note)
    return Finding(name, "ok", f"{partition.name} takes jobs of {walltime_minutes} minutes")


def check_submission(calls: SchedulerCalls, options: Sequence[str], whose: str) -> Finding:
    name = f"submission of {whose}"
    try:
        try_submission(calls, options)
    except SubmissionRefusedError as error:
        return Finding(name, "error", f"{error}; change the profile, or ask the site")
    return Finding(name, "ok", f"sbatch takes {' '.join(options)}")
