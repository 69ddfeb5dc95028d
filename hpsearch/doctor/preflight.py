"""All checks, in their order."""

import shutil
from collections.abc import Iterator
from pathlib import Path

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import SchedulerCalls, read_config
from hpsearch.cluster.slurm_profile import (
    SlurmProfile,
    driver_options,
    load_profile,
    trial_options,
)
from hpsearch.doctor.finding import Check, Finding, Subject, examine, find_subject, has_error
from hpsearch.doctor.machine import (
    NAME,
    MakeExecutor,
    check_asked_gpus,
    check_file_system,
    check_inside,
    check_local_gpus,
    check_mode,
    check_place,
    check_probes,
    check_shared,
    check_space,
    check_versions,
)
from hpsearch.doctor.slurm import (
    check_accounting,
    check_config,
    check_partitions,
    check_submission,
    read_partitions,
)
from hpsearch.doctor.study import check_database, check_files, check_requests
from hpsearch.study.options import SlurmOptions

CALLS_PER_MINUTE = 60  # of the scheduler's programs, where no profile says how many the site bears


def examine_all(
    study: str | None, runs: Path, table: str, make_executor: MakeExecutor
) -> list[Finding]:
    """Return what all checks find, of a study (a file, or a name below ``runs``) or without one.

    ``table`` is that of mounts; ``make_executor`` gives what runs the job that looks around.
    """
    findings = _run(_machine_checks(runs, table))
    if study is None:
        return findings + _run({"SLURM": _slurm_alone})
    subject, first_findings = find_subject(study, runs)
    findings += first_findings
    if subject is None:
        return findings
    findings += _run(_study_checks(subject, runs, table))
    if has_error(findings):
        note = "put the errors right before a job is tried"
        return [*findings, Finding(NAME, "skipped", note)]
    return findings + examine(NAME, lambda: check_inside(subject.study, runs, make_executor))


def _run(checks: dict[str, Check]) -> list[Finding]:
    return [finding for name, check in checks.items() for finding in examine(name, check)]


def _machine_checks(runs: Path, table: str) -> dict[str, Check]:
    return {
        "versions": check_versions,
        "runs folder": lambda: check_place(runs),
        "file system": lambda: check_file_system(runs, table),
        "folder mode": lambda: check_mode(runs),
        "free space": lambda: check_space(runs),
        "writing": lambda: check_probes(runs),
    }


def _study_checks(subject: Subject, runs: Path, table: str) -> dict[str, Check]:
    checks: dict[str, Check] = {
        "database": lambda: check_database(subject, table),
        "requests": lambda: check_requests(subject.folder),
        "files": lambda: check_files(subject.folder),
    }
    executor = subject.study.spec.executor
    if not isinstance(executor, SlurmOptions):
        return checks | {"GPUs": lambda: check_local_gpus(subject.study)}
    file = subject.study.path.parent / executor.profile
    return checks | {
        "shared folder": lambda: check_shared(runs, table),
        "profile": lambda: _profile(subject, file, executor.jobs),
    }


def _profile(subject: Subject, file: Path, num_jobs: int) -> Iterator[Finding]:
    profile = load_profile(file)
    yield Finding("profile", "ok", f"{file} is right")
    yield check_asked_gpus(subject.study, profile)
    calls = SchedulerCalls(profile.max_calls_per_minute)
    try:
        yield from _slurm(calls, num_jobs)
        yield from _submissions(calls, profile)
    except SchedulerSilentError as error:
        note = f"{error}; run this on a login node of the cluster, or give the study executor local"
        yield Finding("SLURM", "error", " ".join(note.split()))


def _slurm_alone() -> Iterator[Finding]:
    if shutil.which("squeue") is None:
        yield Finding("SLURM", "skipped", "there is no squeue here")
        return
    try:
        yield from _slurm(SchedulerCalls(CALLS_PER_MINUTE), None)
    except SchedulerSilentError as error:
        note = f"its programs are here, but {' '.join(str(error).split())}"
        yield Finding("SLURM", "warning", f"{note}; that matters for executor slurm alone")


def _slurm(calls: SchedulerCalls, num_jobs: int | None) -> Iterator[Finding]:
    config = read_config(calls)
    version = config.get("SLURM_VERSION", "of unknown version")
    name = config.get("ClusterName", "unnamed")
    yield Finding("SLURM", "ok", f"{version} answers, the cluster is {name}")
    yield from check_config(config, num_jobs)
    yield check_accounting(calls)


def _submissions(calls: SchedulerCalls, profile: SlurmProfile) -> Iterator[Finding]:
    driver = profile.driver
    partitions = read_partitions(calls)
    yield from check_partitions(
        profile.partition, profile.walltime_minutes, partitions, whose="jobs"
    )
    yield from check_partitions(
        driver.partition, driver.walltime_minutes, partitions, whose="the driver"
    )
    yield check_submission(calls, trial_options(profile), whose="jobs")
    yield check_submission(calls, driver_options(driver), whose="the driver")
