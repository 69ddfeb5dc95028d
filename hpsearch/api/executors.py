"""The executor that a study names, and how a driver without a terminal is started there."""

import unicodedata
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from hpsearch.cluster.executor import Executor, SchedulerSilentError, SubmissionRefusedError
from hpsearch.cluster.local import LocalExecutor
from hpsearch.cluster.machine import NO_GPUS, GpuShare, find_gpus, num_cores
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.supervisor import start_process, submit_driver
from hpsearch.cluster.threads import useful_threads
from hpsearch.errors import HpsearchError, UsageError
from hpsearch.extensions import ExtensionError
from hpsearch.study.options import ExecutorExtension, JobNeeds, LocalOptions, PsijOptions
from hpsearch.study.spec import Study, secret_variables
from hpsearch.terminal import say
from hpsearch.trainers.config import read_config

if TYPE_CHECKING:
    from hpsearch.cluster.slurm_calls import SchedulerCalls

LOCAL_POLL_SECONDS = 0.5
LOCAL_PILOT_SECONDS = 10.0


def build_executor(study: Study, folder: StudyDir) -> Executor:
    withheld, options = secret_variables(study.spec), study.executor
    if isinstance(options, LocalOptions):
        gpus = gpu_share(study)
        at_once = min(options.jobs, gpus.max_jobs or options.jobs)
        wait = LOCAL_PILOT_SECONDS if options.pilot else 0.0
        return LocalExecutor(
            _threads(study, options, at_once),
            ranks=options.ranks,
            gpus=gpus,
            pilot_seconds=wait,
            withheld=withheld,
        )
    # Three rounds of the driver, one of which may be slow.
    wait = 3 * poll_seconds(study) if options.pilot else 0.0
    if isinstance(options, ExecutorExtension):
        needs = JobNeeds(study.gpus_per_job, pilot_seconds=wait, withheld=withheld)
        try:
            return options.build(study.path, folder.root, needs)
        except HpsearchError:
            raise
        except Exception as error:  # whatever the code of another package raises
            raise ExtensionError(
                f"the executor {options.name} cannot be built ({type(error).__name__}: {error}); "
                "mend its package"
            ) from error
    # Imported here: to submit elsewhere needs none of it.
    from hpsearch.cluster.slurm import Allowance, SlurmExecutor

    is_alone = len(study.on_slurm) == 1
    allowances = [
        Allowance(load_profile(study.profile_of(executor)), None if is_alone else executor.jobs)
        for executor in study.on_slurm
    ]
    return SlurmExecutor(
        allowances,
        folder,
        ranks=options.ranks,
        min_ranks=options.min_ranks,
        pilot_seconds=wait,
        withheld=withheld,
    )


def _threads(study: Study, options: LocalOptions, at_once: int) -> int:
    """Return the threads of each rank, of which ``at_once`` jobs run side by side."""
    if options.cpus_per_job is not None:
        return max(1, options.cpus_per_job // options.ranks)
    if study.is_program or not study.is_whole:  # nothing is submitted for one that is not
        return max(1, num_cores() // at_once)
    bases = (read_config(base, source="the study's base") for base in study.bases.values())
    return max(
        useful_threads(
            base,
            members=options.members_per_job,
            ranks=options.ranks,
            cores=num_cores() // at_once,
        )
        for base in bases
    )


def gpu_share(study: Study) -> GpuShare:
    """Return the GPUs that jobs of a study on this machine share; they are looked for if needed."""
    if not study.gpus_per_job:
        return NO_GPUS
    return GpuShare(find_gpus(), study.gpus_per_job, study.fewer_gpus)


def check_submission(study: Study, folder: StudyDir, *, with_driver: bool) -> None:
    """Make sure, before anything is begun, that the jobs of a study would be taken.

    A cluster's scheduler is asked, also for the driver's job if ``with_driver``; limits on what may
    wait are left to the driver, which tries again. Of several profiles one is enough, and what the
    others lack is said. This machine must have the GPUs that a job wants; if it has fewer than all
    jobs together want, that is said. Raises UsageError if they would never be taken, or the
    scheduler gives no answer.
    """
    if isinstance(study.executor, LocalOptions):
        gpus, num_jobs = gpu_share(study), study.executor.jobs
        if gpus.shortage is not None:
            raise UsageError(f"{study.spec.name} cannot train here: {gpus.shortage}")
        if gpus.max_jobs is not None and gpus.max_jobs < num_jobs:
            say(gpus.jobs_text(num_jobs))
        return
    if study.on_slurm:
        _check_paths(folder)
        _ask_sbatch(study, with_driver=with_driver)
    elif isinstance(study.executor, PsijOptions):
        from hpsearch.cluster.psij import check_answers

        build_executor(study, folder)
        check_answers(study.executor.scheduler)


def _ask_sbatch(study: Study, *, with_driver: bool) -> None:
    from hpsearch.cluster.slurm_calls import SchedulerCalls
    from hpsearch.cluster.slurm_profile import driver_options, trial_options

    profiles = {own.profile: load_profile(study.profile_of(own)) for own in study.on_slurm}
    calls = SchedulerCalls(min(profile.max_calls_per_minute for profile in profiles.values()))

    ranks, min_ranks = study.executor.ranks, study.executor.min_ranks
    refused: dict[str, str] = {}
    for file, profile in profiles.items():
        words = _refusal(calls, trial_options(profile, ranks, min_ranks))
        if words is not None:
            refused[file] = words
    _require_another(study, "jobs", refused)
    of_driver: dict[str, str] = {}
    for file, profile in profiles.items() if with_driver else ():
        words = _refusal(calls, driver_options(profile.driver))
        if words is None:
            break  # it goes by the first that it may go by
        of_driver[file] = words
    _require_another(study, "driver", of_driver)
    for what, by_file in (("jobs", refused), ("driver", of_driver)):
        if by_file:
            told = _told(study, by_file)
            say(f"{study.spec.name} does without profiles by which SLURM takes no {what} {told}")


def _refusal(calls: "SchedulerCalls", options: Sequence[str]) -> str | None:
    """Return why SLURM would never take a job of these options; None if it may."""
    from hpsearch.cluster.slurm_calls import may_pass, try_submission

    try:
        try_submission(calls, options)
    except SubmissionRefusedError as error:
        return None if may_pass(error) else str(error)
    except SchedulerSilentError as error:
        raise UsageError(
            f"SLURM does not answer here ({error}); run this on a login node of the cluster, "
            "or give the study the executor local"
        ) from error
    return None


def _require_another(study: Study, what: str, refused: Mapping[str, str]) -> None:
    """Raise UsageError if every profile is ``refused``, which has the words of SLURM."""
    if len(refused) == len(study.on_slurm):
        told = _told(study, refused)
        raise UsageError(f"SLURM would not take the {what} of {study.spec.name} {told}")


def _told(study: Study, refused: Mapping[str, str]) -> str:
    is_alone = len(study.on_slurm) == 1
    reasons = [words if is_alone else f"{file}: {words}" for file, words in refused.items()]
    remedy = f"change {' and '.join(refused)}, or see more with: hpsearch doctor {study.path}"
    return f"({'; '.join(reasons)}); {remedy}"


def _check_paths(folder: StudyDir) -> None:
    """Refuse folders that sbatch, or the lines of a job's script, would take for something else."""
    if "%" in str(folder.root):
        raise UsageError(
            f"SLURM replaces % in names of files, but the study would lie in {folder.root}; give "
            "--runs a folder without it"
        )
    for path in (str(folder.root), str(Path.cwd())):
        if any(unicodedata.category(letter) == "Cc" for letter in path):
            raise UsageError(
                "SLURM's scripts have a path on one line, without control characters, but a path "
                f"here is {path!r}; rename the folder, or give --runs another one"
            )


def start_detached(study: Study, folder: StudyDir, runs: Path) -> str:
    """Start a driver of the study that outlives the terminal; return what was started."""
    if study.on_slurm:
        profiles = {own.profile: load_profile(study.profile_of(own)) for own in study.on_slurm}
        return submit_driver(profiles, folder, runs)
    return start_process(folder, runs)


def poll_seconds(study: Study) -> float:
    if study.on_slurm:
        return min(executor.poll_seconds for executor in study.on_slurm)
    options = study.executor
    return LOCAL_POLL_SECONDS if isinstance(options, LocalOptions) else options.poll_seconds
