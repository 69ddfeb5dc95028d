"""Decides what becomes of trials whose attempts ended, and tells Optuna each result once."""

from dataclasses import asdict
from enum import Enum
from typing import Any

from hpsearch.cluster import failures
from hpsearch.cluster.records import AttemptResult, Control, Heartbeat, Stop
from hpsearch.cluster.study_dir import final_checkpoint
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import last_lines
from hpsearch.printable import printable
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


LOG_LINES, LOG_WIDTH = 5, 300
AT_ONCE = 100  # events of one transaction; an attempt adds up to two, so it may be one more


class Results(DriverPart):
    def report(self, seen: Observation) -> None:
        """Tell Optuna the learning curves, and prune what its pruner gives up."""
        reports = [report for report in seen.reports if not self.state.trials[report.trial].is_over]
        if self._trials.never_prunes:
            for start in range(0, len(reports), AT_ONCE):
                batch = reports[start : start + AT_ONCE]
                self._trials.report_all(batch)
                self._recorder.record_all([self._reported(report) for report in batch])
            return
        for report in reports:
            trial = self.state.trials[report.trial]
            if trial.is_over:
                continue
            last = report.is_last or report.step >= self._trials.config(trial).steps
            prune = self._trials.report(trial, report, last=last)
            rungs = len(self._trials.rungs(trial))
            # One by one: the pruner's verdict depends on all values before, and after a crash it
            # must have seen no more than was recorded.
            self._recorder.record_all([self._reported(report, prune=prune, rungs=rungs)])
        for trial in self.state.unfinished():
            if trial.prune:
                self._recorder.record_all([self._tell(trial, PRUNED)])

    def _reported(self, report: CurveReport, *, prune: bool = False, rungs: int = 0) -> Event:
        data = {"step": report.step, "value": report.value, "prune": prune, "rungs": rungs}
        return self._recorder.event("reported", trial=report.trial, data=data)

    def end_attempts(self, seen: Observation) -> None:
        """Decide what becomes of the trials whose attempt has ended."""
        events: list[Event] = []
        for number, result in seen.results.items():
            trial = self.state.trials[number]
            decided = verdict(trial, result, is_shared=self.state.is_shared(trial))
            if decided is Verdict.TELL:
                events.append(self._tell_values(trial, result))
            elif decided is Verdict.FAIL:
                events.append(self._tell(trial, FAIL, result))
            events.append(self._end_attempt(trial, result, decided, seen.heartbeats.get(number)))
            if len(events) >= AT_ONCE:
                self._recorder.record_all(events)
                events = []
        self._recorder.record_all(events)

    def cancel_all(self) -> None:
        for trial in self.state.unfinished():
            told = self._fail(trial, failures.CANCELLED, "the study was cancelled")
            self._recorder.record_all([told])

    def _end_attempt(
        self, trial: Trial, result: AttemptResult, decided: Verdict, heartbeat: Heartbeat | None
    ) -> Event:
        kept = _kept(trial, result, decided, heartbeat)
        speed = self._steps_per_second(trial, heartbeat)
        lost = 0 if kept is None else max(0, result.step - kept)
        data = {
            "status": result.status,
            "kind": trial.failure if decided is Verdict.NOTHING and trial.failure else result.kind,
            "message": result.message,
            "step": result.step,
            "lost_seconds": lost / speed if speed else 0.0,
            "kept": kept,
            "repeated_seconds": self._num_repeated(trial) / speed if speed else 0.0,
            "log": self._last_words(trial) if result.status in ("failed", "lost") else [],
        }
        return self._recorder.event(
            "attempt_ended", trial=trial.number, attempt=trial.attempts, data=data
        )

    def _steps_per_second(self, trial: Trial, heartbeat: Heartbeat | None) -> float:
        if heartbeat is not None:
            return heartbeat.steps_per_second
        # A member that has ended is in no heartbeat any more, but its job made as many steps.
        job_heartbeat = self._folder.job(trial.job or "").heartbeat.try_read()
        return 0.0 if job_heartbeat is None else job_heartbeat.steps_per_second

    def _num_repeated(self, trial: Trial) -> int:
        """Return the steps that the attempt made again although they were thought to be kept."""
        try:
            start = self._folder.trial(trial.number).attempt(trial.attempts).start.read()
        except (CorruptError, DiskError):  # not known
            return 0
        return 0 if start is None or trial.kept is None else max(0, trial.kept - start.step)

    def _last_words(self, trial: Trial) -> list[str]:
        job = self.state.jobs[trial.job or ""]
        if job.id is None:
            return []
        try:
            log = self._executor.log(self._folder.job(job.name), job.id)
        except OSError:
            return []
        return [printable(line)[:LOG_WIDTH] for line in last_lines(log, LOG_LINES)]

    def _tell_values(self, trial: Trial, result: AttemptResult) -> Event:
        kind = self._trials.failure(trial)
        if kind is not None:
            message = "its result came after Optuna had been told that it failed"
            return self._fail(trial, kind, message)
        missing = [metric for metric in self._trials.metric_names if metric not in result.metrics]
        if missing:
            return self._fail(trial, failures.CODE, f"the trainer measured no {', '.join(missing)}")
        return self._tell(trial, COMPLETE, result)

    def _fail(self, trial: Trial, kind: str, message: str) -> Event:
        return self._tell(trial, FAIL, AttemptResult("", "failed", 0, kind, message, {}))

    def _tell(self, trial: Trial, outcome: Stop, result: AttemptResult | None = None) -> Event:
        """Tell Optuna and the trial's folder how it ended, once.

        The event is returned to be recorded last: a driver that dies before leaves what the next
        one does again.
        """
        if result is None:
            result = AttemptResult("", outcome, 0, None, "", {})
        metrics, failure = result.metrics, result.kind
        told = {
            "state": outcome,
            "value": metrics[self._trials.metric]["value"] if outcome == COMPLETE else None,
            "metrics": metrics,
            "failure": failure,
            "message": result.message,
            "ended_by": result.ended_by,
        }
        files = self._folder.trial(trial.number)
        if trial.origin is not None:
            told |= self._descent(trial, trial.origin, outcome)
        self._recorder.keep_lease()
        self._trials.tell(trial, outcome, metrics, failure=failure)
        files.write_result(told)
        if trial.token is not None:
            files.control.write(Control(trial.token, stop=outcome))
        return self._recorder.event("told", trial=trial.number, data=told)

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
