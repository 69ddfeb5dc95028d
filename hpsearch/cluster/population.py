"""The training of several trials as one population: what happens between two steps.

It speaks with whoever started it through files alone. Killed at any moment, it leaves whole
checkpoints from which the next attempt goes on.
"""

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from hpsearch.cluster.failures import DIVERGED, HUNG, NAN
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.keeper import Keeper
from hpsearch.cluster.member import FENCED, Member
from hpsearch.cluster.resuming import go_on
from hpsearch.cluster.signals import StopFlag
from hpsearch.errors import DiskError, TrainingFailedError
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.monitor.places import JobPlace, MemberPlace
from hpsearch.monitor.watchdog import HangReport
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import CommonConfig, TrainerConfig, shape_key
from hpsearch.trainers.evaluation import Metrics
from hpsearch.trainers.trainer import AnyTrainer

LOOK_SECONDS = 0.5
"""how long the population trains between two looks at signals and control files"""
TRAINING_STARTS = "evaluation"
FINAL_STARTS = "final"


@dataclass(frozen=True)
class Standing:
    """How far a population is, for whoever watches it train."""

    steps: tuple[int, ...]
    steps_per_second: float
    measured: Mapping[int, Metrics]
    """by member: the evaluations of this moment"""


Watcher = Callable[[Standing], None]


class Population:
    """The trials that still train, and the trainer that they are members of."""

    def __init__(
        self,
        members: Sequence[Member],
        flag: StopFlag,
        place: JobPlace,
        watcher: Watcher,
        trainer: AnyTrainer | None = None,
    ) -> None:
        """Build the trainer of the ``members``' trials, which `run` then trains.

        ``flag`` asks it to stop, ``place`` is where the job's observations go, ``watcher`` is told
        after every few steps how far it is. A ``trainer`` whose members have all ended is taken
        over where it fits, with what it has compiled.
        """
        self._members = list(members)
        self._flag = flag
        self._place = place
        self._watcher = watcher
        self._trainer = _taken_over(trainer, [member.config for member in members])
        self._config: CommonConfig = self._trainer.config
        self._keeper = Keeper(self._config)
        self._last_steps = [0] * len(members)
        self._steps_per_second = 0.0
        self._heartbeats = Heartbeats()

    @property
    def trainer(self) -> AnyTrainer:
        """Return the trainer; of all members, unless some ended before the others."""
        return self._trainer

    def run(self) -> None:
        """Train until every member has ended or the job is asked to stop."""
        self._keeper.saved |= go_on(self._trainer, self._members)
        self._monitor = self._open_monitor()
        try:
            self._train_all()
        finally:
            self._monitor.close()

    def _train_all(self) -> None:
        self._finish()  # a kill may have come between the last checkpoint and the result
        self._beat()
        while self._members and not self._flag.is_set:
            self._train()
            self._obey()  # before anything is written: the trial may be another attempt's by now
            if self._is_anything_due():
                self._beat(is_busy=True)
            measured = self._evaluate()
            with self._monitor.sections("checkpoint"):
                self._keeper.save_due(self._trainer, self._members, self._steps(), measured)
            self._monitor.beat()
            if self._members:
                self._watcher(Standing(tuple(self._steps()), self._steps_per_second, measured))
            self._finish()
            self._beat()
        self._interrupt()

    def fail(self, error: Exception) -> None:
        """Record an error of the whole job as the end of each remaining attempt."""
        # Not the trainer's steps: a device that has failed would not tell them.
        for member, step in zip(self._members, self._last_steps, strict=True):
            with suppress(DiskError):  # the others may still be told
                member.fail(error, step)

    def _steps(self) -> list[int]:
        """Return each remaining member's step; the last trainer outlives its last member."""
        steps: list[int] = self._trainer.step.tolist()
        return steps[: len(self._members)]

    def _open_monitor(self) -> JobMonitor:
        places = [
            MemberPlace(
                member.name,
                step,
                member.trial.training_log,
                member.trial.tensorboard,
            )
            for member, step in zip(self._members, self._steps(), strict=True)
        ]
        monitor = JobMonitor(
            self._config.monitor, self._place, places, self._trainer.device, self._hang
        )
        self._trainer.sections = monitor.sections
        return monitor

    # Training.

    def _train(self) -> None:
        """Train to the next step at which something is due, or for about LOOK_SECONDS."""
        before = self._last_steps = self._steps()
        due = min(
            self._steps_until_due(step, m) for step, m in zip(before, self._members, strict=True)
        )
        due = min(due, self._monitor.steps_until_due(before[0]))
        steps = max(1, min(due, round(self._steps_per_second * LOOK_SECONDS)))
        began = time.perf_counter()
        self._monitor.before_steps(before[0])
        self._trainer.train(steps)
        now = self._last_steps = self._steps()  # waits for the device, so that the clock is right
        self._steps_per_second = steps / (time.perf_counter() - began)
        diverged = self._monitor.after_steps(now, self._trainer.statistics, self._trainer.layers)
        for index, sentence in diverged.items():
            self._members[index].end("failed", now[index], kind=DIVERGED, message=sentence)
        self._drop(list(diverged))

    def _steps_until_due(self, step: int, member: Member) -> int:
        interval = self._config.evaluation.interval
        return min(
            interval - step % interval,
            self._keeper.steps_until_due(step),
            member.config.steps - step,
        )

    def _is_anything_due(self) -> bool:
        """Return whether a member is to be measured or saved at this step."""
        interval = self._config.evaluation.interval
        return any(
            step % interval == 0
            or step >= member.config.steps
            or step % self._config.checkpoint.interval == 0
            for step, member in zip(self._steps(), self._members, strict=True)
        )

    def _evaluate(self) -> dict[int, Metrics]:
        """Measure the members whose evaluation is due; one whose weights are no numbers fails."""
        interval = self._config.evaluation.interval
        due = [index for index, step in enumerate(self._steps()) if step % interval == 0]
        if not due:
            return {}
        with self._monitor.sections("evaluation"):
            found = self._trainer.evaluate(
                num_games=self._config.evaluation.num_games, split=TRAINING_STARTS
            )
        finite = self._trainer.is_finite()
        for index in due:
            self._members[index].report(self._steps()[index], found[index])
        broken = [index for index in due if not finite[index]]
        for index in broken:
            self._break(index)
        kept = self._drop(broken)
        return {new: found[old].metrics for new, old in enumerate(kept) if old in due}

    def _break(self, index: int) -> None:
        message = "the weights became infinite or NaN; lower the learning rate"
        self._members[index].end("failed", self._steps()[index], kind=NAN, message=message)

    def _finish(self) -> None:
        """Measure the members that have made all their steps once more, on more games."""
        done = [i for i, m in enumerate(self._members) if self._steps()[i] >= m.config.steps]
        if not done:
            return
        with self._monitor.sections("evaluation"):
            metrics = self._trainer.evaluate_rho(
                num_games=self._config.evaluation.final_num_games, split=FINAL_STARTS
            )
        finite = self._trainer.is_finite()
        for index in done:
            if finite[index]:
                step = self._steps()[index]
                self._members[index].end("finished", step, metrics=metrics[index])
            else:
                self._break(index)
        self._drop(done)

    # Ending.

    def _obey(self) -> None:
        """End the members that the driver has stopped; one that was fenced off writes nothing."""
        reasons = [member.stop_reason() for member in self._members]
        for member, step, reason in zip(self._members, self._steps(), reasons, strict=True):
            if reason is not None and reason != FENCED:
                member.end(reason, step)
        self._drop([index for index, reason in enumerate(reasons) if reason is not None])

    def _interrupt(self) -> None:
        """Save what is unfinished, for the next attempt to go on from."""
        for index, (step, member) in enumerate(zip(self._steps(), self._members, strict=True)):
            self._keeper.save(self._trainer, index, member, checkpoint.PREEMPTED)
            member.end("interrupted", step)

    def _hang(self, report: HangReport) -> None:
        """End a process that has made no step for too long; called beside the stuck thread."""
        print(report.stacks, flush=True)
        print(f"hpsearch: training failed ({HUNG}): {report}", file=sys.stderr, flush=True)
        # Not the trainer's steps: a device that is stuck would not tell them.
        try:
            for member, step in zip(list(self._members), list(self._last_steps), strict=False):
                member.end("failed", step, kind=HUNG, message=str(report))
        finally:
            # The stuck thread would never hear of anything milder.
            os._exit(TrainingFailedError.exit_code)

    def _beat(self, *, is_busy: bool = False) -> None:
        """Give a sign of life, at once before something long."""
        if self._members and (is_busy or self._heartbeats.are_due):
            saved, speed = self._keeper.saved, self._steps_per_second
            self._heartbeats.give(self._members, self._steps(), saved, speed, is_busy=is_busy)

    def _drop(self, indices: Sequence[int]) -> list[int]:
        """Go on without some members; return the indices that the others had."""
        kept = [index for index in range(len(self._members)) if index not in indices]
        if indices:
            self._members = [self._members[index] for index in kept]
            self._last_steps = [self._last_steps[index] for index in kept]
            self._monitor.keep(kept)
        if indices and kept:
            self._trainer = self._trainer.select(kept)
            self._trainer.sections = self._monitor.sections
        return kept


def _taken_over(trainer: AnyTrainer | None, configs: Sequence[TrainerConfig]) -> AnyTrainer:
    """Return a trainer of fresh members: the given one, if it has as many of their shape."""
    shapes = {shape_key(config) for config in configs}
    if trainer is None or len(configs) != trainer.num_members:
        return build(configs)
    if shapes != {shape_key(trainer.config)}:
        return build(configs)
    for member, config in enumerate(configs):
        trainer.begin(member, config)
    return trainer
