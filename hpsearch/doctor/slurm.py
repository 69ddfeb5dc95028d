"""Checks of SLURM: how the site has set it up, its partitions, whether sbatch takes the jobs."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from hpsearch.cluster.executor import SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.slurm_calls import SchedulerCalls, try_submission
from hpsearch.cluster.slurm_profile import DriverProfile, SlurmProfile
from hpsearch.doctor.finding import Finding, error, ok, warning
from hpsearch.errors import unknown_name

LEAST_JOB_AGE = 60  # seconds for which a job should be listed after its end
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
        f"the study asks for {num_jobs} jobs at once, but the site holds {count} jobs "
        "(MaxJobCount); the others will be refused for a while",
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
    yield ok(f"the site {requeue} jobs; ours ask not to be, and go on anew", "requeue")


def _judged(name: str, is_fine: bool, note: str, problem: str) -> Finding:
    return ok(note, name) if is_fine else warning(problem, name)


def check_accounting(calls: SchedulerCalls) -> Finding:
    """Look whether sacct answers, by which the end of a job that left the queue is known."""
    try:
        calls.run(["sacct", "--noheader", "--allocations", "--starttime=now", "--format=JobID"])
    except SchedulerSilentError as fault:
        return warning(
            f"{fault}; why a job ended is then known only while squeue lists it, so some failures "
            "will be called lost",
            "accounting",
        )
    return ok("sacct answers", "accounting")


def _preemption(config: Mapping[str, str]) -> Finding:
    mode, name = config.get("PreemptMode", "OFF"), "preemption"
    if mode == "OFF":
        return ok("PreemptMode OFF, no job makes way for another", name)
    if "SUSPEND" in mode:
        note = f"PreemptMode {mode}: a suspended job gives no heartbeat and may be replaced"
        return warning(f"{note}; use a partition that is not suspended", name)
    return _judged(
        name,
        "preempt_send_user_signal" in config.get("SlurmctldParameters", ""),
        f"PreemptMode {mode}, preempted jobs are told to save",
        f"PreemptMode {mode} without preempt_send_user_signal in SlurmctldParameters: a preempted "
        "job gets SIGTERM alone and has GraceTime and KillWait to save; ask the site for it, or "
        "set checkpoint.interval low",
    )


def _number(config: Mapping[str, str], key: str) -> int | None:
    match = re.match(r"\d+", config.get(key, ""))
    return int(match[0]) if match else None


@dataclass(frozen=True)
class Partition:
    name: str
    is_up: bool
    max_minutes: float | None  # of walltime; none for no limit


def read_partitions(calls: SchedulerCalls) -> list[Partition]:
    printed = calls.run(["sinfo", "--noheader", "--format=%R|%a|%l"])
    rows = dict.fromkeys(tuple(line.split("|")) for line in printed.splitlines() if "|" in line)
    return [Partition(name, up == "up", minutes(limit)) for name, up, limit in rows]


def minutes(limit: str) -> float | None:
    """Return a time of SLURM's, such as 1-12:00:00 or 30:00, in minutes; None for infinite."""
    match = re.fullmatch(r"(?:(?P<days>\d+)-)?(?P<clock>[\d:]+)", limit.strip())
    if match is None:
        return None
    parts = [int(part) for part in match["clock"].split(":")]
    if match["days"] is not None:  # days-hours, and perhaps minutes and seconds
        hours, mins, seconds = (*parts, 0, 0)[:3]
    else:
        hours, mins, seconds = (0, 0, *parts)[-3:] if len(parts) > 1 else (0, parts[0], 0)
    return int(match["days"] or 0) * 1440 + hours * 60 + mins + seconds / 60


def check_partitions(
    whose: str, profile: SlurmProfile | DriverProfile, partitions: Sequence[Partition]
) -> Iterator[Finding]:
    name, walltime = f"partition of {whose}", profile.walltime_minutes
    if profile.partition is None:
        yield ok("the site's default", name)
        return
    known = {partition.name: partition for partition in partitions}
    for word in profile.partition.split(","):
        limit = known[word].max_minutes if word in known else None
        if word not in known:
            yield error(unknown_name("partition", word, known), name)
        elif limit is not None and walltime > limit:
            note = f"{word} ends jobs after {limit:g} minutes, but walltime_minutes is {walltime}"
            yield error(f"{note}; set it to {limit:g} or less, or name another partition", name)
        elif not known[word].is_up:
            note = f"{word} is down, jobs will wait; ask the site, or name another partition"
            yield warning(note, name)
        else:
            yield ok(f"{word} takes jobs of {walltime} minutes", name)


def check_submission(whose: str, calls: SchedulerCalls, options: Sequence[str]) -> Finding:
    name = f"submission of {whose}"
    try:
        try_submission(calls, options)
    except SubmissionRefusedError as refused:
        return error(f"{refused}; change the profile, or ask the site", name)
    return ok(f"sbatch takes {' '.join(options)}", name)
