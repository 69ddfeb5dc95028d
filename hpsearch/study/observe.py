"""What the driver sees of the outside world in one look: jobs, and what attempts wrote."""

from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path

from hpsearch.cluster.executor import Executor, JobStatus, SchedulerSilentError
from hpsearch.cluster.failures import LOST, SILENT
from hpsearch.cluster.messages import AttemptResult, Heartbeat
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.trial_dir import AttemptDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState

SILENCE_SECONDS = 600.0
"""for which a training attempt may give no sign of life; it gives one every two seconds"""
BUSY_SECONDS = 3600.0
"""the same of one that starts, measures or saves, which it does without a sign between"""


@dataclass(frozen=True, order=True)
class Report:
    """A value of the objective on a trial's learning curve."""

    step: int
    trial: int
    value: float


@dataclass(frozen=True)
class Observation:
    """One look at all live jobs and the attempts in them."""

    jobs: Mapping[str, JobStatus]
    """what the executor says, by name; without the jobs of which it knows nothing"""
    gone: frozenset[str]
    """names of the live jobs that do not run any more, and never will again"""
    results: Mapping[int, AttemptResult] = field(default_factory=dict)
    """by trial: how the attempt that is the trial ended"""
    reports: tuple[Report, ...] = ()
    """values that have not been told yet, by step and then by trial"""
    beats: Mapping[int, Heartbeat] = field(default_factory=dict)
    """by trial: the last sign of life of its running attempt; for who shows how far they are"""


IsRung = Callable[[Trial, int], bool]


class Curves:
    """Which curves held nothing new when they were last read, so that they need not be read again.

    It saves time and nothing else: a driver that begins without it sees the same.
    """

    def __init__(self) -> None:
        self._known: dict[int, Stamp] = {}
        """of the files in which there was nothing new, by trial"""

    def news(self, folder: StudyDir, trial: Trial, metric: str, is_rung: IsRung) -> list[Report]:
        """Return the values of a trial that have not been told and should be."""
        stamp = _stamp(folder.trial(trial.number).metrics)
        if stamp is None or self._known.get(trial.number) == stamp:
            return []
        try:
            reports = [one for one in _reports(folder, trial, metric) if is_rung(trial, one.step)]
        except DiskError:  # no news: a file system that is shared may fail for a moment
            return []
        if not reports:
            self._known[trial.number] = stamp
        return reports

    def forget_all_but(self, trials: Container[int]) -> None:
        """Forget the curves of all other trials."""
        self._known = {trial: one for trial, one in self._known.items() if trial in trials}


Stamp = tuple[int, int, int]
"""of a file: what it is, its size, and when it was written"""


def _stamp(path: Path) -> Stamp | None:
    """Return None if there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns


def observe(
    state: StudyState,
    folder: StudyDir,
    executor: Executor,
    metric: str,
    is_rung: IsRung,
    curves: Curves,
    *,
    now: float,
) -> Observation:
    """Look at the executor once, then at the files of every running attempt.

    The order makes what is seen a prefix of what was done, whatever is written meanwhile: jobs
    before results (a job that is gone writes no more), results before curves (an attempt that has
    ended adds no line), and in a job the last trial first, because the worker writes the first
    first. So the same reports are processed in the same order however the looks fall.

    An executor that does not answer is no news of its jobs: none of them is gone.
    """
    live = state.live_jobs()
    try:
        jobs = executor.look([(folder.job(job.name), job.id) for job in live])
        gone = frozenset(job.name for job in live if _is_gone(job, jobs, executor, now))
    except SchedulerSilentError:
        jobs, gone = {}, frozenset()
    attempts = sorted(state.live_attempts(), key=lambda pair: pair[0].number, reverse=True)
    results, beats = {}, {}
    for trial, job in attempts:
        beat = folder.trial(trial.number).attempt(trial.attempts).read_heartbeat()
        if beat is not None:
            beats[trial.number] = beat
        is_gone, status = job.name in gone, jobs.get(job.name)
        result = _result(folder, trial, job, status, beat, is_gone=is_gone, now=now)
        if result is not None:
            results[trial.number] = result
    reports = [
        report
        for trial, _ in attempts
        if trial.told is None
        for report in curves.news(folder, trial, metric, is_rung)
    ]
    curves.forget_all_but({trial.number for trial, _ in attempts})
    return Observation(jobs, gone, dict(sorted(results.items())), tuple(sorted(reports)), beats)


def _is_gone(job: Job, jobs: Mapping[str, JobStatus], executor: Executor, now: float) -> bool:
    """Return whether a job has ended; one that may still be on its way has not."""
    if job.name in jobs:
        return jobs[job.name].phase == "ended"
    return now - job.announced_at >= executor.patience


def _result(
    folder: StudyDir,
    trial: Trial,
    job: Job,
    status: JobStatus | None,
    beat: Heartbeat | None,
    *,
    is_gone: bool,
    now: float,
) -> AttemptResult | None:
    """Return how the running attempt ended; one whose job is gone without a word is lost.

    A job that was asked to leave and had nothing to save yet was interrupted, and so was one that
    never began.
    """
    assert trial.token is not None
    attempt = folder.trial(trial.number).attempt(trial.attempts)
    try:
        result = attempt.read_result()
        message = "the job ended without a result"
    except DiskError:
        return None  # no news, as above
    except CorruptError as error:
        result, message = None, str(error)
    if result is not None and result.token == trial.token:
        return result
    if not is_gone:
        silence = _silence(trial, job, attempt, beat, now)
        if status is None or status.phase != "running" or silence is None:
            return None
        message = f"the job gave no sign of life for {silence:.0f} seconds"
        return AttemptResult(trial.token, "lost", _last_step(beat), SILENT, message, {})
    step = _last_step(beat)
    if job.interrupted or _never_began(trial, job, status, beat):
        return AttemptResult(trial.token, "interrupted", step, None, message, {})
    kind = status.failure if status is not None and status.failure is not None else LOST
    message = f"{message}; see {folder.job(job.name).logs}"
    return AttemptResult(trial.token, "lost", step, kind, message, {})


def _silence(
    trial: Trial, job: Job, attempt: AttemptDir, beat: Heartbeat | None, now: float
) -> float | None:
    """Return for how long nothing was heard of an attempt, None while that is no wonder."""
    silence = attempt.seconds_since_heartbeat(now)
    if beat is None or silence is None:
        is_first = any(number == trial.number for number, _, _ in job.groups[0])
        silence = now - job.began_at if is_first and job.began_at is not None else 0.0
        return silence if silence >= BUSY_SECONDS else None
    limit = BUSY_SECONDS if beat.is_busy else SILENCE_SECONDS
    return silence if silence >= limit else None


def _never_began(trial: Trial, job: Job, status: JobStatus | None, beat: Heartbeat | None) -> bool:
    """Return whether a job was never submitted, or ended before it took up a trial given later.

    It gives a sign of life before it does anything else with one, so whatever ended the job before
    is no fault of that trial's.
    """
    if job.id is None and status is None:
        return True
    is_first = any(number == trial.number for number, _, _ in job.groups[0])
    return not is_first and beat is None


def _last_step(beat: Heartbeat | None) -> int:
    return beat.step if beat is not None else 0


def _reports(folder: StudyDir, trial: Trial, metric: str) -> list[Report]:
    """Return the values that are new; of a step that stands there twice, the first counts."""
    values: dict[int, float] = {}
    for row in folder.trial(trial.number).read_metrics():
        match row:
            case {"step": int(step), "metrics": {**metrics}} if step not in trial.reported:
                match metrics.get(metric):
                    case {"value": float(value)} if isfinite(value):
                        values.setdefault(step, value)
    return [Report(step, trial.number, value) for step, value in values.items()]
