"""When the members of a population are saved and measured, and which checkpoints are kept."""

import shutil
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from torch import Tensor

from hpsearch.cluster.endings import Endings
from hpsearch.cluster.failures import NAN
from hpsearch.cluster.member import Member, Slots, plain_metrics
from hpsearch.cluster.records import Control
from hpsearch.cluster.team import Team
from hpsearch.errors import DiskError, HpsearchError
from hpsearch.files import write_json
from hpsearch.monitor.timing import Sections
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import RECORD, BestRecord, Checkpoint, CheckpointPart, read_best
from hpsearch.trainers.checkpoint_name import name_of
from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.common import EvaluationConfig
from hpsearch.trainers.evaluation import Evaluation, Metrics, SampleGame
from hpsearch.trainers.trainer import AnyTrainer, Trainer


@dataclass(frozen=True)
class _Saving:
    """A checkpoint that is being written."""

    others: Future[list[CheckpointPart]]  # what the other ranks have written of it
    step: Future[int]  # the checkpoint's, once it is written


class CheckpointPolicy:
    """Saves members at steps, at times, when they are the best so far, and on request.

    A member's state is copied to memory of the host at its step, and a thread of each rank writes
    its part of the copy while training goes on. The first rank's writes the manifest when it has
    heard of all parts.
    """

    def __init__(self, config: CommonConfig, team: Team) -> None:
        self._rules = config.checkpoint
        self._team = team
        self._last_save = time.monotonic()
        self.saved: dict[int, int] = {}  # by trial: the step of its newest checkpoint
        self._shared: dict[int, int] = {}
        """by trial: the step at which all were last saved together"""
        self._writer = ThreadPoolExecutor(1, "checkpoints")
        self._in_flight: dict[int, _Saving] = {}  # by trial

    def note(self, steps: Mapping[int, int]) -> None:
        """Learn of the newest checkpoints of members that go on from them: steps, by trial."""
        self.saved |= steps
        self._shared |= steps

    def is_due(self, step: int) -> bool:
        return step % self._rules.interval == 0

    def steps_until_due(self, step: int) -> int:
        return self._rules.interval - step % self._rules.interval

    def save_due(self, slots: Slots, measured: Mapping[int, Metrics]) -> None:
        """Save every member for which it is time; ``measured`` at this step, by trial."""
        seconds, all_saved = self._rules.seconds, True
        is_late = seconds is not None and time.monotonic() - self._last_save >= seconds
        for row, member in slots.members.items():
            step = slots.steps[row]
            best = self._better(member, step, measured.get(member.number))
            kind = self._kind(slots, row, is_best=best is not None, is_late=is_late)
            if best is not None:
                # First: what goes on from the checkpoint would not measure it again.
                folder = member.trial.checkpoints
                write_json(folder / f"{_BETTER}{name_of(step)}.json", asdict(best))
            if kind is not None:
                self.save(slots, row, kind)
            all_saved = all_saved and kind is not None
        if all_saved:
            self._last_save = time.monotonic()
            steps, members = slots.steps, slots.members.items()
            self._shared |= {member.number: steps[row] for row, member in members}

    def save(self, slots: Slots, row: int, kind: str) -> None:
        """Begin to save a member; a checkpoint of it that is still being written comes first.

        What the disk refuses is raised here or by `settle` or `wait`, an OSError.
        """
        member, step = slots.members[row], slots.steps[row]
        number, folder = member.number, member.trial.checkpoints
        self.wait(number)
        # An island goes on from a step that all have, and some are saved more often.
        pinned = set() if member.island is None else {self._shared.get(number, 0)}
        temporary = checkpoint.begin(folder, step)
        if temporary is None:
            self.saved[number] = self._tidy(folder, step, pinned)
            return
        try:
            copied, others = self._team.copy_member(
                temporary, row, kind, _parents(member), slots.seconds[number]
            )
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        written = self._writer.submit(
            self._write, temporary, copied, slots.trainer.places(), others, pinned
        )
        self._in_flight[number] = _Saving(others, written)

    def _write(
        self,
        temporary: Path,
        saved: Checkpoint,
        places: Mapping[str, Tensor],
        others: Future[list[CheckpointPart]],
        pinned: Collection[int],
    ) -> int:
        """Write the first rank's part, then finish the checkpoint; return its step."""
        try:
            part = checkpoint.write_part(temporary, saved, self._team.ranks, places)
            checkpoint.finish(temporary, saved, [part, *others.result()])
        finally:
            with suppress(CancelledError):
                others.exception()  # waits: until then other ranks may write there
            shutil.rmtree(temporary, ignore_errors=True)
        return self._tidy(temporary.parent, saved.step, pinned)

    def _tidy(self, folder: Path, step: int, pinned: Collection[int]) -> int:
        """Remove what need not be kept beside a checkpoint of ``step``, which is returned."""
        settle_best(folder)
        best = read_best(folder)
        kept = {*pinned} if best is None else {*pinned, best.step}
        checkpoint.keep_last(folder, self._rules.keep_last, kept)
        return step

    def settle(self) -> None:
        """Take in what has been written meanwhile; raise what the disk refused."""
        for number in [number for number, saving in self._in_flight.items() if saving.step.done()]:
            self.wait(number)

    def wait(self, trial: int | None = None) -> None:
        """Wait until all checkpoints are written, or those of one trial; raises as `settle`."""
        numbers = [*self._in_flight] if trial is None else {trial} & self._in_flight.keys()
        self._await_others(self._in_flight[number] for number in numbers)
        for number in numbers:
            self.saved[number] = self._in_flight.pop(number).step.result()

    def save_whole(self, slots: Slots) -> None:
        """Save all members as they are after an error that left their state whole.

        It is for the next attempt, which repeats less: nothing is raised, as the first error is the
        one to tell, and no older checkpoint goes. Left out are members whose weights are no
        numbers; islands, which go on from steps that all have; and all, once another rank may be
        within a call or have another state.
        """
        self.close()
        for row, member in slots.members.items():
            try:
                is_whole = self._team.is_whole and member.island is None
                if is_whole and slots.trainer.is_finite()[row]:
                    self._save_whole(slots, row)
            except Exception as error:  # of any kind: the first error is to be told
                print(f"{member.name} could not be saved after the error: {error}", flush=True)

    def _save_whole(self, slots: Slots, row: int) -> None:
        member, step = slots.members[row], slots.steps[row]
        folder = member.trial.checkpoints
        newest = next(checkpoint.valid_steps(folder), 0)
        is_read = step == int(slots.trainer.step[row])  # not so while a member begins
        is_wanted = member.trial.control.read() == Control(member.assignment.token, stop=None)
        if is_read and is_wanted and step > newest:
            seconds = slots.seconds[member.number]
            self._team.do_together(
                Trainer.save, folder, row, checkpoint.CRASHED, _parents(member), seconds
            )
            print(f"{member.name} was whole when the error came: saved at step {step}", flush=True)

    def leave(self, trial: int) -> None:
        """Wait for what is written of a member that leaves, whatever becomes of it.

        The next attempt at its trial may have begun, and removed what it found half-written.
        """
        with suppress(OSError, DiskError):
            self.wait(trial)

    def close(self) -> None:
        """Wait for what is being written, whatever becomes of it.

        Where a rank is lost, or fails, what it has not written never will be.
        """
        savings = self._in_flight.values()
        if self._team.is_whole:
            with suppress(HpsearchError):
                self._await_others(savings)
        for saving in savings:
            saving.others.cancel()
        self._writer.shutdown()

    def _await_others(self, savings: Iterable[_Saving]) -> None:
        if not all(saving.others.done() for saving in savings):
            self._team.await_parts()

    def _kind(self, slots: Slots, row: int, *, is_best: bool, is_late: bool) -> str | None:
        is_requested = slots.members[row].trial.take_save_request()
        if slots.has_ended(row):
            return checkpoint.FINAL
        if is_requested:
            return checkpoint.REQUESTED
        if is_best:
            return checkpoint.BEST
        if self.is_due(slots.steps[row]):
            return checkpoint.PERIODIC
        return checkpoint.TIMED if is_late else None

    def _better(self, member: Member, step: int, metrics: Metrics | None) -> BestRecord | None:
        name = self._rules.best
        if name is None or metrics is None:
            return None
        self.wait(member.number)  # which says whether what seemed better is saved
        value = metrics[name].value
        best = read_best(member.trial.checkpoints)
        if best is not None and best.metric == name and not best.is_beaten_by(value):
            return None
        return BestRecord(step, name, value)


_BETTER = "better-"  # begins the names of records that wait until their checkpoints are saved


def settle_best(folder: Path) -> None:
    """Let the record of a better checkpoint take the place of the best one's, if it was saved."""
    for record in folder.glob(f"{_BETTER}*.json"):
        if checkpoint.is_whole(folder / record.stem.removeprefix(_BETTER)):
            record.replace(folder / RECORD)
        else:
            record.unlink()


def _parents(member: Member) -> tuple[str, ...]:
    """Return the sha256 of the checkpoints that a member now descends from."""
    takeovers = member.trial.read_exchanges().takeovers if member.island is not None else ()
    if takeovers:
        return (takeovers[-1].sha256,)
    # The first checkpoint of a child names its parents.
    return checkpoint.parents_below(member.trial.checkpoints) if member.parents else ()


class EvaluationSchedule:
    def __init__(self, slots: Slots, rules: EvaluationConfig, endings: Endings) -> None:
        self._slots = slots
        self._rules = rules
        self._endings = endings
        self.samples: dict[int, Sequence[SampleGame]] = {}
        """by trial: some of the games of the last evaluation"""
        self.measured: dict[int, int] = {}  # step of the last evaluation that was told, by trial

    @property
    def is_due(self) -> bool:
        return bool(self._due() or self._done())

    def steps_until_due(self, step: int) -> int:
        return self._rules.interval - step % self._rules.interval

    def evaluate(
        self, sections: Sections, rows: Collection[int] | None = None
    ) -> tuple[dict[int, Metrics], list[int]]:
        """Add due evaluations, of some ``rows`` or of all, to learning curves.

        Return metrics by trial, and rows that failed.
        """
        slots, games = self._slots, self._rules.num_games
        due = {row: m for row, m in self._due().items() if rows is None or row in rows}
        if not due:
            return {}, []
        with sections("evaluation"):
            measured = slots.team.measure(_evaluate, games, "evaluation")
        for row, member in due.items():
            is_last = self._endings.measured(row, measured[row].metrics)
            member.report(slots.steps[row], measured[row], is_last=is_last)
            self.measured[member.number] = slots.steps[row]
        metrics = {member.number: measured[row].metrics for row, member in due.items()}
        self.samples = {member.number: slots.trainer.samples[row] for row, member in due.items()}
        return metrics, self._end_broken(due)

    def finish(self, sections: Sections) -> list[int]:
        """Measure the members that have ended, and say so; return their rows."""
        slots, done = self._slots, self._done()
        if not done:
            return []
        with sections("evaluation"):
            games = self._rules.final_num_games
            measured = slots.team.measure(_evaluate, games, "final")
        broken = self._end_broken(done)
        for row in done:
            if row not in broken:
                self._tell_finished(row, measured[row].metrics)
        return done

    def _tell_finished(self, row: int, metrics: Metrics) -> None:
        slots, member = self._slots, self._slots.members[row]
        ended = slots.ended.get(member.number)
        message, ended_by = ("", None) if ended is None else (ended.sentence, ended.by)
        step = slots.steps[row]
        member.end(
            "finished", step, metrics=plain_metrics(metrics), message=message, ended_by=ended_by
        )

    def _due(self) -> dict[int, Member]:
        members, steps = self._slots.members, self._slots.steps
        return {r: member for r, member in members.items() if steps[r] % self._rules.interval == 0}

    def _done(self) -> list[int]:
        return [row for row in self._slots.members if self._slots.has_ended(row)]

    def _end_broken(self, rows: Iterable[int]) -> list[int]:
        """End the members whose weights are no numbers any more; return their rows."""
        slots, finite = self._slots, self._slots.trainer.is_finite()
        message = "the weights became infinite or NaN; lower the learning rate"
        broken = [row for row in rows if not finite[row]]
        for row in broken:
            slots.members[row].end("failed", slots.steps[row], kind=NAN, message=message)
        return broken


def _evaluate(trainer: AnyTrainer, num_games: int, split: str) -> list[Evaluation]:
    return trainer.evaluate(num_games=num_games, split=split)
