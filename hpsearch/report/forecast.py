"""What a study will cost, as far as something was measured that is like it."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import median

from hpsearch.bounded import read_json
from hpsearch.cluster.messages import JobPlan
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.report.measured_shapes import nearest
from hpsearch.study.options import SlurmOptions
from hpsearch.study.spec import Study
from hpsearch.trainers.config import read_config

OWN_JOBS = "its own jobs so far"


@dataclass(frozen=True)
class JobPace:
    """How fast a job makes steps."""

    steps_per_second: float
    """of all its members together"""
    processors: float
    """GPUs or threads that it has"""
    source: str


@dataclass(frozen=True)
class Forecast:
    """What all trials of a study's budget cost; matches, children and waiting are not counted."""

    trials: int
    steps_per_trial: int
    unit: str
    """GPU-hours or CPU-hours"""
    hours: float | None
    """in that unit; None where nothing is known"""
    steps_per_second: float | None
    source: str | None
    """where the speed was measured"""
    is_bound: bool
    """whether it is of members one by one, who together take less"""

    @property
    def steps(self) -> int:
        """Return the steps of all trials."""
        return self.trials * self.steps_per_trial


def forecast(study: Study, folder: StudyDir) -> Forecast:
    """Return what a study costs, by the speed of its own jobs or else of a measured shape.

    Args:
        study: whose first base stands for all trials.
        folder: of its jobs, if it was begun.
    """
    base = next(iter(study.bases.values()))
    population, trials = study.spec.population, study.spec.budget.trials
    each = int(base["steps"]) if population is None else population.interval
    own = _own_pace(study, folder)
    pace = own or _measured_pace(study)
    seconds = None if pace is None else trials * each / pace.steps_per_second
    return Forecast(
        trials=trials,
        steps_per_trial=each,
        unit="GPU-hours" if base["device"] == "cuda" else "CPU-hours",
        hours=None if pace is None or seconds is None else seconds * pace.processors / 3600,
        steps_per_second=None if pace is None else pace.steps_per_second,
        source=None if pace is None else pace.source,
        is_bound=own is None,
    )


def _measured_pace(study: Study) -> JobPace | None:
    base = next(iter(study.bases.values()))
    found = nearest(read_config(base, source=str(study.path)))
    if found is None:
        return None
    shape = found.shape
    what = f"one {shape.algorithm} member of a like shape ({shape.sizes}) on {shape.machine}"
    processors = 1 if shape.device == "cuda" else shape.threads
    return JobPace(found.steps_per_second, processors, what)


def _own_pace(study: Study, folder: StudyDir) -> JobPace | None:
    """Return the median of the jobs that the study has had, None if it has had none."""
    if not _is_of(study, folder):
        return None
    base = next(iter(study.bases.values()))
    speeds, threads = [], []
    for job, plan in _jobs(folder):
        if (speed := _speed(job, plan)) > 0:
            speeds.append(speed)
            threads.append(plan.num_threads)
    if not speeds:
        return None
    processors = _gpus(study) if base["device"] == "cuda" else median(threads)
    return JobPace(median(speeds), processors, OWN_JOBS)


def _is_of(study: Study, folder: StudyDir) -> bool:
    """Return whether a folder is that of the study, and not of another one of its name."""
    try:
        begun = read_json(folder.spec)
    except (CorruptError, DiskError):
        return False
    return isinstance(begun, dict) and begun.get("storage") == study.spec.storage


def _jobs(folder: StudyDir) -> Iterator[tuple[JobDir, JobPlan]]:
    for path in sorted(folder.jobs.glob("*")):
        job = JobDir(path)
        try:
            yield job, job.read()
        except (CorruptError, DiskError):  # half of a job that never began
            continue


def _speed(job: JobDir, plan: JobPlan) -> float:
    """Return the member steps a second of a job, by its last sign of life."""
    said = job.heartbeat.read()
    if said is not None:
        return said.steps_per_second * len(said.members)
    # A job of an older version, see `AttemptDir.read_heartbeat`.
    beats = (
        job.study.trial(one.trial).attempt(one.attempt).read_heartbeat() for one in plan.assignments
    )
    return sum(beat.steps_per_second for beat in beats if beat is not None)


def _gpus(study: Study) -> int:
    options = study.spec.executor
    if not isinstance(options, SlurmOptions):
        return study.gpus_per_job
    return load_profile(study.path.parent / options.profile).gpus_per_task
