"""What the driver sees of the outside world in one look: jobs that live, what attempts wrote."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from hpsearch.cluster.executor import Executor
from hpsearch.cluster.messages import AttemptResult
from hpsearch.cluster.trial_dir import StudyDir
from hpsearch.errors import CorruptError
from hpsearch.study.state import Job, StudyState, Trial

LOST = "lost"
INTERRUPTED = "interrupted"


@dataclass(frozen=True, order=True)
class Report:
    """A value of the objective on a trial's learning curve."""

    step: int
    trial: int
    value: float


@dataclass(frozen=True)
class Observation:
    """One look at all running attempts."""

    alive: frozenset[str]
    """names of the jobs that wait or run"""
    results: Mapping[int, AttemptResult] = field(default_factory=dict)
    """by trial: how the attempt that is the trial ended"""
    reports: tuple[Report, ...] = ()
    """values that have not been told yet, by step and then by trial"""


IsRung = Callable[[Trial, int], bool]


def observe(
    state: StudyState, folder: StudyDir, executor: Executor, metric: str, is_rung: IsRung
) -> Observation:
    """Look at the executor once, then at the files of every running attempt.

    The order makes what is seen a prefix of what was done, whatever is written meanwhile: jobs
    before results (a job that is gone writes no more), results before curves (an attempt that has
    ended adds no line), and in a job the last trial first, because the worker writes the first
    first. So the same reports are processed in the same order however the looks fall.
    """
    submitted = [(folder.job(j.name), j.id) for j in state.live_jobs() if j.id is not None]
    alive_ids = executor.alive(submitted)
    alive = frozenset(job.name for job, job_id in submitted if job_id in alive_ids)
    attempts = sorted(state.live_attempts(), key=lambda pair: pair[0].number, reverse=True)
    results = {}
    for trial, job in attempts:
        lives = job.name in alive or job.id is None
        result = _result(folder, trial, job, job_lives=lives)
        if result is not None:
            results[trial.number] = result
    reports = [
        report
        for trial, _ in attempts
        if trial.told is None
        for report in _reports(folder, trial, metric)
        if is_rung(trial, report.step)
    ]
    return Observation(alive, dict(sorted(results.items())), tuple(sorted(reports)))


def _result(folder: StudyDir, trial: Trial, job: Job, *, job_lives: bool) -> AttemptResult | None:
    """Return how the running attempt ended; one whose job is gone without a word is lost.

    A job that was asked to leave and had nothing to save yet was interrupted.
    """
    assert trial.token is not None
    attempt = folder.trial(trial.number).attempt(trial.attempts)
    try:
        result = attempt.read_result()
        message = "the job ended without a result"
    except CorruptError as error:
        result, message = None, str(error)
    if result is not None and result.token == trial.token:
        return result
    if job_lives:
        return None
    heartbeat = attempt.read_heartbeat()
    step = heartbeat.step if heartbeat is not None else 0
    if job.interrupted:
        return AttemptResult(trial.token, INTERRUPTED, step, None, message, {})
    message = f"{message}; see {folder.job(job.name).logs}"
    return AttemptResult(trial.token, LOST, step, LOST, message, {})


def _reports(folder: StudyDir, trial: Trial, metric: str) -> list[Report]:
    """Return the values that are new; of a step that stands there twice, the first counts."""
    values: dict[int, float] = {}
    for row in folder.trial(trial.number).read_metrics():
        if row["step"] not in trial.reported and metric in row["metrics"]:
            values.setdefault(row["step"], row["metrics"][metric]["value"])
    return [Report(step, trial.number, value) for step, value in values.items()]
