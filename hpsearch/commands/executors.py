"""The executor that a study names, and how a driver without a terminal is started there."""

from pathlib import Path
from typing import assert_never

from hpsearch.cluster.detached import DetachedDriver, LocalDriver
from hpsearch.cluster.executor import Executor, SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.slurm_profile import SlurmProfile, load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cores import num_cores
from hpsearch.errors import UsageError
from hpsearch.study.options import LocalOptions, SlurmOptions
from hpsearch.study.spec import Study

LOCAL_POLL_SECONDS = 0.5
LOCAL_PILOT_SECONDS = 10.0


def build_executor(study: Study, folder: StudyDir) -> Executor:
    """Return what runs the jobs of a study.

    Raises:
        ConfigError: if the cluster's profile is wrong.
        UsageError: if the study wants SLURM and this machine has none.
    """
    match study.spec.executor:
        case LocalOptions() as options:
            share = max(1, num_cores() // options.jobs)
            wait = LOCAL_PILOT_SECONDS if options.pilot else 0.0
            return LocalExecutor(options.cpus_per_job or share, pilot_seconds=wait)
        case SlurmOptions() as options:
            # Imported here: to submit elsewhere needs none of it.
            from hpsearch.cluster.slurm import SlurmExecutor

            # Three rounds of the driver, one of which may be slow.
            wait = 3 * options.poll_seconds if options.pilot else 0.0
            return SlurmExecutor(_profile(study, options), folder, pilot_seconds=wait)
        case other:
            assert_never(other)


def check_submission(study: Study, folder: StudyDir, *, with_driver: bool) -> None:
    """Ask the scheduler whether it would take the jobs of a study, before anything is begun.

    ``with_driver`` says whether the driver is to be one of them. Limits on what may wait are left
    to the driver, which tries again.

    Raises:
        ConfigError: if the cluster's profile is wrong.
        UsageError: if it would never take them, or gives no answer.
    """
    if not isinstance(study.spec.executor, SlurmOptions):
        return
    from hpsearch.cluster.sbatch import driver_options, may_pass, trial_options, try_submission
    from hpsearch.cluster.scheduler_calls import SchedulerCalls

    options = study.spec.executor
    profile = _profile(study, options)
    if "%" in str(folder.root):
        raise UsageError(
            f"SLURM replaces % in names of files, but the study would lie in {folder.root}; give "
            "--runs a folder without it"
        )
    wanted = [trial_options(profile), *([driver_options(profile.driver)] if with_driver else [])]
    calls = SchedulerCalls(profile.max_calls_per_minute)
    try:
        for one in wanted:
            try_submission(calls, one)
    except SubmissionRefusedError as error:
        if not may_pass(error):
            raise UsageError(
                f"SLURM would not take the jobs of {study.spec.name} ({error}); change "
                f"{options.profile}, or see more with: hpsearch doctor {study.path}"
            ) from error
    except SchedulerSilentError as error:
        raise UsageError(
            f"SLURM does not answer here ({error}); run this on a login node of the cluster, or "
            "give the study the executor local"
        ) from error


def detached_driver(study: Study, folder: StudyDir, runs: Path) -> DetachedDriver:
    """Return how a driver of the study is started that outlives the terminal."""
    match study.spec.executor:
        case LocalOptions():
            return LocalDriver(folder, runs)
        case SlurmOptions() as options:
            from hpsearch.cluster.slurm_driver import SlurmDriver

            return SlurmDriver(_profile(study, options), folder, runs)
        case other:
            assert_never(other)


def poll_seconds(study: Study) -> float:
    """Return the seconds between two rounds of the study's driver."""
    match study.spec.executor:
        case LocalOptions():
            return LOCAL_POLL_SECONDS
        case SlurmOptions() as options:
            return options.poll_seconds
        case other:
            assert_never(other)


def outlives_the_driver(study: Study) -> bool:
    """Return whether jobs are left alone when a driver in a terminal is stopped."""
    return isinstance(study.spec.executor, SlurmOptions)


def _profile(study: Study, options: SlurmOptions) -> SlurmProfile:
    return load_profile(study.path.parent / options.profile)
