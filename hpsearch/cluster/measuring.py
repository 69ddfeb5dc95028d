"""When the members of a population are measured, and whom that ends."""

from typing import NamedTuple

from hpsearch.cluster.failures import NAN
from hpsearch.cluster.member import Member
from hpsearch.cluster.slots import Slots
from hpsearch.monitor.sections import Sections
from hpsearch.trainers.config.measuring import Evaluation
from hpsearch.trainers.evaluation import Metrics

TRAINING_STARTS = "evaluation"
FINAL_STARTS = "final"


class Measured(NamedTuple):
    """What measuring the members found; both by trial, since rows change as members leave."""

    metrics: dict[int, Metrics]
    broken: frozenset[int]
    """those whose weights are no numbers any more"""


class Measuring:
    """Measures members at the multiples of an interval, and at their ends."""

    def __init__(self, slots: Slots, rules: Evaluation) -> None:
        """Take who is measured, and what a configuration says of that."""
        self._slots = slots
        self._rules = rules

    @property
    def is_due(self) -> bool:
        """Whether any member is measured now: at the interval, or at its end."""
        return bool(self._due() or self._done())

    def steps_until_due(self, step: int) -> int:
        """Return after how many steps a member is measured next."""
        return self._rules.interval - step % self._rules.interval

    def evaluate(self, sections: Sections) -> Measured:
        """Measure the members whose evaluation is due, and add that to their learning curves."""
        slots, due = self._slots, self._due()
        if not due:
            return Measured({}, frozenset())
        with sections("evaluation"):
            found = slots.trainer.evaluate(num_games=self._rules.num_games, split=TRAINING_STARTS)
        finite = slots.trainer.is_finite()
        for row, member in due.items():
            member.report(slots.steps[row], found[row])
        trials = {row: member.assignment.trial for row, member in due.items()}
        return Measured(
            {trial: found[row].metrics for row, trial in trials.items()},
            frozenset(trial for row, trial in trials.items() if not finite[row]),
        )

    def end_broken(self, measured: Measured) -> list[int]:
        """End the members that were found broken: they have failed; return their rows."""
        members = self._slots.members.items()
        rows = [row for row, one in members if one.assignment.trial in measured.broken]
        for row in rows:
            self._break(row)
        return rows

    def finish(self, sections: Sections) -> list[int]:
        """Measure the members that have made all their steps once more, on more games.

        They end so; return their rows.
        """
        slots, done = self._slots, self._done()
        if not done:
            return []
        with sections("evaluation"):
            metrics = slots.trainer.evaluate_rho(
                num_games=self._rules.final_num_games, split=FINAL_STARTS
            )
        finite = slots.trainer.is_finite()
        for row in done:
            if finite[row]:
                slots.members[row].end("finished", slots.steps[row], metrics=metrics[row])
            else:
                self._break(row)
        return done

    def _due(self) -> dict[int, Member]:
        """Return the members whose evaluation is due, by row."""
        members, steps = self._slots.members, self._slots.steps
        return {r: one for r, one in members.items() if steps[r] % self._rules.interval == 0}

    def _done(self) -> list[int]:
        """Return the rows of the members that have made all their steps."""
        members, steps = self._slots.members, self._slots.steps
        return [row for row, one in members.items() if steps[row] >= one.config.steps]

    def _break(self, row: int) -> None:
        message = "the weights became infinite or NaN; lower the learning rate"
        self._slots.members[row].end("failed", self._slots.steps[row], kind=NAN, message=message)
