"""When the members of a population are measured, and whom that ends."""

from hpsearch.cluster.failures import NAN
from hpsearch.cluster.slots import Slots
from hpsearch.monitor.sections import Sections
from hpsearch.trainers.config.measuring import Evaluation
from hpsearch.trainers.evaluation import Metrics

TRAINING_STARTS = "evaluation"
FINAL_STARTS = "final"


class Measuring:
    """Measures members at the multiples of an interval, and at their ends."""

    def __init__(self, slots: Slots, rules: Evaluation) -> None:
        """Take who is measured, and what a configuration says of that."""
        self._slots = slots
        self._rules = rules

    def is_due(self, step: int) -> bool:
        """Return whether a member is measured at this step."""
        return step % self._rules.interval == 0

    def steps_until_due(self, step: int) -> int:
        """Return after how many steps a member is measured next."""
        return self._rules.interval - step % self._rules.interval

    def evaluate(self, sections: Sections) -> tuple[dict[int, Metrics], list[int]]:
        """Measure the members whose evaluation is due; return what was found, by trial.

        One whose weights are no numbers fails; return the rows of these too.
        """
        slots = self._slots
        due = {row: slots.members[row] for row, step in slots.steps.items() if self.is_due(step)}
        if not due:
            return {}, []
        with sections("evaluation"):
            found = slots.trainer.evaluate(num_games=self._rules.num_games, split=TRAINING_STARTS)
        finite = slots.trainer.is_finite()
        for row, member in due.items():
            member.report(slots.steps[row], found[row])
        broken = [row for row in due if not finite[row]]
        for row in broken:
            self._break(row)
        return {one.assignment.trial: found[row].metrics for row, one in due.items()}, broken

    def finish(self, sections: Sections) -> list[int]:
        """Measure the members that have made all their steps once more, on more games.

        They end so; return their rows.
        """
        slots = self._slots
        done = [row for row, one in slots.members.items() if slots.steps[row] >= one.config.steps]
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

    def _break(self, row: int) -> None:
        message = "the weights became infinite or NaN; lower the learning rate"
        self._slots.members[row].end("failed", self._slots.steps[row], kind=NAN, message=message)
