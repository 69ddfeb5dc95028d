"""All checks, in their order."""

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from hpsearch.cluster.executor import SchedulerSilentError
from hpsearch.cluster.slurm_calls import SchedulerCalls, read_config
from hpsearch.cluster.slurm_profile import driver_options, load_profile, trial_options
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.doctor import machine, slurm
from hpsearch.doctor.finding import Check, Finding, error, examine, has_error, ok, skipped, warning
from hpsearch.doctor.study import check_database, check_files, check_requests
from hpsearch.errors import SHOWN_PROBLEMS, ConfigError, HpsearchError
from hpsearch.files import read_json
from hpsearch.study.options import LocalOptions, SlurmOptions
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.spec_warnings import command_warnings
from hpsearch.study.view import open_view


def examine_all(
    name_or_file: str | None, runs: Path, mounts: machine.Mounts, make: machine.MakeExecutor
) -> list[Finding]:
    """Return the findings of all checks on a study (file or name), or on the machine alone."""
    findings = examine(
        {
            "versions": machine.check_versions,
            "extensions": machine.check_extensions,
            "runs folder": lambda: machine.check_place(runs),
            "file system": lambda: machine.check_file_system(runs, mounts),
            "folder mode": lambda: machine.check_mode(runs),
            "free space": lambda: machine.check_space(runs),
            "writing": lambda: machine.check_probes(runs),
        }
    )
    if name_or_file is None:
        return findings + examine({"SLURM": _slurm_alone})
    try:
        study = _load(name_or_file, runs)
    except ConfigError as fault:
        faults = (f"{fault.source}: {problem}" for problem in fault.problems[:SHOWN_PROBLEMS])
        return findings + [error(sentence, "study") for sentence in faults]
    except HpsearchError as fault:
        return [*findings, error(str(fault), "study")]
    trials = f"{study.spec.budget.trials} trials of {study.spec.name}"
    findings.append(ok(f"{study.path} is right: {trials}", "study"))
    findings += [warning(sentence, "study") for sentence in command_warnings(study)]
    findings += examine(_study_checks(study, runs, mounts))
    if has_error(findings):
        return [*findings, skipped("put the errors right before a job is tried", "job")]
    jobs: dict[str, Check] = {"job": partial(machine.check_inside, study, runs, make)}
    if len(study.on_slurm) > 1:
        # An error would have ended this, so by these there is a warning that says as much.
        refused = {finding.name for finding in findings if finding.level == "warning"}
        jobs = {
            f"job by {executor.profile}": partial(
                machine.check_inside, study.with_executor(executor), runs, make
            )
            for executor in study.on_slurm
            if f"submission of jobs by {executor.profile}" not in refused
        }
    return findings + examine(jobs)


def _load(name_or_file: str, runs: Path) -> Study:
    """Return a study as its file has it, which says more than the database; else from there."""
    path = Path(name_or_file)
    if path.suffix in (".yaml", ".yml"):
        return load_spec(path)
    note = read_json(StudyDir(runs / name_or_file).spec)
    file = note.get("file") if isinstance(note, dict) else None
    if isinstance(file, str) and os.path.exists(file):
        study = load_spec(Path(file))
        if study.spec.name == name_or_file:  # else the file has become another study's
            return study
    return open_view(name_or_file, runs).whole_study()


def _study_checks(study: Study, runs: Path, mounts: machine.Mounts) -> dict[str, Check]:
    folder = StudyDir((runs / study.spec.name).absolute())
    checks: dict[str, Check] = {
        "database": lambda: check_database(study, folder, mounts),
        "requests": lambda: check_requests(folder),
        "files": lambda: check_files(folder),
    }
    if isinstance(study.executor, LocalOptions):
        return checks | {"GPUs": lambda: machine.check_local_gpus(study)}
    checks["shared folder"] = lambda: machine.check_shared(runs, mounts)
    return checks | {"profiles": partial(_profiles, study)}


def _profiles(study: Study) -> Iterator[Finding]:
    """Look at all profiles; what SLURM refuses is no error where another profile does for it."""
    several, driver_is_taken = len(study.on_slurm) > 1, False
    looks: list[list[Finding]] = []
    for executor in study.on_slurm:
        by = f" by {executor.profile}" if several else ""
        check = partial(
            _profile, study, executor, by, is_first=not looks, with_driver=not driver_is_taken
        )
        looks.append(examine({f"profile{by}": check}))
        driver_is_taken |= any(
            finding.level == "ok" and finding.name.startswith("submission of the driver")
            for finding in looks[-1]
        )
    for findings in looks:
        lenient = tuple(
            f"{check} of {whose}"
            for whose in ("jobs", "the driver")
            if _is_refused(findings, whose) and not all(_is_refused(look, whose) for look in looks)
            for check in ("partition", "submission")
        )
        for finding in findings:
            if finding.level == "error" and finding.name.startswith(lenient):
                sentence = f"{finding.sentence}; until then other profiles are used"
                yield replace(finding, level="warning", sentence=sentence)
            else:
                yield finding


def _is_refused(findings: Sequence[Finding], whose: str) -> bool:
    """Return whether sbatch took no jobs by a profile, or no driver."""
    name = f"submission of {whose}"
    return any(own.level == "error" and own.name.startswith(name) for own in findings)


def _profile(
    study: Study, executor: SlurmOptions, by: str, *, is_first: bool, with_driver: bool
) -> Iterator[Finding]:
    """Look at a profile, by the first one at the cluster too, and perhaps at the driver's job.

    ``by`` says in the names of findings which one it is, if there are several.
    """
    file = study.profile_of(executor)
    profile = load_profile(file)
    yield ok(f"{file} is right")
    asked = machine.check_asked_gpus(study, profile)
    yield replace(asked, name=f"{asked.name}{by}")
    calls, driver = SchedulerCalls(profile.max_calls_per_minute), profile.driver
    jobs = f"jobs{by}"
    try:
        if is_first:
            yield from _slurm(calls, study.executor.jobs)
        partitions = slurm.read_partitions(calls)
        yield from slurm.check_partitions(jobs, profile, partitions)
        whose = "the driver" if is_first else f"the driver{by}"
        if with_driver:
            yield from slurm.check_partitions(whose, driver, partitions)
        yield slurm.check_submission(
            jobs, calls, trial_options(profile, executor.ranks, executor.min_ranks)
        )
        if with_driver:
            yield slurm.check_submission(whose, calls, driver_options(driver))
    except SchedulerSilentError as fault:
        note = f"{fault}; run this on a login node of the cluster, or give the study executor local"
        yield error(" ".join(note.split()), "SLURM")


def _slurm_alone() -> Iterator[Finding]:
    if shutil.which("squeue") is None:
        yield skipped("there is no squeue here")
        return
    try:
        # There is no profile here to say how many calls a minute the site allows.
        yield from _slurm(SchedulerCalls(60), None)
    except SchedulerSilentError as fault:
        note = f"its programs are here, but {' '.join(str(fault).split())}"
        yield warning(f"{note}; that matters for executor slurm alone")


def _slurm(calls: SchedulerCalls, num_jobs: int | None) -> Iterator[Finding]:
    config = read_config(calls)
    version = config.get("SLURM_VERSION", "of unknown version")
    name = config.get("ClusterName", "unnamed")
    yield ok(f"{version} answers, the cluster is {name}", "SLURM")
    yield from slurm.check_config(config, num_jobs)
    yield slurm.check_accounting(calls)
