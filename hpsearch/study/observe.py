"""What the driver sees of the outside world in one look: jobs, and what attempts wrote."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from math import isfinite
from typing import NamedTuple

from hpsearch.cluster.executor import Executor, JobStatus, SchedulerSilentError
from hpsearch.cluster.failures import LOST, SILENT
from hpsearch.cluster.records import AttemptResult, Heartbeat, JobHeartbeat, MemberHeartbeat
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import do_together
from hpsearch.study.last_heartbeats import AgedHeartbeat, JobHeartbeats, OfJobs, heartbeats_of
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState

SILENCE_SECONDS = 600.0  # without a heartbeat, of which a training job gives one a minute
BUSY_SECONDS = 3600.0  # the same for one that starts, measures or saves, without a sign
LISTENING_SHARE = 0.2  # of the limit, in which this driver itself must have heard nothing
ROUND_SECONDS = 60.0  # that a round counts for at most, even if the clock jumped
HEARD_SECONDS = (1 - LISTENING_SHARE) * SILENCE_SECONDS - ROUND_SECONDS
"""since a heartbeat, after which this driver listens for a newer one; less if it looks rarely"""


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
    heartbeats: Mapping[int, Heartbeat] = field(default_factory=dict)
    """the last ones of attempts of which there may be news, by trial"""
    speeds: Mapping[str, float] = field(default_factory=dict)
    """steps a second of each member, by job"""
    left: frozenset[str] = frozenset()
    """names of the jobs that say that they are over, whose job of the scheduler may go on"""
    is_last: bool = True  # whether the look is over; else more of it follows

    @cached_property
    def ended(self) -> frozenset[str]:
        """The names of the jobs of which the executor, or they, say that they have ended."""
        ended = {name for name, status in self.jobs.items() if status.phase == "ended"}
        return self.left | ended


class RunningAttempt(NamedTuple):
    """What is known of a running attempt before its files are looked at."""

    trial: Trial
    job: Job
    status: JobStatus | None  # of the job; None where the executor does not know it
    aged: AgedHeartbeat | None  # the last one that the job gave for it
    said: MemberHeartbeat | None  # what the last one says, where it says that there is news
    heard_at: float | None  # when the job gave its last one, whether it named the attempt or not
    silence: float | None  # seconds without a heartbeat, None while they say little
    job_is_gone: bool
    job_has_left: bool  # and takes no more trials

    @property
    def trains(self) -> bool:
        """Whether it has no result yet, by the job's last word."""
        return self.said is not None and not self.job_is_gone and self.silence is None


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
            is_old = heartbeat is before or heartbeat == before  # mostly the former, which is quick
            passed = min(max(0.0, now - at), ROUND_SECONDS) if is_old else -seconds
            self._known[number] = (heartbeat, seconds + passed, now)
        return {number: seconds for number, (_, seconds, _) in self._known.items()}


MOST_NEWS = 1000  # attempts of which one part of a look tells, or those of one job


@dataclass
class Observer:
    folder: StudyDir
    executor: Executor
    metric: str
    is_rung: Callable[[Trial, int], bool]  # of which steps the values are told
    silences: Silences = field(default_factory=Silences, init=False)
    _of_jobs: JobHeartbeats = field(init=False)
    _last_look: float | None = field(default=None, init=False)
    _newest: OfJobs = field(default_factory=dict, init=False)
    _looked: dict[int, MemberHeartbeat] = field(default_factory=dict, init=False)
    """what the job said of attempts when their files were last looked at, by trial"""

    def __post_init__(self) -> None:
        self._of_jobs = JobHeartbeats(self.folder)

    def observe(self, state: StudyState, *, now: float) -> Iterator[Observation]:
        """Look at the executor once, then at the files of attempts of which there may be news.

        The heartbeats of jobs say of which: to look at the files of 100,000 that train takes longer
        than a round.

        Where there is much news it comes in parts, first of the jobs that are gone: places that
        they leave need not wait until all files are read. A part holds all that is new of its jobs.
        What a caller does not wait for is news again at the next look.

        The order makes what is seen a prefix of what was done, whatever is written meanwhile: jobs
        before results (a job that is gone writes no more), results before curves (an attempt that
        has ended adds no line), and in a job the last trial first, because the worker writes the
        first first. So the same reports are processed in the same order however the looks fall,
        as long as they come in one part.

        An executor that does not answer is no news of its jobs: none of them is gone.
        """
        live, folder = state.live_jobs(), self.folder
        jobs, gone = self._look(live, now)
        of_jobs = self._newest = self._of_jobs.read([job.name for job in live])
        told = {name: own[0] for name, own in of_jobs.items() if own is not None}
        left = frozenset(name for name, beat in told.items() if beat.has_left)
        speeds = {name: beat.steps_per_second for name, beat in told.items()}
        news = self._with_news(state, jobs, gone, now)
        attempts = sorted(news, key=lambda pair: pair[0].number, reverse=True)
        newest = heartbeats_of(folder, attempts, of_jobs, now=now)
        heartbeats = {number: aged.heartbeat for number, aged in newest.items()}
        # One that is suspended gives none; once it runs again, it is listened to anew.
        waiting = {name for name, status in jobs.items() if status.phase == "queued"}
        heard = (trial.number for trial, job in attempts if job.name not in waiting)
        known = {number: heartbeats.get(number) for number in heard}
        listened = self.silences.listen(known, now)
        looked_at = []
        for trial, job in attempts:
            status, aged, own = jobs.get(job.name), newest.get(trial.number), of_jobs[job.name]
            said, heard_at = _said(trial, own), None if own is None else own[1]
            seconds = listened.get(trial.number, 0.0)
            silence = _silence(trial, job, aged, heard_at=heard_at, listened=seconds, now=now)
            ends = job.name in gone, job.name in left
            attempt = RunningAttempt(trial, job, status, aged, said, heard_at, silence, *ends)
            looked_at.append(attempt)
        parts = _parts(looked_at)
        gone_now = gone - {job.name for _, job in attempts}  # of whose attempts all is known
        for number, part in enumerate(parts, 1):
            results, reports = self._read(part)
            # If a result cannot be read now, its job does not count as gone yet; otherwise the
            # result would never be read.
            unread = {own.job.name for own in part if own.trial.number not in results}
            gone_now |= gone & {own.job.name for own in part} - unread
            is_last = number == len(parts)
            yield Observation(jobs, gone_now, results, reports, heartbeats, speeds, left, is_last)
            gone_now = frozenset()

    def heartbeats(self, state: StudyState) -> dict[int, Heartbeat]:
        """Return the last heartbeats of running attempts that the last look saw, by trial.

        Of jobs of older versions, which give one for each attempt, what stands in its file now.
        """
        begun = [
            (trial, job)
            for trial, job in state.live_attempts()
            if job.name in self._newest
            and (job.began_at is not None or self._newest[job.name] is not None)
        ]
        newest = heartbeats_of(self.folder, begun, self._newest, now=0.0)
        return {number: aged.heartbeat for number, aged in newest.items()}

    def _look(
        self, live: Sequence[Job], now: float
    ) -> tuple[Mapping[str, JobStatus], frozenset[str]]:
        """Return what the executor says, and which jobs are gone; nothing if it does not answer."""
        executor = self.executor
        try:
            jobs = executor.look([(self.folder.job(job.name), job.id) for job in live])
        except SchedulerSilentError:
            return {}, frozenset()
        return jobs, frozenset(job.name for job in live if _is_gone(job, jobs, executor, now))

    def _with_news(
        self, state: StudyState, jobs: Mapping[str, JobStatus], gone: frozenset[str], now: float
    ) -> Iterator[tuple[Trial, Job]]:
        """Yield the running attempts of which there may be news.

        Left out are those of queued jobs, and those whose job, heard of not long ago, names no
        evaluation and no end since their files were last read: most of them, in microseconds each.
        """
        before, self._looked = self._looked, {}
        pause = now - (now if self._last_look is None else self._last_look)
        young, self._last_look = min(HEARD_SECONDS, SILENCE_SECONDS - 3 * pause), now
        for job in state.live.values():
            own = self._newest[job.name]
            if own is None and job.name in jobs and jobs[job.name].phase == "queued":
                continue
            is_heard = own is not None and job.name not in gone and now - own[1] < young
            for number in job.running:
                trial = state.trials[number]
                said, known = _said(trial, own) if is_heard else None, before.get(number)
                if said is not None and known is not None and known.knows(said):
                    self._looked[number] = known
                else:
                    yield trial, job

    def _read(
        self, news: Sequence[RunningAttempt]
    ) -> tuple[dict[int, AttemptResult], tuple[CurveReport, ...]]:
        """Return the results of attempts, by trial, and what they reported."""
        results: dict[int, AttemptResult | None] = {}

        def read_result(own: RunningAttempt) -> None:
            results[own.trial.number] = self._result(own)

        do_together([partial(read_result, own) for own in news if not own.trains])
        reports: list[CurveReport] = []
        for attempt in news:
            more, last = self._new_reports(attempt.trial)
            reports += more
            # A shared file system may show a file as it was before the heartbeat.
            if attempt.said is not None and last >= (attempt.said.measured or 0):
                self._looked[attempt.trial.number] = attempt.said
        ended = sorted(results)
        return {n: own for n in ended if (own := results[n]) is not None}, tuple(sorted(reports))

    def _new_reports(self, trial: Trial) -> tuple[list[CurveReport], int]:
        """Return the new values, and the last step that the file holds; -1 if it cannot be read.

        Of a step that stands there twice, the first counts.
        """
        reports: dict[int, CurveReport] = {}
        last = 0
        try:
            for row in self.folder.trial(trial.number).read_metrics():
                match row:
                    case {"step": int(step), "metrics": {**metrics}}:
                        last = max(last, step)
                        match metrics.get(self.metric):
                            case {"value": float(value)} if isfinite(value):
                                is_last = row.get("last") is True
                                report = CurveReport(step, trial.number, value, is_last)
                                reports.setdefault(step, report)
        except (CorruptError, DiskError):
            return [], -1
        if trial.told is not None:
            return [], last
        new = [own for step, own in reports.items() if step not in trial.reported]
        return [own for own in new if self.is_rung(trial, own.step)], last

    def _result(self, own: RunningAttempt) -> AttemptResult | None:
        """Return how the running attempt ended; one whose job is gone without a word is lost.

        A job that was asked to leave and had nothing to save yet was interrupted, and so was one
        that never began.
        """
        trial, job, status, silence = own.trial, own.job, own.status, own.silence
        assert trial.token is not None
        attempt = self.folder.trial(trial.number).attempt(trial.attempts)
        step = 0 if own.aged is None else own.aged.heartbeat.step
        try:
            result = attempt.read_result()
            if result is not None:
                attempt.flush()
                if result.token == trial.token:
                    return result
            has_begun, message = attempt.has_begun(), "the job ended without a result"
        except DiskError:
            return None  # no news, as above
        except CorruptError as error:
            has_begun, message = True, str(error)
            if not own.job_is_gone and own.aged is None and own.heard_at is not None:
                # The job goes on without it, and will write no other result.
                return AttemptResult(trial.token, "lost", step, LOST, message, {})
        if not own.job_is_gone:
            if own.job_has_left and not has_begun and not _is_first(trial, job):
                return AttemptResult(trial.token, "interrupted", step, None, message, {})
            if status is None or status.phase != "running" or silence is None:
                return None
            message = f"the job gave no heartbeat for {silence:.0f} seconds"
            return AttemptResult(trial.token, "lost", step, SILENT, message, {})
        has_begun = has_begun or own.aged is not None
        if job.interrupted or _never_began(trial, job, status, has_begun=has_begun):
            return AttemptResult(trial.token, "interrupted", step, None, message, {})
        kind = status.failure if status is not None and status.failure is not None else LOST
        message = f"{message}; see {self.folder.job(job.name).logs}"
        return AttemptResult(trial.token, "lost", step, kind, message, {})


def _parts(news: Sequence[RunningAttempt]) -> list[list[RunningAttempt]]:
    """Divide attempts by jobs, first those that are gone, then the oldest; few stay together."""
    if len(news) <= MOST_NEWS:
        return [list(news)]
    by_job: dict[str, list[RunningAttempt]] = {}
    for own in sorted(news, key=lambda own: (not own.job_is_gone, own.job.name)):
        by_job.setdefault(own.job.name, []).append(own)
    parts: list[list[RunningAttempt]] = [[]]
    for of_job in by_job.values():
        if len(parts[-1]) + len(of_job) > MOST_NEWS and parts[-1]:
            parts.append([])
        parts[-1] += of_job
    return parts


def _said(trial: Trial, own: tuple[JobHeartbeat, float] | None) -> MemberHeartbeat | None:
    """Return what a job says of an attempt that trains, None if it says nothing of its news."""
    member = None if own is None else own[0].member(trial.number, trial.attempts)
    return None if member is None or member.measured is None else member


def _is_gone(job: Job, jobs: Mapping[str, JobStatus], executor: Executor, now: float) -> bool:
    """Return whether a job has ended; one that may still be on its way has not."""
    if job.name in jobs:
        return jobs[job.name].phase == "ended"
    return now - job.announced_at >= executor.patience


def _silence(
    trial: Trial,
    job: Job,
    aged: AgedHeartbeat | None,
    *,
    heard_at: float | None,
    listened: float,
    now: float,
) -> float | None:
    """Return the seconds without a heartbeat, None while they say little.

    One that was given to its job later may wait there for others, of which heartbeats tell.
    """
    # One look that finds no file, or cannot read it, says little.
    limit = BUSY_SECONDS if aged is None or aged.heartbeat.is_busy else SILENCE_SECONDS
    if aged is not None:
        age = aged.age
    elif job.began_at is None:
        age = 0.0
    else:
        is_first, given_at = _is_first(trial, job), trial.announced_at
        age = now - (job.began_at if is_first else max(given_at, heard_at or 0.0))
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
