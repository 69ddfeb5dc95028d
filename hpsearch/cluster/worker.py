"""The worker: what runs inside a job. Trains the job's trials as one population.

It speaks with the driver through files alone and never sees the database. Killed at any moment,
it leaves whole checkpoints from which the next attempt goes on.
"""

import os
import socket
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from hpsearch.cluster.failures import CODE, NAN
from hpsearch.cluster.member import FENCED, Member
from hpsearch.cluster.signals import StopFlag, stop_flag
from hpsearch.cluster.trial_dir import Assignment, AttemptResult, Heartbeat, JobDir, StudyDir
from hpsearch.errors import HpsearchError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.trainer import Trainer

LOOK_SECONDS = 0.5
"""how long the population trains between two looks at signals and control files"""
HEARTBEAT_SECONDS = 2.0
TRAINING_STARTS = "evaluation"
FINAL_STARTS = "final"


def work(job_folder: str) -> None:
    """Train the trials of a job; signals that ask to stop are heeded from here on."""
    with stop_flag() as flag:
        train_job(job_folder, flag)


def train_job(job_folder: str, flag: StopFlag) -> None:
    """Train the trials of a job until each has finished or has been stopped, or ``flag`` is set.

    Every attempt's result is written before this returns; what it raises is for the job's log.
    """
    job = JobDir(Path(job_folder))
    assignments, num_threads = job.read()
    torch.set_num_threads(num_threads)
    opened = [_open(job.study, assignment) for assignment in assignments]
    members = [m for m in opened if m is not None and m.stop_reason() is None]
    if not members:
        return
    population = _begin(members, flag)
    try:
        population.run()
    except Exception as error:
        population.fail(error)
        raise


def _open(study: StudyDir, assignment: Assignment) -> Member | None:
    """Read a trial; one that cannot be read ends here, and the others go on."""
    try:
        return Member.open(study, assignment)
    except HpsearchError as error:
        print(error, flush=True)
        attempt = study.trial(assignment.trial).attempt(assignment.attempt)
        attempt.write_result(AttemptResult(assignment.token, "failed", 0, CODE, str(error), {}))
        return None


def _begin(members: Sequence[Member], flag: StopFlag) -> "_Population":
    try:
        return _Population(members, flag)
    except Exception as error:
        for member in members:
            member.fail(error, step=0)
        raise


class _Population:
    """The trials that still train, and the trainer that they are members of."""

    def __init__(self, members: Sequence[Member], flag: StopFlag) -> None:
        self._members = list(members)
        self._flag = flag
        self._trainer: Trainer = build([member.config for member in members])
        self._config = self._trainer.config
        self._steps_per_second = 0.0
        self._next_heartbeat = 0.0

    def run(self) -> None:
        """Train until every member has ended or the job is asked to stop."""
        self._resume()
        self._finish()  # a kill may have come between the last checkpoint and the result
        self._beat()
        while self._members and not self._flag.is_set:
            self._train()
            self._obey()  # before anything is written: the trial may be another attempt's by now
            self._evaluate()
            self._save()
            self._finish()
            self._beat()
        self._interrupt()

    def fail(self, error: Exception) -> None:
        """Record an error of the whole job as the end of each remaining attempt."""
        for member, step in zip(self._members, self._steps(), strict=True):
            member.fail(error, step)

    def _steps(self) -> list[int]:
        """Return each remaining member's step; the last trainer outlives its last member."""
        steps: list[int] = self._trainer.step.tolist()
        return steps[: len(self._members)]

    def _resume(self) -> None:
        """Go on from the newest step that all members have, else each from its own newest.

        A population that a kill caught between two members' checkpoints thus repeats what an
        uninterrupted one did, member beside member.
        """
        found = [list(checkpoint.valid_steps(member.trial.checkpoints)) for member in self._members]
        common = set.intersection(*(set(steps) for steps in found))
        for index, (member, steps) in enumerate(zip(self._members, found, strict=True)):
            step = max(common) if common else max(steps, default=None)
            if step is not None:
                path = checkpoint.path_of(member.trial.checkpoints, step)
                self._trainer.load(path, index)
            checkpoint.remove_leftovers(member.trial.checkpoints)
            for damaged in checkpoint.damaged_steps(member.trial.checkpoints):
                where = checkpoint.path_of(member.trial.checkpoints, damaged)
                print(f"the checkpoint {where} is damaged and left out", flush=True)
            member.trial.forget_metrics_after(step or 0)
            print(f"trial {member.assignment.trial} goes on from step {step or 0}", flush=True)

    def _train(self) -> None:
        """Train to the next step at which something is due, or for about LOOK_SECONDS."""
        due = min(
            self._steps_until_due(step, m)
            for step, m in zip(self._steps(), self._members, strict=True)
        )
        steps = max(1, min(due, round(self._steps_per_second * LOOK_SECONDS)))
        began = time.perf_counter()
        self._trainer.train(steps)
        self._steps_per_second = steps / (time.perf_counter() - began)

    def _steps_until_due(self, step: int, member: Member) -> int:
        evaluation = self._config.evaluation.interval
        saving = self._config.checkpoint.interval
        return min(
            evaluation - step % evaluation, saving - step % saving, member.config.steps - step
        )

    def _evaluate(self) -> None:
        """Measure the members whose evaluation is due; a member that diverged fails."""
        interval = self._config.evaluation.interval
        due = [index for index, step in enumerate(self._steps()) if step % interval == 0]
        if not due:
            return
        metrics = self._trainer.evaluate_rho(
            num_games=self._config.evaluation.num_games, split=TRAINING_STARTS
        )
        finite = self._trainer.is_finite()
        for index in due:
            self._members[index].report(self._steps()[index], metrics[index])
        diverged = [index for index in due if not finite[index]]
        for index in diverged:
            self._diverge(index)
        self._drop(diverged)

    def _diverge(self, index: int) -> None:
        message = "the weights became infinite or NaN; lower the learning rate"
        self._members[index].end("failed", self._steps()[index], kind=NAN, message=message)

    def _save(self) -> None:
        interval, keep = self._config.checkpoint.interval, self._config.checkpoint.keep_last
        for index, (step, member) in enumerate(zip(self._steps(), self._members, strict=True)):
            if step % interval == 0 or step == member.config.steps:
                self._trainer.save(member.trial.checkpoints, index)
                checkpoint.keep_last(member.trial.checkpoints, keep)

    def _finish(self) -> None:
        """Measure the members that have made all their steps once more, on more games."""
        done = [i for i, m in enumerate(self._members) if self._steps()[i] >= m.config.steps]
        if not done:
            return
        metrics = self._trainer.evaluate_rho(
            num_games=self._config.evaluation.final_num_games, split=FINAL_STARTS
        )
        finite = self._trainer.is_finite()
        for index in done:
            if finite[index]:
                step = self._steps()[index]
                self._members[index].end("finished", step, metrics=metrics[index])
            else:
                self._diverge(index)
        self._drop(done)

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
            self._trainer.save(member.trial.checkpoints, index)
            member.end("interrupted", step)

    def _beat(self) -> None:
        now = time.time()
        if now < self._next_heartbeat:
            return
        self._next_heartbeat = now + HEARTBEAT_SECONDS
        for member, step in zip(self._members, self._steps(), strict=True):
            member.attempt.write_heartbeat(
                Heartbeat(now, step, self._steps_per_second, socket.gethostname(), os.getpid())
            )

    def _drop(self, indices: Sequence[int]) -> None:
        """Go on without some members."""
        if not indices:
            return
        kept = [index for index in range(len(self._members)) if index not in indices]
        self._members = [self._members[index] for index in kept]
        if kept:
            self._trainer = self._trainer.select(kept)


if __name__ == "__main__":
    work(sys.argv[1])
