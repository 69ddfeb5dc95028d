"""How the site has set up SLURM: what hpsearch relies on, and what it makes do without."""

import re
from collections.abc import Iterator, Mapping

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.scheduler_calls import SchedulerCalls
from hpsearch.report.doctor.finding import Finding

LEAST_JOB_AGE = 60
"""seconds for which a job should be listed after its end: the driver looks every half minute"""
SHORT_KILL_WAIT = 10
"""seconds between SIGTERM and SIGKILL in which a job hardly saves"""


def check_config(config: Mapping[str, str], num_jobs: int | None) -> Iterator[Finding]:
    """Look at what matters to a study that wants ``num_jobs`` jobs at once."""
    yield _array_size(config)
    yield _job_count(config, num_jobs)
    yield _preemption(config)
    yield _kill_wait(config)
    yield _job_age(config)
    requeue = "requeues" if _number(config, "JobRequeue") else "does not requeue"
    yield Finding("requeue", "ok", f"the site {requeue} jobs; ours ask not to be, and go on anew")


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


def _array_size(config: Mapping[str, str]) -> Finding:
    size = _number(config, "MaxArraySize")
    if size is None or size <= 1:
        said = "the site takes no job arrays (MaxArraySize), so each job is a call of sbatch"
        return Finding("array size", "warning", f"{said}; ask for arrays if jobs start slowly")
    return Finding("array size", "ok", f"MaxArraySize {size}; longer arrays are divided")


def _job_count(config: Mapping[str, str], num_jobs: int | None) -> Finding:
    count = _number(config, "MaxJobCount")
    if count is not None and num_jobs is not None and num_jobs > count:
        said = f"executor.jobs is {num_jobs}, but the site holds {count} jobs (MaxJobCount)"
        return Finding("job count", "warning", f"{said}; the others will be refused for a while")
    return Finding("job count", "ok", f"MaxJobCount {'unknown' if count is None else count}")


def _preemption(config: Mapping[str, str]) -> Finding:
    mode = config.get("PreemptMode", "OFF")
    if mode == "OFF":
        return Finding("preemption", "ok", "PreemptMode OFF, no job makes way for another")
    if "SUSPEND" in mode:
        said = f"PreemptMode {mode}: a suspended job gives no sign of life and may be replaced"
        return Finding("preemption", "warning", f"{said}; use a partition that is not suspended")
    if "preempt_send_user_signal" not in config.get("SlurmctldParameters", ""):
        return Finding(
            "preemption",
            "warning",
            f"PreemptMode {mode} without preempt_send_user_signal in SlurmctldParameters: a "
            "preempted job gets SIGTERM alone and has GraceTime and KillWait to save; ask the site "
            "for it, or set checkpoint.interval low",
        )
    return Finding("preemption", "ok", f"PreemptMode {mode}, preempted jobs are told to save")


def _kill_wait(config: Mapping[str, str]) -> Finding:
    seconds = _number(config, "KillWait")
    if seconds is not None and seconds < SHORT_KILL_WAIT:
        said = f"a job has {seconds} s from SIGTERM to SIGKILL (KillWait), too few to save"
        return Finding("KillWait", "warning", f"{said}; set signal_delay_seconds high")
    return Finding("KillWait", "ok", f"{'unknown' if seconds is None else f'{seconds} s'}")


def _job_age(config: Mapping[str, str]) -> Finding:
    seconds = _number(config, "MinJobAge")
    if seconds is not None and seconds < LEAST_JOB_AGE:
        return Finding(
            "MinJobAge",
            "warning",
            f"a job is listed for {seconds} s after its end (MinJobAge), and is gone before it is "
            f"looked at; ask the site for {LEAST_JOB_AGE} s or more, or set poll_seconds below it",
        )
    return Finding("MinJobAge", "ok", f"{'unknown' if seconds is None else f'{seconds} s'}")


def _number(config: Mapping[str, str], key: str) -> int | None:
    """Return the number that a value begins with, such as 300 of ``300 sec``."""
    match = re.match(r"\d+", config.get(key, ""))
    return int(match[0]) if match else None
