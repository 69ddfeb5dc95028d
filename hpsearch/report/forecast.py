"""What a study will cost, as far as something was measured that is like it.

Its own jobs, or else a row of reports/benchmarks/shares.csv: steps whose gradients take about as
many multiplications take about as long, on a like machine.
"""

import csv
import re
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from math import prod
from statistics import median

from hpsearch.cluster.records import JobPlan
from hpsearch.cluster.slurm_profile import load_profile
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import read_json, shipped
from hpsearch.study.options import SlurmOptions
from hpsearch.study.spec import Study
from hpsearch.trainers.config import CommonConfig, read_config

ROWS = "reports/benchmarks/shares.csv"
ALIKE = 2.0  # ratio of work a step up to which shapes are alike

_NETWORK = re.compile(r"host ([\d-]+)")
_NUM_ROWS = {
    "dqn": re.compile(r"batch (\d+), (\d+) updates"),
    "ppo": re.compile(r"(\d+) games of (\d+) moves, (\d+) passes"),
}
"""numbers whose product are the rows that gradients pass in a step, in the text of sizes"""


@dataclass(frozen=True)
class Shape:
    algorithm: str
    device: str
    sizes: str
    machine: str
    threads: int


@dataclass(frozen=True)
class JobPace:
    steps_per_second: float  # of all its members together
    processors: float  # GPUs or threads that it has
    source: str


def _measured_pace(study: Study) -> JobPace | None:
    config = read_config(next(iter(study.bases.values())), source=str(study.path))
    work = sum(_work(config, name) for name in config.learning())
    seconds = _seconds_a_step()
    ratios = {
        shape: max(_work_of(shape) / work, work / _work_of(shape))
        for shape in seconds
        if (shape.algorithm, shape.device) == (config.algorithm, config.device)
    }
    best = min(ratios, key=lambda shape: ratios[shape], default=None)
    if best is None or ratios[best] > ALIKE:
        return None
    source = f"one {best.algorithm} member of a like shape ({best.sizes}) on {best.machine}"
    return JobPace(1 / seconds[best], 1 if best.device == "cuda" else best.threads, source)


def _work(config: CommonConfig, name: str) -> int:
    return config.policy_size(name) * config.rows_learned(name)


def _work_of(shape: Shape) -> int:
    network, rows = _NETWORK.search(shape.sizes), _NUM_ROWS[shape.algorithm].search(shape.sizes)
    assert network is not None, shape.sizes
    assert rows is not None, shape.sizes
    widths = [int(width) for width in network[1].split("-")]
    num_weights = sum((before + 1) * after for before, after in pairwise(widths))
    return num_weights * prod(int(number) for number in rows.groups())


def _seconds_a_step() -> dict[Shape, float]:
    """Return what a step took, all of its parts together; of several measurements the newest."""
    totals: dict[Shape, dict[tuple[str, str], float]] = {}
    with shipped(ROWS).open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if row["members"] != "1":
                continue
            shape = Shape(
                algorithm=row["case"].partition(",")[0],
                device=row["device"],
                sizes=row["sizes"],
                machine=row["machine"],
                threads=int(row["threads"]),
            )
            runs = totals.setdefault(shape, {})
            run = (row["date"], row["commit"])
            runs[run] = runs.get(run, 0.0) + float(row["seconds_a_step"])
    # Rows are appended, so the last run is the newest.
    return {shape: list(runs.values())[-1] for shape, runs in totals.items()}


OWN_JOBS = "its own jobs so far"


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

    @property
    def steps(self) -> int:
        return self.trials * self.steps_per_trial


def forecast(study: Study, folder: StudyDir) -> Forecast:
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


def _own_pace(study: Study, folder: StudyDir) -> JobPace | None:
    if not _is_of(study, folder):
        return None
    base = next(iter(study.bases.values()))
    speeds, threads = [], []
    for path in sorted(folder.jobs.glob("*")):
        job = JobDir(path)
        with suppress(CorruptError, DiskError):  # half of a job that never began
            plan = job.plan.required()
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


def _speed(job: JobDir, plan: JobPlan) -> float:
    said = job.heartbeat.try_read()
    if said is not None:
        return said.steps_per_second * len(said.members)
    # A job of an older version, see `AttemptDir.heartbeat`.
    beats = (
        job.study.trial(assignment.trial).attempt(assignment.attempt).heartbeat.try_read()
        for assignment in plan.assignments
    )
    return sum(beat.steps_per_second for beat in beats if beat is not None)


def _gpus(study: Study) -> int:
    options = study.spec.executor
    if not isinstance(options, SlurmOptions):
        return study.gpus_per_job
    return load_profile(study.path.parent / options.profile).gpus_per_task
