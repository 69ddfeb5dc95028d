"""The rows of a trainer as slots, in which members come and go without anything built anew."""

from collections.abc import Collection, Mapping, Sequence

from torch import Tensor

from hpsearch.cluster.member import Member
from hpsearch.monitor.layer_statistics import LayerTensors
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.config import TrainerConfig, shape_key
from hpsearch.trainers.trainer import AnyTrainer


class Slots:
    """A trainer, and which member sits in which of its rows.

    Attributes:
        trainer: computes all rows; at those in which nobody sits, nobody looks.
        members: by row, in the order of their coming, which every method keeps.
        steps: of each member by row, in the same order, as last read: a device that has failed
            would not tell.
    """

    def __init__(
        self, members: Sequence[Member], trainer: AnyTrainer | None, *, may_stay_empty: bool
    ) -> None:
        """Seat the ``members``, fresh, in a new trainer or in one whose members have all ended.

        That one is taken over, with what it has compiled, if it has their shape and as many rows;
        more where rows ``may_stay_empty``.
        """
        configs = [member.config for member in members]
        self.trainer = _taken_over(trainer, configs, may_stay_empty=may_stay_empty)
        self.members = dict(enumerate(members))
        self.steps = dict.fromkeys(self.members, 0)

    @property
    def free(self) -> list[int]:
        """Return the rows in which nobody sits."""
        return [row for row in range(self.trainer.num_members) if row not in self.members]

    @property
    def oldest_step(self) -> int | None:
        """Return the step of who has sat longest, not the largest step; None if nobody sits."""
        return next(iter(self.steps.values()), None)

    def read_steps(self) -> None:
        """Ask the trainer for the steps; waits for the device."""
        found: list[int] = self.trainer.step.tolist()
        self.steps = {row: found[row] for row in self.members}

    def seat(self, member: Member) -> int:
        """Let a fresh member take a free row; return the row."""
        row = self.free[0]
        self.members[row], self.steps[row] = member, 0
        self.trainer.begin(row, member.config)
        return row

    def leave(self, rows: Collection[int]) -> None:
        """Let members go; their rows are free."""
        self.members = {row: one for row, one in self.members.items() if row not in rows}
        self.steps = {row: step for row, step in self.steps.items() if row not in rows}

    def shrink(self) -> None:
        """Go on without the free rows, in a new trainer; the last trainer stays for others."""
        kept = sorted(self.members)
        if kept and self.free:
            self.trainer = self.trainer.select(kept)
            self.members = {kept.index(row): member for row, member in self.members.items()}
            self.steps = {kept.index(row): step for row, step in self.steps.items()}

    def statistics(self) -> Mapping[str, Tensor]:
        """Return the trainer's numbers of the members, in their order."""
        found, rows = self.trainer.statistics(), list(self.members)
        return found if self._are_all else {name: one[rows] for name, one in found.items()}

    def layers(self) -> LayerTensors:
        """Return the trainer's layers of the members, in their order."""
        found = self.trainer.layers()
        if self._are_all:
            return found
        rows, gradients = list(self.members), found.gradients.items()
        return LayerTensors(
            {name: one[rows] for name, one in found.weights.items()},
            {name: None if one is None else one[rows] for name, one in gradients},
        )

    @property
    def _are_all(self) -> bool:
        """Whether the members are all rows in their order."""
        return list(self.members) == list(range(self.trainer.num_members))


def _taken_over(
    trainer: AnyTrainer | None, configs: Sequence[TrainerConfig], *, may_stay_empty: bool
) -> AnyTrainer:
    """Return a trainer of fresh members: the given one, if it fits."""
    if trainer is None or {shape_key(one) for one in configs} != {shape_key(trainer.config)}:
        return build(configs)
    spare = trainer.num_members - len(configs)
    if spare < 0 or (spare > 0 and not may_stay_empty):
        return build(configs)
    for row, config in enumerate(configs):
        trainer.begin(row, config)
    return trainer
