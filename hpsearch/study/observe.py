"""What the driver sees of the outside world in one look: jobs, and what attempts wrote."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite

from hpsearch.cluster.executor import Executor, JobStatus, SchedulerSilentError
from hpsearch.cluster.failures import LOST, SILENT
from hpsearch.cluster.records import AttemptResult, Heartbeat
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState

SILENCE_SECONDS = 600.0  # without a heartbeat, of which a training job gives one a minute
BUSY_SECONDS = 3600.0  # the same for one that starts, measures or saves, without a sign
LISTENING_SHARE = 0.2  # of the limit, in which this driver itself must have heard nothing
ROUND_SECONDS = 60.0  # that a round counts for at most, even if the clock jumped


@dataclass(frozen=True, order=True)
class CurveReport:
    step: int
    trial: int
    value: float
    is_last: bool = False  # whether it ended the training before all steps were made


@dataclass(frozen=True)
class Observation:
    jobs: Mapping[str, JobStatus]  # what the executor says, by name of the jobs that it knows
    gone: frozenset[str]  # names of the live jobs that do not run any more, and never will again
    results: Mapping[int, AttemptResult] = field(default_factory=dict)  # by trial
    reports: tuple[CurveReport, ...] = ()  # values to be told, by step and then by trial
    heartbeats: Mapping[int, Heartbeat] = field(default_factory=dict)  # the last ones, by trial


@dataclass(frozen=True)
class AgedHeartbeat:
    heartbeat: Heartbeat
    age: float  # seconds, by the file system's clock


class Silences:
    """For how long this driver itself has heard nothing new of attempts.

    The age of a file follows from two clocks, of the file system and of this machine, and either
    may be wrong by minutes, or jump when a machine wakes up. So what is old counts as silent only
    where this driver has waited for something new, in rounds that came one after the other.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[Heartbeat | None, float, float]] = {}
        """by trial: its last heartbeat, the seconds without a newer one, when that was so"""

    def listen(
        self, newest_heartbeats: Mapping[int, Heartbeat | None], now: float
    ) -> dict[int, float]:
        """Return the seconds without a newer heartbeat, by trial; called once a round."""
        known, self._known = self._known, {}
        for number, heartbeat in newest_heartbeats.items():
            before, seconds, at = known.get(number, (heartbeat, 0.0, now))
            passed = min(max(0.0, now - at), ROUND_SECONDS) if heartbeat == before else -seconds
            self._known[number] = (heartbeat, seconds + passed, now)
        return {number: seconds for number, (_, seconds, _) in self._known.items()}


@dataclass
class Observer:
    folder: StudyDir
    executor: Executor
    metric: str
    is_rung: Callable[[Trial, int], bool]  # of which steps the values are told
    silences: Silences = field(default_factory=Silences, init=False)
    _known_curves: dict[int, tuple[int, int, int]] = field(default_factory=dict, init=False)
    """of files with nothing new, by trial: what it is, its size, and when it was written"""

    def observe(self, state: StudyState, *, now: float) -> Observation:
        """Look at the executor once, then at the files of every running attempt.

        The order makes what is seen a prefix of what was done, whatever is written meanwhile: jobs
        before results (a job that is gone writes no more), results before curves (an attempt that
        has ended adds no line), and in a job the last trial first, because the worker writes the
        first first. So the same reports are processed in the same order however the looks fall.

        An executor that does not answer is no news of its jobs: none of them is gone.
        """
        live, folder, executor = state.live_jobs(), self.folder, self.executor
        try:
            jobs = executor.look([(folder.job(job.name), job.id) for job in live])
            gone = frozenset(job.name for job in live if _is_gone(job, jobs, executor, now))
        except SchedulerSilentError:
            jobs, gone = {}, frozenset()
        attempts = sorted(state.live_attempts(), key=lambda pair: pair[0].number, reverse=True)
        results, newest = {}, last_heartbeats(folder, attempts, now=now)
        heartbeats = {number: aged.heartbeat for number, aged in newest.items()}
        known = {trial.number: heartbeats.get(trial.number) for trial, _ in attempts}
        listened = self.silences.listen(known, now)
        for trial, job in attempts:
            aged, status = newest.get(trial.number), jobs.get(job.name)
            silence = _silence(trial, job, aged, listened[trial.number], now)
            result = self._result(trial, job, status, aged, silence, is_gone=job.name in gone)
            if result is not None:
                results[trial.number] = result
        training = [trial for trial, _ in attempts if trial.told is None]
        reports = [report for trial in training for report in self._new_reports(trial)]
        stamps = self._known_curves.items()
        self._known_curves = {number: stamp for number, stamp in stamps if number in listened}
        # If a result cannot be read now, its job does not count as gone yet; otherwise the result
        # would never be read.
        gone -= {job.name for trial, job in attempts if trial.number not in results}
        results = dict(sorted(results.items()))
        return Observation(jobs, gone, results, tuple(sorted(reports)), heartbeats)

    def _new_reports(self, trial: Trial) -> list[CurveReport]:
        try:
            status = self.folder.trial(trial.number).metrics.stat()
        except OSError:
            return []
        stamp = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._known_curves.get(trial.number) == stamp:
            return []
        try:
            reports = self._reports(trial)
        except (CorruptError, DiskError):  # no news: a shared file system may fail for a moment
            return []
        if not reports:
            self._known_curves[trial.number] = stamp
        return reports

    def _reports(self, trial: Trial) -> list[CurveReport]:
        """Return the new values; of a step that stands there twice, the first counts."""
        reports: dict[int, CurveReport] = {}
        for row in self.folder.trial(trial.number).read_metrics():
            match row:
                case {"step": int(step), "metrics": {**metrics}} if step not in trial.reported:
                    match metrics.get(self.metric):
                        case {"value": float(value)} if isfinite(value):
                            is_last = row.get("last") is True
                            report = CurveReport(step, trial.number, value, is_last)
                            reports.setdefault(step, report)
        return [report for step, report in reports.items() if self.is_rung(trial, step)]

    def _result(
        self,
        trial: Trial,
        job: Job,
        status: JobStatus | None,
        aged: AgedHeartbeat | None,
        silence: float | None,
        *,
        is_gone: bool,
    ) -> AttemptResult | None:
        """Return how the running attempt ended; one whose job is gone without a word is lost.

        A job that was asked to leave and had nothing to save yet was interrupted, and so was one
        that never began.
        """
        assert trial.token is not None
        attempt = self.folder.trial(trial.number).attempt(trial.attempts)
        step = 0 if aged is None else aged.heartbeat.step
        try:
            result, has_begun = attempt.read_result(), attempt.has_begun()
            if result is not None:
                attempt.flush()
            message = "the job ended without a result"
        except DiskError:
            return None  # no news, as above
        except CorruptError as error:
            result, has_begun, message = None, True, str(error)
        if result is not None and result.token == trial.token:
            return result
        if not is_gone:
            if status is None or status.phase != "running" or silence is None:
                return None
            message = f"the job gave no heartbeat for {silence:.0f} seconds"
            return AttemptResult(trial.token, "lost", step, SILENT, message, {})
        has_begun = has_begun or aged is not None
        if job.interrupted or _never_began(trial, job, status, has_begun=has_begun):
            return AttemptResult(trial.token, "interrupted", step, None, message, {})
        kind = status.failure if status is not None and status.failure is not None else LOST
        message = f"{message}; see {self.folder.job(job.name).logs}"
        return AttemptResult(trial.token, "lost", step, kind, message, {})


def last_heartbeats(
    folder: StudyDir, attempts: Sequence[tuple[Trial, Job]], *, now: float
) -> dict[int, AgedHeartbeat]:
    """Return the last heartbeats of running attempts, by trial; a job's file is read once."""
    files = {job.name: folder.job(job.name).heartbeat for _, job in attempts}
    of_jobs = {name: (file.try_read(), file.age(now)) for name, file in files.items()}
    newest = {}
    for trial, job in attempts:
        job_heartbeat, age = of_jobs[job.name]
        if job_heartbeat is not None:
            heartbeat = job_heartbeat.of(trial.number, trial.attempts)
        else:  # a job of an older version, see `AttemptDir.heartbeat`
            file = folder.trial(trial.number).attempt(trial.attempts).heartbeat
            heartbeat, age = file.try_read(), file.age(now)
        if heartbeat is not None and age is not None:
            newest[trial.number] = AgedHeartbeat(heartbeat, age)
    return newest


def _is_gone(job: Job, jobs: Mapping[str, JobStatus], executor: Executor, now: float) -> bool:
    """Return whether a job has ended; one that may still be on its way has not."""
    if job.name in jobs:
        return jobs[job.name].phase == "ended"
    return now - job.announced_at >= executor.patience


def _silence(
    trial: Trial, job: Job, aged: AgedHeartbeat | None, listened: float, now: float
) -> float | None:
    """Return the seconds without a heartbeat, None while they say little."""
    # One look that finds no file, or cannot read it, says little.
    limit = BUSY_SECONDS if aged is None or aged.heartbeat.is_busy else SILENCE_SECONDS
    if aged is not None:
        age = aged.age
    else:
        began = job.began_at if _is_first(trial, job) else None
        age = 0.0 if began is None else now - began
    return age if age >= limit and listened >= LISTENING_SHARE * limit else None


def _never_began(trial: Trial, job: Job, status: JobStatus | None, *, has_begun: bool) -> bool:
    """Return whether a job was never submitted, or ended before a trial that it was given later.

    It begins a trial with a heartbeat, so what ended it before is not the trial's fault.
    """
    if job.id is None and status is None:
        return True
    return not has_begun and not _is_first(trial, job)


def _is_first(trial: Trial, job: Job) -> bool:
    return any(number == trial.number for number, _, _ in job.groups[0])
