"""The trials of a job, the queue of those to come, and the rows of its trainer as slots for them.

A trial without a free row, or of another shape than those that train, waits until all before it
have ended. If the job ends first, the driver gives the trial to another job.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from hpsearch import yaml_file
from hpsearch.cluster import records
from hpsearch.cluster.failures import CODE, DISK, kind_of, message_of
from hpsearch.cluster.record_files import CurveFile
from hpsearch.cluster.study_dir import AttemptDir, JobDir, StudyDir, TrialDir
from hpsearch.cluster.team import Team
from hpsearch.errors import CorruptError, DiskError, HpsearchError
from hpsearch.monitor.resources import LayerTensors
from hpsearch.trainers.config import TrainerConfig, read_config, shape_key
from hpsearch.trainers.config.ending import Ending
from hpsearch.trainers.evaluation import Evaluation, Metrics
from hpsearch.trainers.trainer import AnyTrainer, Trainer


@dataclass(frozen=True)
class Member:
    assignment: records.Assignment
    trial: TrialDir
    attempt: AttemptDir
    config: TrainerConfig
    name: str  # what a person calls it
    lineage: records.Lineage
    parents: tuple[Path, ...]  # the checkpoints that the lineage names
    island: records.Island | None = None  # how it breeds with those beside it, None if it does not

    @classmethod
    def open(cls, study: StudyDir, assignment: records.Assignment) -> "Member":
        """Read a trial; ConfigError for a wrong configuration, CorruptError for other bad files."""
        trial = study.trial(assignment.trial)
        lineage = trial.lineage.required()
        return cls(
            assignment=assignment,
            trial=trial,
            attempt=trial.attempt(assignment.attempt),
            config=read_config(yaml_file.load(trial.config), source=str(trial.config)),
            name=f"trial {assignment.trial}",
            lineage=lineage,
            parents=tuple(study.checkpoint(parent.checkpoint) for parent in lineage.parents),
            island=trial.island.read(),
        )

    @property
    def number(self) -> int:
        return self.assignment.trial

    def obey(self, step: int) -> bool:
        """Return whether the attempt ends; if the driver has stopped it, say so."""
        try:
            control = self.trial.control.read()
        except (CorruptError, DiskError):  # it may be readable a moment later
            return False
        if control is None or control.token != self.assignment.token:
            return True  # it has been replaced: it is fenced off, and writes nothing
        if control.stop is not None:
            self.end(control.stop, step)
        return control.stop is not None

    def report(self, step: int, evaluation: Evaluation, *, is_last: bool = False) -> None:
        """Add an evaluation to the learning curve; after the last the member ends early."""
        row = {"step": step, "attempt": self.assignment.attempt, "at": time.time()}
        games = {name: asdict(counted) for name, counted in evaluation.games.items()}
        CurveFile(self.trial.games).append({**row, "games": games})
        metrics, mark = plain_metrics(evaluation.metrics), {"last": True} if is_last else {}
        entropies = {"entropies": evaluation.entropies}
        self.trial.append_metrics({**row, "metrics": metrics, **entropies, **mark})

    def fail(self, error: Exception, step: int) -> None:
        """Say that the attempt failed, unless it has said how it ended."""
        if self.attempt.read_result() is None:
            self.end("failed", step, kind=kind_of(error), message=message_of(error))

    def end(
        self,
        status: records.Status,
        step: int,
        *,
        metrics: Metrics | None = None,
        kind: str | None = None,
        message: str = "",
        ended_by: Ending | None = None,
    ) -> None:
        """Say how the attempt ended; the last thing that a member writes."""
        self.attempt.write_result(
            records.AttemptResult(
                token=self.assignment.token,
                status=status,
                step=step,
                kind=kind,
                message=message,
                metrics=plain_metrics(metrics or {}),
                ended_by=ended_by,
            )
        )


def plain_metrics(metrics: Metrics) -> dict[str, dict[str, float]]:
    return {name: asdict(value) for name, value in metrics.items()}


@dataclass(frozen=True)
class EarlyEnd:
    """How a member ended before its steps were made."""

    by: Ending
    sentence: str


class TrialQueue:
    """The trials of a job that have not begun; only a pilot is given more than the first."""

    def __init__(self, job: JobDir, plan: records.JobPlan) -> None:
        self._job = job
        self._number = 1  # of the next trials that the job may be given
        self._is_closed = plan.pilot_seconds <= 0
        self.waiting = _opened(job.study, plan.assignments)
        self.matches = [] if plan.match is None else [plan.match]

    @property
    def is_over(self) -> bool:
        """Whether no trial waits and nothing more will come; a match may still be to be played."""
        return self._is_closed and not self.waiting

    def waiting_with(self, shape: str) -> list[Member]:
        return [member for member in self.waiting if shape_key(member.config) == shape]

    def look(self) -> None:
        while not self._is_closed:
            try:
                more_work = self._job.read_next(self._number)
            except (CorruptError, DiskError):  # it may be readable a moment later
                return
            if more_work is None:
                return
            self._number += 1
            self._is_closed = not more_work.assignments and more_work.match is None
            self.waiting += _opened(self._job.study, more_work.assignments)
            self.matches += [] if more_work.match is None else [more_work.match]

    def take(self) -> list[Member]:
        """Take all that have the shape of the first, but end those that the driver has stopped."""
        taken: list[Member] = []
        while self.waiting and not taken:
            same = self.waiting_with(shape_key(self.waiting[0].config))
            taken = [member for member in same if self._take_out(member)]
        return taken

    def take_one(self, shape: str, may_begin: Callable[[Member], bool]) -> Member | None:
        """Take the first of a shape that may begin now, if any; end those that were stopped."""
        for member in self.waiting_with(shape):
            if may_begin(member) and self._take_out(member):
                return member
        return None

    def _take_out(self, member: Member) -> bool:
        """Take a trial out; return False if the driver has stopped it, which ends it here."""
        self.waiting.remove(member)
        return not member.obey(step=0)

    def take_match(self) -> int | None:
        return self.matches.pop(0) if self.matches else None


def steps_until_together(step_now: int, first: int, interval: int) -> int:
    """Return after how many steps a trial may begin that goes on from its step ``first``.

    It is then measured together with one that is at its step ``step_now`` now.
    """
    return (first - step_now) % interval


def steps_until_next(step_now: int, firsts: Iterable[int], interval: int) -> int | None:
    """Return after how many more steps a waiting trial may begin, of these first steps, if any."""
    waits = (steps_until_together(step_now, first, interval) or interval for first in firsts)
    return min(waits, default=None)


def steps_to_resume(saved: Sequence[Collection[int]], *, in_step: bool) -> list[int | None]:
    """Return from which of its saved steps each trial goes on, None if it has none.

    Those that always trained ``in_step`` go on from the newest step that they have in common, if
    any, and so repeat what they would have done without a kill. Others go on from their own newest.
    """
    common = set(saved[0]).intersection(*saved[1:]) if in_step and saved else set()
    return [max(common or steps, default=None) for steps in saved]


def _opened(study: StudyDir, assignments: Sequence[records.Assignment]) -> list[Member]:
    """Return the trials that can be read; each other trial ends here as failed."""
    members = []
    for assignment in assignments:
        try:
            members.append(Member.open(study, assignment))
        except HpsearchError as error:
            print(error, flush=True)
            # What cannot be read now may be a moment later, and says nothing of the trial.
            kind = DISK if isinstance(error.__cause__, OSError) else CODE
            result = records.AttemptResult(assignment.token, "failed", 0, kind, str(error), {})
            with suppress(DiskError):  # the others may still train
                study.trial(assignment.trial).attempt(assignment.attempt).write_result(result)
    return members


class Slots:
    """Which member has which row of the trainer of each rank."""

    def __init__(self, members: Sequence[Member], team: Team) -> None:
        self.team = team
        self.members = dict(enumerate(members))
        """by row, in the order of their coming, which every method keeps"""
        self.steps = dict.fromkeys(self.members, 0)
        """the same, as last read: a device that has failed would not tell"""
        self.seconds: defaultdict[int, float] = defaultdict(float)
        """by trial: of training, in all attempts; counted where it may end the member"""
        self.ended: dict[int, EarlyEnd] = {}
        """by trial: what ended it before its steps were made"""

    def build(self, *, may_stay_empty: bool) -> None:
        """Put the members, fresh, into the trainer that is there if it fits, else into a new one.

        The members of that trainer, if any, have all ended; taking it over keeps what it has
        compiled. It fits if it has their shape and as many rows, or more if ``may_stay_empty``.
        """
        configs = [member.config for member in self.members.values()]
        if self._fits_trainer(configs, may_stay_empty):
            for row, config in enumerate(configs):
                self.team.do(Trainer.begin, row, config)
        else:
            self.team.build(configs)

    def _fits_trainer(self, configs: Sequence[TrainerConfig], may_stay_empty: bool) -> bool:
        trainer = self.team.built
        if trainer is None or shape_key(trainer.config) != shape_key(configs[0]):
            return False
        num_free = trainer.num_members - len(configs)
        return num_free == 0 or (num_free > 0 and may_stay_empty)

    @property
    def trainer(self) -> AnyTrainer:
        """This rank's trainer, which computes all rows; what changes it, ``team`` does."""
        return self.team.trainer

    @property
    def free(self) -> list[int]:
        return [row for row in range(self.trainer.num_members) if row not in self.members]

    @property
    def shape(self) -> str:
        return shape_key(self.trainer.config)

    @property
    def oldest_step(self) -> int | None:
        """The step of the member that came first, not the largest; None without members."""
        return next(iter(self.steps.values()), None)

    def has_ended(self, row: int) -> bool:
        member = self.members[row]
        return self.steps[row] >= member.config.steps or member.number in self.ended

    def read_steps(self) -> None:
        """Ask the trainer for the steps; waits for the device."""
        steps: list[int] = self.trainer.step.tolist()
        self.steps = {row: steps[row] for row in self.members}

    def refill(self, member: Member) -> int:
        """Let a member take a free row; return the row."""
        row = self.free[0]
        self.members[row], self.steps[row] = member, 0
        self.team.do(Trainer.begin, row, member.config)
        return row

    def give_up(self, row: int, error: HpsearchError) -> None:
        print(error, flush=True)
        self.members[row].fail(error, step=0)
        self.leave([row])

    def leave(self, rows: Collection[int]) -> None:
        self.members = {row: member for row, member in self.members.items() if row not in rows}
        self.steps = {row: step for row, step in self.steps.items() if row not in rows}

    def shrink(self) -> None:
        """Go on without the free rows, in a new trainer; an empty trainer stays for others."""
        kept = sorted(self.members)
        if kept and self.free:
            self.team.select(kept)
            self.members = {kept.index(row): member for row, member in self.members.items()}
            self.steps = {kept.index(row): step for row, step in self.steps.items()}

    def statistics(self) -> Mapping[str, Tensor]:
        return {name: self._taken(rows) for name, rows in self.trainer.statistics().items()}

    def layers(self) -> LayerTensors:
        layers = self.trainer.layers()
        gradients = layers.gradients.items()
        return LayerTensors(
            {name: self._taken(rows) for name, rows in layers.weights.items()},
            {name: None if rows is None else self._taken(rows) for name, rows in gradients},
        )

    def _taken(self, rows: Tensor) -> Tensor:
        """Return the rows of the members; all of them as they are, without a copy."""
        taken = list(self.members)
        return rows if taken == list(range(self.trainer.num_members)) else rows[taken]
