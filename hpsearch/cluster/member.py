"""The trials that a job trains, and the rows of its trainer as slots for them."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from hpsearch import yaml_file
from hpsearch.cluster import records
from hpsearch.cluster.job_trials import JobTrial
from hpsearch.cluster.record_files import PLAYED
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.team import Team
from hpsearch.errors import HpsearchError
from hpsearch.monitor.resources import LayerTensors
from hpsearch.trainers.config import TrainerConfig, read_config, shape_key
from hpsearch.trainers.config.ending import Ending
from hpsearch.trainers.evaluation import Evaluation, Metrics
from hpsearch.trainers.trainer import AnyTrainer, Trainer


@dataclass(frozen=True)
class Member(JobTrial):
    config: TrainerConfig
    name: str  # what a person calls it
    lineage: records.Lineage
    parents: tuple[Path, ...]  # the checkpoints that the lineage names
    island: records.Island | None = None  # how it breeds with those beside it, None if it does not

    @classmethod
    def open(
        cls, study: StudyDir, assignment: records.Assignment, descends: bool = True
    ) -> "Member":
        """Read a trial; ConfigError for a wrong configuration, CorruptError for other bad files.

        Without a lineage it begins with new networks, unless it ``descends``.
        """
        trial = study.trial(assignment.trial)
        config = read_config(yaml_file.load(trial.config), source=str(trial.config))
        lineage = trial.read_lineage(config.seed, descends)
        return cls(
            assignment=assignment,
            trial=trial,
            attempt=trial.attempt(assignment.attempt),
            config=config,
            name=f"trial {assignment.trial}",
            lineage=lineage,
            parents=tuple(study.checkpoint(parent.checkpoint) for parent in lineage.parents),
            island=trial.island.read(),
        )

    @property
    def shape(self) -> str:
        return shape_key(self.config)

    def report(self, step: int, evaluation: Evaluation, *, is_last: bool = False) -> None:
        """Add an evaluation to the learning curve; after the last the member ends early."""
        row = {"step": step, "attempt": self.assignment.attempt, "at": time.time()}
        metrics, mark = plain_metrics(evaluation.metrics), {"last": True} if is_last else {}
        values = {"metrics": metrics, "entropies": evaluation.entropies, **mark}
        games = {name: counted.plain() for name, counted in evaluation.games.items()}
        self.trial.append_metrics({**row, **values, **({PLAYED: games} if games else {})})


def plain_metrics(metrics: Metrics) -> dict[str, dict[str, float]]:
    return {name: asdict(value) for name, value in metrics.items()}


@dataclass(frozen=True)
class EarlyEnd:
    """How a member ended before its steps were made."""

    by: Ending
    sentence: str


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
