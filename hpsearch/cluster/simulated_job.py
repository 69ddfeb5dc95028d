"""What a job of a simulated cluster does: it writes what the real worker writes, without training.

A job trains its members together, from the newest step that all of them have saved to the nearest
step at which something is due for any of them: an evaluation, a checkpoint, the end. Between two
such steps lie as many seconds as `Course.seconds` gives for a whole trial, in proportion. There it
obeys `control.json`, writes learning curves, checkpoints (empty folders) and signs of life, and at
the end its results, with the worker's own classes. A pilot then waits for more trials. A sign of
life is given at these steps alone, not every two seconds, and bears the cluster's time.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from hpsearch.cluster.failures import CODE
from hpsearch.cluster.member import FENCED, Member
from hpsearch.cluster.messages import Assignment, AttemptResult, Heartbeat
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import HpsearchError
from hpsearch.trainers.config import TrainerConfig
from hpsearch.trainers.evaluation import Evaluation
from hpsearch.trainers.metrics import metric_names
from hpsearch.trainers.rho import Rho

HALF_WIDTH = 0.01
"""of the intervals that are measured"""
GLANCE_SECONDS = 0.5
"""between two looks of a pilot for more trials"""


@dataclass(frozen=True)
class Course:
    """How trials go: pure functions, so that an attempt repeats what the one before it did."""

    seconds: Callable[[TrainerConfig], float]
    """that a whole trial takes"""
    value: Callable[[TrainerConfig, int], float]
    """what a trial measures at a step"""
    furthest: dict[int, int] = field(default_factory=dict)
    """step that any attempt has reached, by trial"""
    repeated: list[int] = field(default_factory=list)
    """steps that each attempt had to make again: from where it went on to the furthest"""


class SimulatedJob:
    """One job; implements `simulated_cluster.Work`."""

    def __init__(self, job: JobDir, course: Course) -> None:
        """Take the folder of the job and how its trials go."""
        self._job = job
        self._course = course
        self._members: list[Member] = []
        self._step: dict[int, int] = {}
        self._since = 0.0
        """when the present stride began"""
        self._stride = 0
        """steps to the next one at which something is due"""
        self._seconds = 0.0
        """that they take"""
        self._number = 1
        """of the next trials that a pilot is given"""
        self._idle_since: float | None = None
        """when a pilot had trained all that it was given"""

    def begin(self, now: float) -> float | None:
        """Read what to train, and go on from what was saved."""
        self._take(self._job.read().assignments)
        return self._plan(now)

    def _take(self, assignments: Sequence[Assignment]) -> None:
        """Open trials, and go on from what was saved."""
        for assignment in assignments:
            try:
                member = Member.open(self._job.study, assignment)
            except HpsearchError as error:
                attempt = self._job.study.trial(assignment.trial).attempt(assignment.attempt)
                failed = AttemptResult(assignment.token, "failed", 0, CODE, str(error), {})
                attempt.write_result(failed)
                continue
            if member.stop_reason() is None:
                self._members.append(member)
        self._resume()
        for member in list(self._members):
            self._finish(member)

    def go_on(self, now: float) -> float | None:
        """Do what is due at the step that has been reached."""
        self._progress(self._stride)
        self._obey()
        for member in list(self._members):
            self._evaluate(member)
            self._finish(member)
        return self._plan(now)

    def leave(self, now: float) -> None:
        """Save each trial at the step that has been reached, and say that it was interrupted."""
        self._progress(self._steps_since(now))
        self._obey()
        for member in self._members:
            _save(member, self._step_of(member))
            member.end("interrupted", self._step_of(member))
        self._members.clear()

    def vanish(self, now: float) -> None:
        """Leave no word."""
        self._progress(self._steps_since(now))
        self._members.clear()

    def _resume(self) -> None:
        saved = [_saved(member) for member in self._members]
        common = set[int].intersection(*saved) if saved else set[int]()
        for member, steps in zip(self._members, saved, strict=True):
            step = max(common or steps, default=0)
            self._step[member.assignment.trial] = step
            self._course.repeated.append(
                self._course.furthest.get(member.assignment.trial, 0) - step
            )
            member.trial.forget_metrics_after(step)

    def _plan(self, now: float) -> float | None:
        """Give signs of life and return the seconds to the next step at which something is due."""
        if not self._members:
            return self._wait(now)
        self._stride = min(
            due - self._step_of(member) % due
            for member in self._members
            for due in _due(member.config)
        )
        slowest = max(self._course.seconds(one.config) / one.config.steps for one in self._members)
        self._since, self._seconds = now, slowest * self._stride
        for member in self._members:
            _beat(member, self._step_of(member), now, 1 / slowest)
        return self._seconds

    def _wait(self, now: float) -> float | None:
        """Take more trials, or look for them again in a moment; None if there will be none."""
        patience = self._job.read().pilot_seconds
        if patience <= 0:
            return None
        given = self._job.read_next(self._number)
        if given:
            self._number, self._idle_since = self._number + 1, None
            self._take(given)
            return self._plan(now)
        self._idle_since = now if self._idle_since is None else self._idle_since
        is_over = given is not None or now - self._idle_since > patience
        return None if is_over else GLANCE_SECONDS

    def _steps_since(self, now: float) -> int:
        """Return the steps of the present stride that have been made."""
        share = (now - self._since) / self._seconds if self._seconds > 0 else 1.0
        return min(self._stride, int(share * self._stride))

    def _progress(self, steps: int) -> None:
        for member in self._members:
            trial = member.assignment.trial
            self._step[trial] += steps
            reached = max(self._step[trial], self._course.furthest.get(trial, 0))
            self._course.furthest[trial] = reached

    def _step_of(self, member: Member) -> int:
        return self._step[member.assignment.trial]

    def _obey(self) -> None:
        for member in list(self._members):
            reason = member.stop_reason()
            if reason is not None:
                self._members.remove(member)
                if reason != FENCED:
                    member.end(reason, self._step_of(member))

    def _evaluate(self, member: Member) -> None:
        step, config = self._step_of(member), member.config
        if step % config.evaluation.interval == 0:
            member.report(step, Evaluation(self._measure(member), {}, {}))
        if step % config.checkpoint.interval == 0 or step == config.steps:
            _save(member, step)

    def _finish(self, member: Member) -> None:
        if self._step_of(member) >= member.config.steps:
            member.end("finished", self._step_of(member), metrics=self._measure(member))
            self._members.remove(member)

    def _measure(self, member: Member) -> dict[str, Rho]:
        value = self._course.value(member.config, self._step_of(member))
        names = metric_names(member.config.measured_against())
        return {name: Rho(value, value - HALF_WIDTH, value + HALF_WIDTH, 0.0, 20) for name in names}


def _due(config: TrainerConfig) -> tuple[int, int, int]:
    return config.evaluation.interval, config.checkpoint.interval, config.steps


def _save(member: Member, step: int) -> None:
    (member.trial.checkpoints / f"step-{step}").mkdir(parents=True, exist_ok=True)


def _saved(member: Member) -> set[int]:
    folders = member.trial.checkpoints.glob("step-*")
    return {int(folder.name.partition("-")[2]) for folder in folders}


def _beat(member: Member, step: int, now: float, speed: float) -> None:
    saved = max(_saved(member), default=0)
    member.attempt.write_heartbeat(Heartbeat(now, step, saved, speed, "simulated", 1, False))
    os.utime(member.attempt.heartbeat, (now, now))
