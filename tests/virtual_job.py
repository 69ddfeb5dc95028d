"""What a job of a simulated cluster does: it writes what the real worker writes, without training.

A job trains its members together to the nearest step at which something is due for any of them: an
evaluation, a checkpoint, the end, or another's beginning. They go on from the newest step that all
of them have saved; in a pilot that may be refilled, each from its own. Between two such steps lie
as many seconds as `Course.seconds` gives for a whole trial, in proportion. There the job obeys
`control.json`, writes learning curves, checkpoints (empty folders) and heartbeats, and at the
end its results, with the worker's own classes. A pilot that may be refilled lets others take the
rows of those that have ended, as the worker does; one that has nothing left waits for more trials.
A heartbeat is given at these steps alone, not every two seconds, and bears the cluster's time.

Matches without players: a checkpoint's skill is what its ancestors' intervals have taught it.
"""

import functools
import hashlib
import math
import os
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from hpsearch import yaml_file
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import (
    Member,
    plain_metrics,
    steps_to_resume,
    steps_until_next,
    steps_until_together,
)
from hpsearch.cluster.records import (
    JobHeartbeat,
    JobPlan,
    MatchPlan,
    MatchPlayer,
    MemberHeartbeat,
    Start,
)
from hpsearch.cluster.study_dir import JobDir, MatchGames, StudyDir
from hpsearch.trainers.config import TrainerConfig, read_config, shape_key
from hpsearch.trainers.evaluation import Evaluation, Games
from hpsearch.trainers.metrics import metric_names
from hpsearch.trainers.rho import Rho

MEAN_MOVES = 20.0
"""of two players without skill"""
Teaching = Callable[[TrainerConfig, int], float]
"""what a configuration teaches from a step to its end"""


def teaches_nothing(config: TrainerConfig, first: int) -> float:
    """Return that no member gets stronger: for clusters on which no match decides anything."""
    return 0.0


def simulated_games(study: StudyDir, plan: MatchPlan, teaching: Teaching) -> MatchGames:
    """Return games whose mean length is `MEAN_MOVES` times exp(agent's skill - host's skill).

    The starts of a set are the same in every cell: some take long for all.
    """
    hosts = np.array([_skill(study, host, teaching) for host in plan.hosts])
    agents = np.array([_skill(study, agent, teaching) for agent in plan.agents])
    means = MEAN_MOVES * np.exp(agents[None, :] - hosts[:, None])
    starts = np.stack([_starts(split, plan.num_games) for split in plan.splits])
    moves = np.maximum(1, np.rint(means[None, :, :, None] * starts[:, None, None, :]))
    moves = moves.clip(max=plan.max_steps).astype(np.int64)
    return MatchGames(moves, moves < plan.max_steps)


def _starts(split: str, num_games: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Return how long each start takes, beside the mean."""
    seed = int.from_bytes(hashlib.sha256(split.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).uniform(0.5, 1.5, num_games)


def _skill(study: StudyDir, entrant: MatchPlayer, teaching: Teaching) -> float:
    if entrant.checkpoint is None:
        return 0.0
    skill, trial = 0.0, int(entrant.name)
    while True:
        folder = study.trial(trial)
        config = config_of(folder.config)
        lineage = folder.lineage.required()
        skill += teaching(config, lineage.first_step)
        if not lineage.parents or lineage.parents[0].trial is None:
            return skill if math.isfinite(skill) else 0.0
        trial = lineage.parents[0].trial


def config_of(path: Path) -> TrainerConfig:
    """Return a trial's configuration, which a study's every match asks for again."""
    return _config_of(path, path.stat().st_mtime_ns)


@functools.cache
def _config_of(path: Path, changed_ns: int) -> TrainerConfig:
    return read_config(yaml_file.load(path), source=str(path))


PLAYED = Games(lengths=(0, *range(40, 0, -1)), unfinished=3, actions=(417, 250, 99, 39))
"""behind each value, as many numbers as the quick start's"""
HALF_WIDTH = 0.01
"""of the intervals that are measured"""
MATCH_SECONDS = 20.0
"""that a match takes"""
GLANCE_SECONDS = 0.5
"""between two looks of a pilot for more trials"""


@dataclass(frozen=True)
class Course:
    """How trials go: pure functions, so that an attempt repeats what the one before it did."""

    seconds: Callable[[TrainerConfig], float]
    """that a whole trial takes"""
    value: Callable[[TrainerConfig, int], float]
    """what a trial measures at a step"""
    teaching: Teaching
    """what an interval adds to a member's skill, by which matches are decided"""
    furthest: dict[int, int] = field(default_factory=dict)
    """step that any attempt has reached, by trial"""
    repeated: list[int] = field(default_factory=list)
    """steps that each attempt had to make again: from where it went on to the furthest"""
    training: list[tuple[float, int]] = field(default_factory=list)
    """when the number of trials that train changed, and to what"""


class SimulatedJob:
    """One job; implements `simulated_cluster.Work`."""

    def __init__(self, job: JobDir, course: Course) -> None:
        """Take the folder of the job and how its trials go."""
        self._job = job
        # Read by `begin`, which comes before all else.
        self._plan: JobPlan
        self._queue: TrialQueue[Member]
        self._course = course
        self._members: list[Member] = []
        self._step: dict[int, int] = {}
        self._measured: dict[int, int] = {}
        """step of the last evaluation that was told, by trial"""
        self._since = 0.0
        """when the present stride began"""
        self._stride = 0
        """steps to the next one at which something is due"""
        self._seconds = 0.0
        """that they take"""
        self._num_rows = 0
        """members that train at once at most"""
        self._match: int | None = None
        """that it plays now"""
        self._idle_since: float | None = None
        """when a pilot had trained all that it was given"""
        self._num_training = 0
        """trials as the course was told last"""

    def begin(self, now: float) -> float | None:
        """Read what to train, and go on from what was saved."""
        self._plan = self._job.plan.required()
        self._queue = TrialQueue(self._job, self._plan, Member.open)
        return self._next(now) if self._take() else None

    def _take(self) -> bool:
        """Let all that wait and have one shape begin, where none trains.

        Return whether there is something to do: as the worker's, a job ends whose trials can all
        not be read, or were stopped.
        """
        members = self._queue.take()
        self._num_rows = max(len(members), self._num_rows if self._plan.refills else 0)
        self._begin(members)
        return bool(members or self._queue.matches)

    def _begin(self, members: list[Member]) -> None:
        """Let trials go on from what was saved."""
        self._members += members
        self._resume(members)
        for member in members:
            self._finish(member)

    def go_on(self, now: float) -> float | None:
        """Do what is due at the step that has been reached."""
        if self._match is not None:
            self._play(self._match)
            self._match = None
            return self._next(now)
        self._progress(self._stride)
        self._obey()
        for member in list(self._members):
            self._evaluate(member)
            self._finish(member)
        self._refill()
        return self._next(now)

    def _play(self, number: int) -> None:
        match = self._job.study.match(number)
        plan = match.plan.required()
        match.write_games(simulated_games(self._job.study, plan, self._course.teaching))

    def _refill(self) -> None:
        """Let trials that were given meanwhile take free rows, in step with the others."""
        if not self._plan.refills or not self._members:
            return
        self._queue.look()
        while self._members and len(self._members) < self._num_rows:
            member = self._queue.take_one(
                self._shape, lambda other: self._steps_until_refill(other) == 0
            )
            if member is None:
                return
            self._begin([member])

    @property
    def _shape(self) -> str:
        return shape_key(self._members[0].config)

    def _steps_until_refill(self, member: Member) -> int:
        """Return after how many steps of the others one that waits may begin."""
        oldest = self._members[0]
        interval = oldest.config.evaluation.interval
        return steps_until_together(self._step_of(oldest), _newest(member), interval)

    def leave(self, now: float) -> None:
        """Save each trial at the step that has been reached, and say that it was interrupted."""
        self._progress(self._steps_since(now))
        self._obey()
        for member in self._members:
            _save(member, self._step_of(member))
            member.end("interrupted", self._step_of(member))
        self._members.clear()
        self._tell_course(now)

    def vanish(self, now: float) -> None:
        """Leave no word."""
        self._progress(self._steps_since(now))
        self._members.clear()
        self._tell_course(now)

    def _resume(self, members: list[Member]) -> None:
        saved = [_saved(member) for member in members]
        steps = resumed_steps(members, saved, in_step=not self._plan.refills)
        for member, place in zip(members, steps, strict=True):
            step = member.lineage.first_step if place is None else place
            self._step[member.assignment.trial] = step
            if place is None and member.lineage.parents:
                _save(member, step)
            self._course.repeated.append(
                self._course.furthest.get(member.assignment.trial, 0) - step
            )
            member.trial.forget_metrics_after(step)
            member.attempt.start.write(Start(step))

    def _next(self, now: float) -> float | None:
        """Give heartbeats and return the seconds to the next step at which something is due."""
        self._tell_course(now)
        if not self._members:
            self._beat(now, 1.0)
            return self._poll(now)
        self._stride = self._steps_until_due()
        slowest = max(
            self._course.seconds(member.config) / member.config.steps for member in self._members
        )
        self._since, self._seconds = now, slowest * self._stride
        self._beat(now, 1 / slowest)
        return self._seconds

    def _tell_course(self, now: float) -> None:
        change = len(self._members) - self._num_training
        if change:
            training = self._course.training
            training.append((now, (training[-1][1] if training else 0) + change))
            self._num_training += change

    def _beat(self, now: float, speed: float) -> None:
        members = tuple(
            MemberHeartbeat.at(
                member.assignment,
                self._step_of(member),
                _newest(member),
                self._measured.get(member.assignment.trial, 0),
            )
            for member in self._members
        )
        file = self._job.heartbeat
        file.replace(JobHeartbeat(now, "simulated", 1, False, speed, members))
        os.utime(file.path, (now, now))

    def _steps_until_due(self) -> int:
        due = [
            due - self._step_of(member) % due
            for member in self._members
            for due in _due(member.config)
        ]
        if len(self._members) < self._num_rows:
            oldest, firsts = self._members[0], map(_newest, self._queue.waiting_with(self._shape))
            interval = oldest.config.evaluation.interval
            joining = steps_until_next(self._step_of(oldest), firsts, interval)
            due += [] if joining is None else [joining]
        return min(due)

    def _poll(self, now: float) -> float | None:
        """Take more trials, or look for them again in a moment; None if there will be none."""
        self._queue.look()
        if self._queue.waiting:
            self._idle_since = None
            return self._next(now) if self._take() else None
        self._match = self._queue.take_match()
        if self._match is not None:
            self._idle_since = None
            return MATCH_SECONDS
        self._idle_since = now if self._idle_since is None else self._idle_since
        is_over = self._queue.is_over or now - self._idle_since > self._plan.pilot_seconds
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
            if member.obey(self._step_of(member)):
                self._members.remove(member)

    def _evaluate(self, member: Member) -> None:
        step, config = self._step_of(member), member.config
        if step % config.evaluation.interval == 0:
            measured = self._measure(member)
            member.report(step, Evaluation(measured, dict.fromkeys(measured, PLAYED), {}))
            self._measured[member.assignment.trial] = step
        if step % config.checkpoint.interval == 0 or step == config.steps:
            _save(member, step)

    def _finish(self, member: Member) -> None:
        if self._step_of(member) >= member.config.steps:
            member.end(
                "finished", self._step_of(member), metrics=plain_metrics(self._measure(member))
            )
            self._members.remove(member)

    def _measure(self, member: Member) -> dict[str, Rho]:
        value = self._course.value(member.config, self._step_of(member))
        names = metric_names(member.config.measured_against())
        return {name: Rho(value, value - HALF_WIDTH, value + HALF_WIDTH, 0.0, 20) for name in names}


def resumed_steps(
    members: Sequence[Member], saved: Sequence[Collection[int]], *, in_step: bool
) -> list[int | None]:
    """Return the steps of the saved checkpoints from which members go on; None for a beginning.

    As in `resuming.go_on`, what each has made since it began counts: beginnings differ by parents.
    """
    firsts = [member.lineage.first_step for member in members]
    made = [{step - first for step in own} for own, first in zip(saved, firsts, strict=True)]
    ages = steps_to_resume(made, in_step=in_step)
    return [None if age is None else first + age for first, age in zip(firsts, ages, strict=True)]


def _due(config: TrainerConfig) -> tuple[int, int, int]:
    return config.evaluation.interval, config.checkpoint.interval, config.steps


def _save(member: Member, step: int) -> None:
    (member.trial.checkpoints / f"step-{step}").mkdir(parents=True, exist_ok=True)


def _saved(member: Member) -> set[int]:
    folders = member.trial.checkpoints.glob("step-*")
    return {int(folder.name.partition("-")[2]) for folder in folders}


def _newest(member: Member) -> int:
    return max(_saved(member), default=member.lineage.first_step)
