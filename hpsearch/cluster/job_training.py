"""The training of the trials of a job as one population: what happens between two steps.

Killed at any moment, it leaves whole checkpoints from which the next attempt goes on. A trial that
comes later takes a free row, once it will be measured at the same moments as the others.
"""

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import get_args

from hpsearch.cluster.endings import Endings
from hpsearch.cluster.failures import DIVERGED, HUNG, RankLostError, StopFlag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.local_matches import LocalMatches
from hpsearch.cluster.member import (
    Member,
    Slots,
    steps_until_next,
    steps_until_together,
)
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import LEARNER, ActorState, MemberHeartbeat, Span, Timeline
from hpsearch.cluster.resuming import go_on, resume_step, start_step
from hpsearch.cluster.schedule import CheckpointPolicy, EvaluationSchedule
from hpsearch.cluster.study_dir import COMPILING
from hpsearch.cluster.team import Team
from hpsearch.errors import CorruptError, DiskError, TrainingFailedError
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.monitor.snapshot import JobPlace, MemberPlace, MemberTexts
from hpsearch.trainers import checkpoint
from hpsearch.trainers.actors import WorkSpan
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.evaluation import Metrics, SampleGame
from hpsearch.trainers.kernel_cache import is_compiled

LOOK_SECONDS = 0.5  # at least between two looks for more trials
TIMELINE_SECONDS = 10.0  # between two writes of what actors and learner did
STRIDE_SECONDS = 0.5
"""how long the population trains between two looks at signals and control files"""


@dataclass(frozen=True)
class TrainingProgress:
    steps: tuple[int, ...]
    steps_per_second: float
    measured: Mapping[int, Metrics]  # by trial: the evaluations of this moment
    samples: Mapping[int, Sequence[SampleGame]] = field(default_factory=dict)
    """by trial: some of the games of the last evaluation"""


ProgressWatcher = Callable[[TrainingProgress], None]


class JobTraining:
    def __init__(
        self,
        members: Sequence[Member],
        flag: StopFlag,
        place: JobPlace,
        heartbeats: Heartbeats,
        timeline: RecordFile[Timeline],
        team: Team,
        *,
        watcher: ProgressWatcher | None = None,
        queue: TrialQueue[Member] | None = None,
        compiles: Path | None = None,
    ) -> None:
        """Train ``members`` in `run`, until ``flag`` asks to stop.

        ``watcher`` is told after every few steps how far it is. From a ``queue`` others take the
        rows of those that end; without one, or when it is over, the trainer shrinks. The file
        ``compiles`` is there while kernels are compiled.
        """
        self._flag = flag
        self._place = place
        self._watcher = watcher
        self._queue = queue
        self._compiles = compiles
        self._heartbeats = heartbeats
        self._timeline = timeline
        self._next_timeline = 0.0
        self._slots = Slots(members, team)
        self._config: CommonConfig = members[0].config
        self._checkpoints = CheckpointPolicy(self._config, team)
        self._endings = Endings(self._slots)
        self._evaluations = EvaluationSchedule(self._slots, self._config.evaluation, self._endings)
        self._local_matches = LocalMatches(self._slots, self._checkpoints)
        self._is_torn = False
        """whether an error that comes now finds the trainer within a step"""
        self._steps_per_second = 0.0
        self._next_look = 0.0  # for more trials
        self._places: dict[int, MemberPlace] = {}
        """where the observations of each member go, by trial"""
        self._clock: int
        """steps of the job: counted on from its first member's step, also after that has ended"""
        self._monitor: JobMonitor  # begins with `run`, when the members' steps are known

    def run(self) -> None:
        """Train until every member has ended or the job is asked to stop.

        Whatever this raises is also told as the end of each attempt that has not ended.
        """
        group = self._slots.team.group
        if group is not None:
            group.on_stuck = self._fail
        try:
            if self._config.device == "cpu":
                self._compile()
            self._slots.build(may_stay_empty=self._queue is not None)
            self._run()
            if not self._slots.members:
                self._beat()
        except Exception as error:
            if not self._is_torn:
                self._checkpoints.save_whole(self._slots)
            self._fail(error)
            self._heartbeats.give_last()
            raise
        finally:
            if group is not None:
                group.on_stuck = None

    def _compile(self) -> None:
        """Let all ranks have their kernels; say so where the first one has to compile or wait."""
        dimension, team = self._config.dimension, self._slots.team
        if is_compiled(dimension):
            team.compile(dimension)
            return
        print(COMPILING, flush=True)
        if self._compiles is not None:
            self._compiles.touch()
        team.compile(dimension)
        if self._compiles is not None:
            self._compiles.unlink()

    def _fail(self, error: Exception) -> None:
        if isinstance(error, RankLostError) and error.kind is None:
            return  # as for a job that is killed, the cluster may know why
        # Not the trainer's steps: a device that has failed would not tell them.
        for row, member in list(self._slots.members.items()):
            with suppress(CorruptError, DiskError):  # the others may still be told
                member.fail(error, self._slots.steps[row])

    def _run(self) -> None:
        slots = self._slots
        children = [member for member in slots.members.values() if member.parents]
        if children:  # to make them may take minutes
            self._heartbeats.announce(
                MemberHeartbeat.at(child.assignment, resume_step(child), 0, 0) for child in children
            )
        saved, errors = go_on(slots.team, slots.members, in_step=self._queue is None)
        self._checkpoints.note(saved)
        for row, error in errors.items():
            if len(slots.members) == 1:  # then the whole job fails
                raise error
            slots.give_up(row, error)
        if not slots.members:
            return
        slots.read_steps()
        for row, member in slots.members.items():
            self._endings.resume(row, saved.get(member.number))
        self._clock = slots.oldest_step or 0
        places, device = self._member_places(), slots.trainer.device
        self._monitor = JobMonitor(self._config.monitor, self._place, places, device, self._hang)
        self._monitor.job_values = self._actors_by_state
        slots.trainer.sections = self._monitor.sections
        try:
            self._train_all()
        finally:
            self._checkpoints.close()
            self._monitor.close()

    def _train_all(self) -> None:
        self._measure_missed()
        self._finish()  # a kill may have come between the last checkpoint and the result
        self._admit()
        self._beat()
        while self._slots.members and not self._flag.is_set:
            if self._local_matches.are_due:  # once all else that was due at this step is done
                self._beat(is_busy=True)
                with self._monitor.sections("local match"):
                    self._local_matches.play()
            self._train()
            self._obey()  # before anything is written: the trial may be another attempt's by now
            slots = self._slots
            is_saving = any(map(self._checkpoints.is_due, slots.steps.values()))
            if is_saving or self._evaluations.is_due:
                self._beat(is_busy=True)
            if self._flag.is_save_asked:
                self._flag.is_save_asked = False
                for member in slots.members.values():
                    member.trial.request_save()
            metrics, broken = self._evaluations.evaluate(self._monitor.sections)
            self._drop(broken)
            if metrics:
                self._monitor.write_texts(self._sample_texts)
            with self._monitor.sections("checkpoint"):
                self._checkpoints.save_due(slots, metrics)
            self._checkpoints.settle()
            self._monitor.beat()
            if slots.members and self._watcher is not None:
                steps = tuple(slots.steps.values())
                speed, samples = self._steps_per_second, self._evaluations.samples
                self._watcher(TrainingProgress(steps, speed, metrics, samples))
            self._finish()
            self._beat()  # also before others come, which may take minutes to begin
            self._admit()
            self._beat()
        for row in self._slots.members:
            self._checkpoints.save(self._slots, row, checkpoint.PREEMPTED)
        self._checkpoints.wait()
        for row, member in self._slots.members.items():
            member.end("interrupted", self._slots.steps[row])
        if self._slots.members:
            self._heartbeats.give_last()

    def _member_places(self) -> list[MemberPlace]:
        for row, member in self._slots.members.items():
            trial, step = member.trial, self._slots.steps[row]
            place = MemberPlace(member.name, step, trial.training_log, trial.tensorboard)
            self._places.setdefault(member.number, place)
        return [self._places[member.number] for member in self._slots.members.values()]

    def _sample_texts(self) -> list[MemberTexts]:
        """Return the sample games of the members that were measured now."""
        samples, steps = self._evaluations.samples, self._slots.steps
        return [
            MemberTexts(
                self._places[member.number],
                steps[row],
                {f"games/{sample.role}": sample.markdown() for sample in samples[member.number]},
            )
            for row, member in self._slots.members.items()
            if member.number in samples
        ]

    # Training.

    def _train(self) -> None:
        """Train to the next step at which something is due, or for about STRIDE_SECONDS."""
        slots = self._slots
        due = [self._monitor.steps_until_due(self._clock)]
        for row, step in slots.steps.items():
            due.append(self._evaluations.steps_until_due(step))
            due.append(self._checkpoints.steps_until_due(step))
            due.append(slots.members[row].config.steps - step)
        others = (
            self._steps_until_refill(),
            self._local_matches.steps_until_due(),
            self._endings.steps_until_due(),
        )
        due += (steps for steps in others if steps is not None)
        steps = max(1, min(*due, round(self._steps_per_second * STRIDE_SECONDS)))
        began = time.perf_counter()
        self._monitor.before_steps(self._clock)
        self._is_torn = True
        slots.team.train(steps)
        slots.read_steps()  # waits for the device, so that the clock is right
        self._is_torn = False
        seconds = time.perf_counter() - began
        self._steps_per_second = steps / seconds
        self._clock += steps
        diverged = self._monitor.after_steps(
            self._clock, list(slots.steps.values()), slots.statistics, slots.layers
        )
        rows = list(slots.members)
        failed = {rows[index]: sentence for index, sentence in diverged.items()}
        for row, sentence in failed.items():
            slots.members[row].end("failed", slots.steps[row], kind=DIVERGED, message=sentence)
        self._drop(failed)
        self._endings.trained(seconds)

    def _measure_missed(self) -> None:
        """Measure members whose curves lack their present step.

        They go on from where an error ended an attempt before it had measured them.
        """
        missed = [
            row
            for row, member in self._slots.members.items()
            if (step := self._slots.steps[row]) > start_step(member)
            and step % self._config.evaluation.interval == 0
            and all(line["step"] != step for line in member.trial.read_metrics())
        ]
        if missed:
            metrics, broken = self._evaluations.evaluate(self._monitor.sections, missed)
            self._drop(broken)
            self._checkpoints.save_due(self._slots, metrics)

    def _finish(self) -> None:
        if any(map(self._slots.has_ended, self._slots.members)):
            self._beat(is_busy=True, is_long=True)  # many more games than in other evaluations
            self._checkpoints.wait()  # a result says that the last one is there
        self._drop(self._evaluations.finish(self._monitor.sections))

    # Coming and going.

    def _admit(self) -> None:
        """Let waiting trials take free rows; give up rows that none will take."""
        if self._queue is None or self._flag.is_set:
            return
        if time.monotonic() >= self._next_look:
            self._queue.look()
            self._next_look = time.monotonic() + LOOK_SECONDS
        while self._take_slots(self._queue):
            self._settle()
            self._measure_missed()
            self._finish()  # as above: a new member may go on from its last step
        if self._slots.free:
            self._settle()

    def _take_slots(self, queue: TrialQueue[Member]) -> bool:
        """Begin all waiting trials that may and have a row; return whether there were any."""
        slots, oldest = self._slots, self._slots.oldest_step
        resumed: dict[int, int | None] = {}  # by row: the step of the newest checkpoint
        interval = self._config.evaluation.interval

        def may_begin(member: Member) -> bool:
            return oldest is None or not steps_until_together(oldest, resume_step(member), interval)

        while slots.free and (member := queue.take_one(slots.shape, may_begin)) is not None:
            self._heartbeats.announce([MemberHeartbeat.at(member.assignment, 0, 0, 0)])
            row = slots.refill(member)
            saved, errors = go_on(slots.team, {row: member}, in_step=False)
            self._checkpoints.note(saved)
            resumed[row] = saved.get(member.number)
            for row, error in errors.items():  # the others train on
                slots.give_up(row, error)
        if resumed:
            slots.read_steps()
        for row, step in resumed.items():
            if row in slots.members:
                self._endings.resume(row, step)
        return bool(resumed)

    def _steps_until_refill(self) -> int | None:
        oldest = self._slots.oldest_step
        if self._queue is None or oldest is None or not self._slots.free:
            return None
        firsts = map(resume_step, self._queue.waiting_with(self._slots.shape))
        return steps_until_next(oldest, firsts, self._config.evaluation.interval)

    def _drop(self, rows: Collection[int]) -> None:
        if rows:
            for row in rows:
                self._checkpoints.leave(self._slots.members[row].number)
            self._slots.leave(rows)
            self._settle()

    def _settle(self) -> None:
        """Do without free rows that no trial will need, and observe the members that are left."""
        if self._queue is None or self._queue.is_over:
            self._slots.shrink()
        self._slots.trainer.sections = self._monitor.sections
        self._monitor.watch(self._member_places())

    def _obey(self) -> None:
        """End the members that the driver has stopped; a fenced member writes nothing."""
        steps, members = self._slots.steps, self._slots.members.items()
        self._drop([row for row, member in members if member.obey(steps[row])])

    def _hang(self, sentence: str, stacks: str) -> None:
        """End a process that has made no step for too long; called beside the stuck thread."""
        print(stacks, flush=True)
        print(f"hpsearch: training failed ({HUNG}): {sentence}", file=sys.stderr, flush=True)
        steps = dict(self._slots.steps)  # not the trainer's: a stuck device would not tell them
        try:
            for row, member in list(self._slots.members.items()):
                member.end("failed", steps.get(row, 0), kind=HUNG, message=sentence)
            self._heartbeats.give_last()
        finally:
            # The stuck thread would never hear of anything milder.
            os._exit(TrainingFailedError.exit_code)

    def _beat(self, *, is_busy: bool = False, is_long: bool = False) -> None:
        every, steps, saved = self._slots.members, self._slots.steps, self._checkpoints.saved
        told = self._evaluations.measured
        measured = {member.number: told.get(member.number, 0) for member in every.values()}
        if self._heartbeats.is_due(measured, is_busy=is_busy) or is_long:
            members = [
                MemberHeartbeat.at(
                    member.assignment,
                    steps[row],
                    saved.get(member.number, 0),
                    measured[member.number],
                )
                for row, member in every.items()
            ]
            ranks = self._slots.team.heartbeats
            self._heartbeats.give(members, ranks, self._steps_per_second, is_busy=is_busy)
            self._write_timeline()

    def _write_timeline(self) -> None:
        games = self._slots.trainer.actor_games
        if games is None or not games.recent or time.monotonic() < self._next_timeline:
            return
        self._next_timeline = time.monotonic() + TIMELINE_SECONDS
        self._timeline.replace(Timeline(tuple(map(_span, games.recent))))

    def _actors_by_state(self) -> dict[str, float]:
        """Return how many actors of all ranks are in each state, as numbers of the job."""
        ranks = self._slots.team.heartbeats
        states = [actor.state for rank in ranks for actor in rank.actors]
        if not states:
            return {}
        return {f"actors_{state}": float(states.count(state)) for state in get_args(ActorState)}


def _span(span: WorkSpan) -> Span:
    process = LEARNER if span.actor is None else f"actor {span.actor}"
    return Span(process, span.version, span.began, span.ended)
