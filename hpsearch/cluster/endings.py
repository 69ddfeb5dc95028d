"""What ends members before their steps are made, as `end` of their configurations says.

Games are counted in the trainer's state, seconds in checkpoints, and what was measured stands in
the learning curve: so an attempt that goes on judges as the one before it would have done.
"""

from collections.abc import Mapping, Sequence
from math import ceil, inf

from hpsearch.cluster.member import EarlyEnd, Member, Slots
from hpsearch.trainers.checkpoint import is_maximized, path_of, saved_seconds
from hpsearch.trainers.config.ending import Ending, Plateau, Target
from hpsearch.trainers.evaluation import Metrics
from hpsearch.trainers.trainer import Trainer

Curve = Mapping[int, Mapping[str, float]]  # by step: the values of metrics


class Endings:
    """Judges the members of ``slots`` between two steps, and notes there which have ended."""

    def __init__(self, slots: Slots) -> None:
        self._slots = slots
        self._games: dict[int, int] = {}
        """by trial: the games of its present step, where their number may end it"""

    def resume(self, row: int, saved: int | None) -> None:
        """Judge a member that begins, or goes on from its checkpoint of step ``saved``."""
        member = self._slots.members[row]
        if saved is not None and member.config.end.seconds is not None:
            path = path_of(member.trial.checkpoints, saved)
            self._slots.seconds[member.number] = saved_seconds(path)
        self.judge()
        curve = _curve(member)
        if self._slots.steps[row] in curve:
            self._judge_curve(row, curve)

    def trained(self, seconds: float) -> None:
        """Count how long the members have just trained, and judge them."""
        for member in self._slots.members.values():
            if member.config.end.seconds is not None:
                self._slots.seconds[member.number] += seconds
        self.judge()

    def judge(self) -> None:
        """Judge by games and seconds, which may end members after any step."""
        slots = self._slots
        self._games = {}
        if any(member.config.end.games is not None for member in slots.members.values()):
            games = slots.team.do_together(Trainer.games_ended)
            self._games = {member.number: games[row] for row, member in slots.members.items()}
        for row, member in slots.members.items():
            rules = member.config.end
            if rules.games is not None and self._games[member.number] >= rules.games:
                games_text = f"{self._games[member.number]:,} games had ended"
                self._note(row, "games", f"{games_text}, which reaches end.games={rules.games:,}")
            if rules.seconds is not None and slots.seconds[member.number] >= rules.seconds:
                trained = f"it had trained for {slots.seconds[member.number]:.1f} s"
                self._note(
                    row, "seconds", f"{trained}, which reaches end.seconds={rules.seconds:g}"
                )

    def measured(self, row: int, metrics: Metrics) -> bool:
        """Judge by an evaluation of this step, which is not yet in the learning curve.

        Return whether the member has ended, for any reason.
        """
        member, step = self._slots.members[row], self._slots.steps[row]
        values = {name: metric.value for name, metric in metrics.items()}
        self._judge_curve(row, {**_curve(member), step: values})
        return member.number in self._slots.ended

    def steps_until_due(self) -> int | None:
        """Return after how many steps enough games may have ended; None if they end no member.

        A game ends at most once in a move, so no step is passed in which a member ends.
        """
        config = self._slots.trainer.config
        at_once = sum(role.rollout_size for role in config.learning().values())
        missing = [
            member.config.end.games - self._games[member.number]
            for member in self._slots.members.values()
            if member.config.end.games is not None
        ]
        return ceil(min(missing) / (at_once * config.rollout_length)) if missing else None

    def _judge_curve(self, row: int, curve: Curve) -> None:
        """Judge by evaluations, the last of which is of this step."""
        rules, last = self._slots.members[row].config.end, list(curve.values())[-1]
        target, plateau = rules.target, rules.plateau
        if target is not None and target.metric in last and is_reached(target, last[target.metric]):
            why = f"{target.metric} was {last[target.metric]:.4g}"
            self._note(row, "target", f"{why}, which reaches end.target.value={target.value:g}")
        if plateau is not None:
            values = [
                values[plateau.metric] for values in curve.values() if plateau.metric in values
            ]
            if (stale := evaluations_without_better(plateau, values)) >= plateau.evaluations:
                what = f"evaluations in a row without a better {plateau.metric}: {stale}"
                reached = f"end.plateau.evaluations={plateau.evaluations}"
                self._note(row, "plateau", f"{what}, which reaches {reached}")

    def _note(self, row: int, by: Ending, why: str) -> None:
        """Note, and print for the job's log, what ended a member, unless it has ended."""
        slots, member, step = self._slots, self._slots.members[row], self._slots.steps[row]
        if not slots.has_ended(row):
            ended = EarlyEnd(by, f"ended at step {step:,} of {member.config.steps:,}: {why}")
            slots.ended[member.number] = ended
            print(f"{member.name} {ended.sentence}", flush=True)


def is_reached(target: Target, value: float) -> bool:
    return value >= target.value if is_maximized(target.metric) else value <= target.value


def evaluations_without_better(plateau: Plateau, values: Sequence[float]) -> int:
    """Return how many of the last evaluations were no better than the best before them."""
    sign = 1.0 if is_maximized(plateau.metric) else -1.0
    best, count = -inf, 0
    for value in values:
        gain = sign * value - best
        if gain > 0 and gain >= plateau.min_delta:
            best, count = sign * value, 0
        else:
            count += 1
    return count


def _curve(member: Member) -> Curve:
    """Return a member's learning curve as far as its end may follow from it.

    Of a step that stands there twice, the first counts.
    """
    curve: dict[int, dict[str, float]] = {}
    if member.config.end.target is not None or member.config.end.plateau is not None:
        for line in member.trial.read_metrics():
            values = {name: value["value"] for name, value in line["metrics"].items()}
            curve.setdefault(line["step"], values)
    return curve
