"""Decides what becomes of trials whose attempts ended, and tells Optuna each result once."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from functools import partial
from itertools import starmap
from typing import Any

from hpsearch.cluster import failures
from hpsearch.cluster.records import AttemptResult, Control, Heartbeat, Stop
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.errors import MAX_SHOWN, CorruptError, DiskError, did_you_mean
from hpsearch.files import do_together
from hpsearch.study.breeding.lineage import TrialAncestry
from hpsearch.study.events import Event
from hpsearch.study.observe import CurveReport, Observation
from hpsearch.study.recorder import DriverPart
from hpsearch.study.records import COMPLETE, FAIL, PRUNED, PlannedTrial, Trial
from hpsearch.trainers.checkpoint_name import manifest_sha256

MAX_LOST = 3  # attempts in a row that may vanish without getting further
RETRIED = frozenset(
    (
        *(failures.DISK, failures.HUNG, failures.LOST, failures.SILENT),
        *(failures.TIMEOUT, failures.OOM_HOST, failures.CANCELLED),
    )
)
"""kinds that may be no fault of the trial's"""


class Verdict(Enum):
    TELL = "tell its values"
    REQUEUE = "let it go on from its newest checkpoint"
    FAIL = "tell that it failed"
    NOTHING = "it has been told already"


def verdict(trial: Trial, result: AttemptResult, *, is_shared: bool) -> Verdict:
    """Return what becomes of the trial.

    Interruptions, preemption and failing nodes cost nothing. An attempt that vanished, hung, could
    not write, ran out of time or memory of the host, or whose job a user cancelled is tried
    again, up to `MAX_LOST` times in a row without progress. Too little memory on a GPU is no fault
    of any one trial that shared it, as `is_shared` says: each goes on alone. An error of the code,
    numbers that became NaN, or a trial alone that takes too much memory would come again: the trial
    fails.
    """
    if trial.told is not None:
        return Verdict.NOTHING
    if result.status == "finished":
        return Verdict.TELL
    if result.kind == failures.OOM_GPU and is_shared:
        return Verdict.REQUEUE
    if result.status == "interrupted" or result.kind in failures.FREE:
        return Verdict.REQUEUE
    if result.kind in RETRIED:
        no_further = result.step <= trial.step
        return Verdict.FAIL if no_further and trial.lost + 1 >= MAX_LOST else Verdict.REQUEUE
    return Verdict.FAIL


AT_ONCE = 200  # values, or ends of attempts, that are written in one transaction


@dataclass(frozen=True)
class Outcome:
    trial: Trial
    stop: Stop
    result: AttemptResult  # its metrics where it finished, else why it did not


class Results(DriverPart):
    def report(self, seen: Observation) -> None:
        """Tell Optuna the learning curves, and prune what its pruner gives up."""
        trials = {report.trial: self.state.trials[report.trial] for report in seen.reports}
        over = {n for n, trial in trials.items() if trial.is_over or self._trials.is_told(trial)}
        reports = [report for report in seen.reports if report.trial not in over]
        if self._trials.never_prunes:
            for start in range(0, len(reports), AT_ONCE):
                batch = reports[start : start + AT_ONCE]
                with self._trials.telling():
                    for report in batch:
                        trial = self.state.trials[report.trial]
                        self._trials.report(trial, report, last=report.is_last)
                self._recorder.record_all([self._reported(report) for report in batch])
            return
        for report in reports:
            trial = self.state.trials[report.trial]
            if trial.is_over:
                continue
            last = report.is_last or report.step >= self._trials.steps(trial)
            prune = self._trials.report(trial, report, last=last)
            rungs = len(self._trials.rungs(trial))
            # One by one: the pruner's verdict depends on all values before, and after a crash it
            # must have seen no more than was recorded.
            self._recorder.record_all([self._reported(report, prune=prune, rungs=rungs)])
        given_up = [trial for trial in self.state.unfinished() if trial.prune]
        nothing = AttemptResult("", PRUNED, 0, None, "", {})
        self._record_outcomes([Outcome(trial, PRUNED, nothing) for trial in given_up])

    def _reported(self, report: CurveReport, *, prune: bool = False, rungs: int = 0) -> Event:
        data = {"step": report.step, "value": report.value, "prune": prune, "rungs": rungs}
        return self._recorder.event("reported", trial=report.trial, data=data)

    def end_attempts(self, seen: Observation) -> None:
        """Decide what becomes of the trials whose attempt has ended."""
        numbers = list(seen.results)
        for start in range(0, len(numbers), AT_ONCE):
            decided: list[tuple[Trial, AttemptResult, Verdict]] = []
            for number in numbers[start : start + AT_ONCE]:
                trial, result = self.state.trials[number], seen.results[number]
                is_shared = self.state.is_shared(trial)
                decided.append((trial, result, verdict(trial, result, is_shared=is_shared)))
            outcomes = starmap(self._outcome, decided)
            told = self._tell([outcome for outcome in outcomes if outcome is not None])
            events: list[Event] = []
            for trial, result, what in decided:
                events += [told[trial.number]] if trial.number in told else []
                events.append(self._end_attempt(trial, result, what, seen))
            self._recorder.record_all(events)

    def cancel_all(self) -> None:
        kind, message = failures.CANCELLED, "the study was cancelled"
        self._record_outcomes([_failed(trial, kind, message) for trial in self.state.unfinished()])

    def _record_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        for start in range(0, len(outcomes), AT_ONCE):
            told = self._tell(outcomes[start : start + AT_ONCE])
            self._recorder.record_all(list(told.values()))

    def _end_attempt(
        self, trial: Trial, result: AttemptResult, decided: Verdict, seen: Observation
    ) -> Event:
        heartbeat = seen.heartbeats.get(trial.number)
        kept = _kept(trial, result, decided, heartbeat)
        # A member that has ended is in no heartbeat any more, but its job made as many steps.
        of_job = seen.speeds.get(trial.job or "", 0.0)
        speed = of_job if heartbeat is None else heartbeat.steps_per_second
        lost = 0 if kept is None else max(0, result.step - kept)
        data = {
            "status": result.status,
            "kind": trial.failure if decided is Verdict.NOTHING and trial.failure else result.kind,
            "message": result.message,
            "step": result.step,
            "lost_seconds": lost / speed if speed else 0.0,
            "kept": kept,
            "repeated_seconds": self._num_repeated(trial) / speed if speed else 0.0,
            "log": self.last_words(trial.job) if result.status in ("failed", "lost") else [],
        }
        if self._study.is_program and result.kind == failures.CODE:  # each is a process of its own
            data["others_go_on"] = True
        return self._recorder.event(
            "attempt_ended", trial=trial.number, attempt=trial.attempts, data=data
        )

    def _num_repeated(self, trial: Trial) -> int:
        """Return the steps that the attempt made again although they were thought to be kept."""
        if trial.kept is None:
            return 0
        try:
            start = self._folder.trial(trial.number).attempt(trial.attempts).start.read()
        except (CorruptError, DiskError):  # not known
            return 0
        return 0 if start is None else max(0, trial.kept - start.step)

    def _outcome(self, trial: Trial, result: AttemptResult, decided: Verdict) -> Outcome | None:
        if decided not in (Verdict.FAIL, Verdict.TELL):
            return None
        # One without a kind of its own was stopped, by a driver that may not have recorded why.
        kind = self._trials.failure(trial) if result.kind is None else None
        if kind is not None:
            message = "its result came after Optuna had been told that it failed"
            return _failed(trial, kind, message)
        if decided is Verdict.FAIL:
            return Outcome(trial, FAIL, result)
        missing = [metric for metric in self._trials.metric_names if metric not in result.metrics]
        if missing:
            return _failed(trial, failures.CODE, _unmeasured(missing, sorted(result.metrics)))
        return Outcome(trial, COMPLETE, result)

    def _tell(self, outcomes: Sequence[Outcome]) -> dict[int, Event]:
        """Tell Optuna and the trials' folders how they ended, once; return events by trial.

        These are to be recorded last: a driver that dies before leaves what the next one does
        again.
        """
        told = {outcome.trial.number: self._told(outcome) for outcome in outcomes}
        self._recorder.keep_lease()
        with self._trials.telling():
            for outcome in outcomes:
                metrics, failure = outcome.result.metrics, outcome.result.kind
                self._trials.tell(outcome.trial, outcome.stop, metrics, failure=failure)

        def write(outcome: Outcome) -> None:
            trial, stop = outcome.trial, None
            # A finished attempt wrote its result last, and has nothing to stop.
            if trial.token is not None and outcome.stop != COMPLETE:
                stop = Control(trial.token, stop=outcome.stop)
            self._folder.trial(trial.number).end(told[trial.number], stop)

        do_together([partial(write, outcome) for outcome in outcomes])
        event = self._recorder.event
        return {number: event("told", trial=number, data=data) for number, data in told.items()}

    def _told(self, outcome: Outcome) -> dict[str, Any]:
        trial, result, is_complete = outcome.trial, outcome.result, outcome.stop == COMPLETE
        told = {
            "state": outcome.stop,
            "value": result.metrics[self._trials.metric]["value"] if is_complete else None,
            "metrics": result.metrics,
            "failure": result.kind,
            "message": result.message,
            "ended_by": result.ended_by,
        }
        if trial.origin is not None:
            told |= self._descent(trial, trial.origin, outcome.stop)
        return told

    def _descent(self, trial: Trial, origin: PlannedTrial, outcome: Stop) -> dict[str, Any]:
        files = self._folder.trial(trial.number)
        try:
            birth, exchanges = files.birth.read(), files.read_exchanges()
            last = self._folder.checkpoint(final_checkpoint(trial.number, origin.steps))
            sha256 = manifest_sha256(last)
        except CorruptError:
            # Damaged for good, so go on without it. A DiskError ends the tick, and a later tick
            # reads again.
            return {"birth": None, "node": None}
        seed = int(self._study.config_of(trial)["seed"])
        descent = TrialAncestry(trial, self.state.trials, seed, birth, exchanges)
        told = {
            "birth": None if birth is None else asdict(birth),
            "node": None,
            "takeovers": [asdict(exploit) for exploit in exchanges.takeovers],
            "lent": [
                asdict(descent.node(donation.step, donation.sha256)) for donation in exchanges.loans
            ],
        }
        if outcome == COMPLETE and sha256 is not None:
            told["node"] = asdict(descent.node(origin.steps, sha256))
        return told


def _unmeasured(missing: Sequence[str], measured: Sequence[str]) -> str:
    """Return the message of a trial that lacks values of objectives."""
    wanted = ", ".join(f"{name}{did_you_mean(name, measured)}" for name in missing)
    names = ", ".join(measured)[:MAX_SHOWN]
    return f"the trial measured no {wanted}; it measured {names or 'nothing that is a number'}"


def _failed(trial: Trial, kind: str, message: str) -> Outcome:
    return Outcome(trial, FAIL, AttemptResult("", "failed", 0, kind, message, {}))


def _kept(
    trial: Trial, result: AttemptResult, decided: Verdict, heartbeat: Heartbeat | None
) -> int | None:
    """Return the step up to which an attempt's training will be used, None if not known.

    As far as the job said: its newest checkpoint may turn out to be damaged, or to be one that the
    others in its job lack. The next attempt tells from which step it went on.
    """
    if decided is Verdict.TELL or result.status in ("interrupted", "pruned"):
        return result.step or None  # 0 where it never began, which changes nothing
    if decided is Verdict.FAIL:
        return trial.first_step
    return None if heartbeat is None else max(heartbeat.saved, trial.first_step)
