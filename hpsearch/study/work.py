"""The work of a study: steps made and to come, their cost, the time left, what its jobs did.

The time left is a range, once two estimates agree roughly: that since the beginning counts the
start of jobs as training, and that of just now knows nothing of evaluations and later jobs.
"""

import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Final

from hpsearch.cluster.failures import CANCELLED, DIVERGED, FREE, NAN
from hpsearch.cluster.records import Heartbeat
from hpsearch.study.last_heartbeats import last_heartbeats
from hpsearch.study.records import Job
from hpsearch.study.requests import read_note
from hpsearch.study.state import BUSY, PAUSED
from hpsearch.study.view import StudyView

SHARE_TO_JUDGE_BY = 0.01  # of all steps: before, starting up would pass for training


@dataclass(frozen=True)
class Cost:
    gpu_hours_spent: float
    gpu_hours_left: float | None  # at the price so far; None while too little was made
    seconds_left: float | None  # at the speed of the running jobs, None while none runs


def cost(view: StudyView) -> Cost:
    """Return what the study has cost and will, as far as a driver has looked."""
    state = view.state
    spent = state.gpu_seconds(known_until(view)) / 3600
    made, total = steps_made(view), steps_in_all(view)
    has_steps_left = state.status in (*BUSY, PAUSED) and not state.population.closing
    if not has_steps_left or made < SHARE_TO_JUDGE_BY * total:
        return Cost(spent, None, None)
    speed, left = steps_per_second(view), max(0, total - made)
    hours, cap = spent * left / made, view.study.spec.budget.gpu_hours
    if cap is not None:
        hours = min(hours, max(0.0, cap - spent))
    return Cost(spent, hours, left / speed if speed else None)


def known_until(view: StudyView) -> float:
    """Return until when it is known what jobs did, since the epoch; 0 where it is not."""
    if view.is_driven:
        return time.time()
    note = read_note(view.folder)
    return 0.0 if note is None else note.at


def pace(view: StudyView, heartbeats: Mapping[int, Heartbeat]) -> tuple[int, float]:
    """Return steps made and steps per second; ended trials count as far as they came."""
    running = {trial.number for trial, _ in view.state.live_attempts()}
    beats = {number: heartbeat for number, heartbeat in heartbeats.items() if number in running}
    steps = 0
    for number, trial in view.state.trials.items():
        reached = max(trial.step, beats[number].step if number in beats else 0)
        steps += max(0, reached - trial.first_step)
    return steps, sum(heartbeat.steps_per_second for heartbeat in beats.values())


def steps_per_second(view: StudyView) -> float:
    return sum(heartbeat.steps_per_second for heartbeat in _heartbeats(view).values())


def is_compiling(view: StudyView) -> bool:
    """Return whether a job compiles its kernels, or waits for one that does."""
    jobs = (view.folder.job(job.name) for job in view.state.live_jobs())
    return any(job.compiles.exists() for job in jobs)


def steps_in_all(view: StudyView) -> int:
    """Return the training steps of the whole budget; trials to come count as the base."""
    asked = view.steps_told() + sum(view.steps(trial) for trial in view.state.unfinished())
    to_come = max(0, view.study.spec.budget.trials - view.state.num_asked)
    population, base = view.study.spec.population, next(iter(view.study.bases.values()))
    per_trial = int(base["steps"]) if population is None else population.interval
    return max(1, asked + to_come * per_trial)


def steps_made(view: StudyView) -> int:
    waiting = sum(max(0, trial.step - trial.first_step) for trial in view.state.waiting())
    trials, beats = view.state.trials, _heartbeats(view)
    running = sum(max(0, beats[number].step - trials[number].first_step) for number in beats)
    return view.steps_told() + waiting + running


def _heartbeats(view: StudyView) -> dict[int, Heartbeat]:
    newest = last_heartbeats(view.folder, list(view.state.live_attempts()), now=time.time())
    return {number: aged.heartbeat for number, aged in newest.items()}


SETTLED = 2.0  # the longer estimate may be at most this many times the shorter
SETTLED_SHARE = 0.02  # of all steps to be made; there is no estimate before this share is made
SECONDS_TO_JUDGE_BY = 10.0  # since the beginning; the first heartbeats say little about the speed
RECENT = 1 / 3  # this last share of the time so far counts as recent

TimeLeft = tuple[float, float]  # seconds: at least, at most
DONE: TimeLeft = (0.0, 0.0)


class Pacer:
    """Estimates the time left from the steps at looks that follow each other."""

    def __init__(self, made: int) -> None:
        self._before = made
        self._looks = deque([(0.0, made)])  # seconds since the beginning, and steps made then
        self._newest = 0.0  # when the last steps were seen: jobs tell them now and then

    def read(self, elapsed: float, made: int, total: int) -> TimeLeft | None:
        """Return the time left, ``made`` of ``total`` steps made; None while it is measured."""
        if made != self._looks[-1][1]:
            self._newest = elapsed
        self._looks.append((elapsed, made))
        while len(self._looks) > 2 and self._looks[1][0] <= elapsed * (1 - RECENT):
            self._looks.popleft()
        left, gained = total - made, made - self._before
        if left <= 0:
            return DONE
        seconds, steps = self._looks[0]
        is_early = elapsed < SECONDS_TO_JUDGE_BY
        if is_early or gained < SETTLED_SHARE * (total - self._before) or made == steps:
            return None
        return _settled(left * elapsed / gained, left * (self._newest - seconds) / (made - steps))


def time_left(view: StudyView, now: float) -> TimeLeft | None:
    """Return the time left at a single look, by the speed now and the gains since trials began."""
    total, made, speed = steps_in_all(view), steps_made(view), steps_per_second(view)
    if made >= total and not view.state.is_undecided:
        return DONE
    slow = 0.0
    for number, heartbeat in _heartbeats(view).items():
        trial = view.state.trials[number]
        if trial.began_at is not None and now > trial.began_at:
            gained = max(0, heartbeat.step - max(trial.step, trial.first_step))
            slow += gained / (now - trial.began_at)
    if not (speed and slow) or made < SETTLED_SHARE * total:
        return None
    return _settled((total - made) / speed, (total - made) / slow)


def _settled(seconds: float, others: float) -> TimeLeft | None:
    low, high = sorted((seconds, others))
    return (low, high) if high <= SETTLED * low else None


WAITED, TRAINED, PLAYED = "waited", "trained", "played a match"
LEFT, FAILED = "was interrupted", "failed"
KINDS: Final = (WAITED, TRAINED, PLAYED, LEFT, FAILED)
NO_FAILURES: Final = FREE | {CANCELLED, "interrupted", NAN, DIVERGED}
"""how attempts end without a failure of their job: by the user, the cluster, or for themselves"""


@dataclass(frozen=True)
class JobSpan:
    """A time in which a job was in one state; seconds since the epoch."""

    job: str
    kind: str  # of KINDS
    begin: float
    end: float
    gpus: float  # that it occupied

    @property
    def hours(self) -> float:
        return (self.end - self.begin) / 3600


def spans(view: StudyView, until: float) -> list[JobSpan]:
    """Return what all jobs did until a moment, waits and runs, by when they were announced."""
    every = []
    for job in view.state.jobs.values():
        end = until if job.ended_at is None else job.ended_at
        began = end if job.began_at is None else job.began_at
        announced = job.announced_at
        every.append(JobSpan(job.name, WAITED, announced, max(announced, began), 0.0))
        if job.began_at is not None:
            every.append(JobSpan(job.name, kind_of(view, job), began, max(began, end), job.gpus))
    return every


def kind_of(view: StudyView, job: Job) -> str:
    """Return what a job that ran did, or how it ended: one of KINDS."""
    if job.is_silent or (job.is_leaving and not _lost(view, job) <= NO_FAILURES):
        return FAILED
    if job.is_leaving or job.interrupted:
        return LEFT
    return PLAYED if job.match is not None else TRAINED


def _lost(view: StudyView, job: Job) -> set[str]:
    attempts = [(number, attempt) for group in job.groups for number, attempt, _ in group]
    return {
        loss.kind
        for number, attempt in attempts
        for loss in view.state.trials[number].losses
        if loss.attempt == attempt
    }


def counts_over_time(job_spans: Sequence[JobSpan]) -> tuple[list[float], dict[str, list[int]]]:
    """Return when the number of jobs of some kind changes, and how many there are from then on."""
    times = sorted({moment for span in job_spans for moment in (span.begin, span.end)})
    counts: dict[str, list[int]] = {}
    for kind in KINDS:
        changes = dict.fromkeys(times, 0)
        for span in job_spans:
            if span.kind == kind:
                changes[span.begin] += 1
                changes[span.end] -= 1
        series = [*accumulate(changes.values())]
        if any(series):
            counts[kind] = series
    return times, counts
