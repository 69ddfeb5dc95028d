"""Forecasts what a study will cost, from the measured speed of similar training, if there is any.

That of its own jobs, or else a row of reports/benchmarks/shares.csv: on a similar machine, steps
whose gradients take about as many multiplications take about as long.
"""

import csv
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from operator import itemgetter
from statistics import median

from hpsearch.cluster.records import JobPlan
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import read_json, shipped
from hpsearch.programs.config import uses_gpu
from hpsearch.study.spec import Study
from hpsearch.trainers.config import read_config

ROWS = "reports/benchmarks/shares.csv"
ALIKE = 2.0  # ratio of work a step up to which shapes are alike


@dataclass(frozen=True)
class JobPace:
    steps_per_second: float  # of all its members together
    processors: float  # GPUs or threads that it has
    source: str


def _measured_pace(study: Study) -> JobPace | None:
    if study.is_program:
        return None
    config = read_config(next(iter(study.bases.values())), source=str(study.path))
    alike: list[tuple[float, JobPace]] = []  # each with how many times its work differs
    for rows in _measured_runs(config.algorithm, config.device):
        sizes, machine, threads = rows[0]["sizes"], rows[0]["machine"], rows[0]["threads"]
        measured, work = int(rows[0]["work"]), config.work()
        ratio = max(measured / work, work / measured)
        if ratio <= ALIKE:
            speed = 1 / sum(float(row["seconds_a_step"]) for row in rows)
            processors = 1 if config.device == "cuda" else int(threads)
            source = f"one {config.algorithm} member of a like shape ({sizes}) on {machine}"
            alike.append((ratio, JobPace(speed, processors, source)))
    return min(alike, key=itemgetter(0))[1] if alike else None


def _measured_runs(algorithm: str, device: str) -> Iterable[list[dict[str, str]]]:
    """Return the newest run of each shape of one member, on any machine: a row for each part."""
    runs: dict[tuple[str, ...], dict[tuple[str, ...], list[dict[str, str]]]] = {}
    with shipped(ROWS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            measured = row["case"].partition(",")[0], row["device"], row["members"]
            if measured == (algorithm, device, "1"):
                shape = row["sizes"], row["threads"]
                run = row["date"], row["commit"], row["machine"]
                runs.setdefault(shape, {}).setdefault(run, []).append(row)
    # Rows are appended, so the last run is the newest.
    return [list(of_shape.values())[-1] for of_shape in runs.values()]


@dataclass(frozen=True)
class Forecast:
    """What all trials of a study's budget cost; matches, children and waiting are not counted."""

    trials: int
    steps_per_trial: int
    unit: str  # GPU-hours or CPU-hours
    hours: float | None  # in that unit; None where nothing is known
    steps_per_second: float | None
    source: str | None  # where the speed was measured
    is_bound: bool  # whether it is of members one by one, who together take less

    def __str__(self) -> str:
        steps = f"{self.trials} trials of {self.steps_per_trial:,} steps"
        if self.hours is None:
            return f"{steps}; hours unknown, because nothing like it was measured"
        bound = "at most about" if self.is_bound else "about"
        together = "; members that train together take less" if self.is_bound else ""
        return (
            f"{steps}, {bound} {self.hours:.2g} {self.unit}, by the {self.steps_per_second:,.3g} "
            f"steps a second of {self.source}{together}"
        )


def forecast(study: Study, folder: StudyDir) -> Forecast:
    base = next(iter(study.bases.values()))
    population, trials = study.spec.population, study.spec.budget.trials
    steps = int(base["steps"]) if population is None else population.interval
    unit = "GPU-hours" if uses_gpu(base) else "CPU-hours"
    own = _own_pace(study, folder)
    pace = own or _measured_pace(study)
    if pace is None:
        return Forecast(trials, steps, unit, None, None, None, is_bound=True)
    hours = trials * steps / pace.steps_per_second * pace.processors / 3600
    return Forecast(trials, steps, unit, hours, pace.steps_per_second, pace.source, own is None)


def _own_pace(study: Study, folder: StudyDir) -> JobPace | None:
    if not _is_of(study, folder):
        return None
    speeds, shares, threads = [], [], []
    for path in sorted(folder.jobs.glob("*")):
        job = JobDir(path)
        with suppress(CorruptError, DiskError):  # half of a job that never began
            plan = job.plan.required()
            if (speed := _speed(job, plan)) > 0:
                ranks = _ranks(job, plan)
                speeds.append(speed)
                shares.append(ranks / plan.ranks)
                threads.append(plan.num_threads * ranks)
    if not speeds:
        return None
    is_gpu = uses_gpu(next(iter(study.bases.values())))
    processors = _gpus(study) * median(shares) if is_gpu else median(threads)
    return JobPace(median(speeds), processors, "its own jobs so far")


def _is_of(study: Study, folder: StudyDir) -> bool:
    """Return whether a folder is that of the study, and not of another one of its name."""
    with suppress(CorruptError, DiskError):
        begun = read_json(folder.spec)
        return isinstance(begun, dict) and begun.get("storage") == study.spec.storage
    return False


def _speed(job: JobDir, plan: JobPlan) -> float:
    said = job.heartbeat.try_read()
    if said is not None:
        # The last heartbeat of a job that has ended names none.
        return said.steps_per_second * (len(said.members) or len(plan.assignments))
    # A job of an older version, see `AttemptDir.heartbeat`.
    beats = (
        job.study.trial(assignment.trial).attempt(assignment.attempt).heartbeat.try_read()
        for assignment in plan.assignments
    )
    return sum(beat.steps_per_second for beat in beats if beat is not None)


def _ranks(job: JobDir, plan: JobPlan) -> int:
    """Return the number of ranks with which a job trained; it may be fewer than planned."""
    said = job.heartbeat.try_read()
    # With one rank alone it says nothing of ranks.
    return plan.ranks if said is None else max(1, len(said.ranks))


def _gpus(study: Study) -> int:
    """Return how many a job has; of several profiles, by that which asks for the most."""
    profiles = [load_profile(study.profile_of(executor)) for executor in study.on_slurm]
    if not profiles:
        return study.gpus_per_job
    return max(profile.gpus_per_task for profile in profiles) * study.executor.ranks
