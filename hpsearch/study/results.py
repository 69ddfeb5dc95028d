"""What attempts wrote, told to Optuna: learning curves, values, failures; each of them once."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from hpsearch.cluster.executor import Executor
from hpsearch.cluster.failures import CODE
from hpsearch.cluster.records import AttemptResult, Control, Heartbeat, Stop
from hpsearch.cluster.study_dir import StudyDir, final_checkpoint
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import last_lines
from hpsearch.printable import printable
from hpsearch.study.breeding.lineage import TrialAncestry
from hpsearch.study.events import NewEvent
from hpsearch.study.observe import CurveReport, Observation
from hpsearch.study.policy import Verdict, verdict
from hpsearch.study.recorder import EventRecorder
from hpsearch.study.records import COMPLETE, FAIL, PRUNED, PlannedTrial, Trial
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials
from hpsearch.trainers.checkpoint_name import manifest_sha256

LOG_LINES, LOG_WIDTH = 5, 300
AT_ONCE = 100
"""events of one transaction, or one more"""


class Results:
    """What the driver does with what its trials came to."""

    def __init__(
        self, folder: StudyDir, trials: Trials, recorder: EventRecorder, executor: Executor
    ) -> None:
        """Take where the trials lie and where they are told."""
        self._folder = folder
        self._trials = trials
        self._recorder = recorder
        self._executor = executor

    @property
    def _state(self) -> StudyState:
        return self._recorder.state

    def report(self, seen: Observation) -> None:
        """Tell Optuna the learning curves, and prune what its pruner gives up."""
        reports = [
            report for report in seen.reports if not self._state.trials[report.trial].is_over
        ]
        if self._trials.never_prunes:
            for start in range(0, len(reports), AT_ONCE):
                self._report_together(reports[start : start + AT_ONCE])
            return
        for report in reports:
            trial = self._state.trials[report.trial]
            if trial.is_over:
                continue
            last = report.step >= self._trials.config(trial).steps
            self._recorder.keep_lease()  # who has lost it writes nothing, here and below
            prune = self._trials.report(trial, report, last=last)
            told = {
                "step": report.step,
                "value": report.value,
                "prune": prune,
                "rungs": self._trials.num_rungs(trial),
            }
            # One by one: what a pruner says depends on all values before, and after a death it must
            # not have seen more of them than have been recorded.
            self._recorder.record("reported", trial=report.trial, data=told)
        for trial in self._state.unfinished():
            if trial.prune:
                self._recorder.record_all([self._tell(trial, PRUNED)])

    def _report_together(self, reports: Sequence[CurveReport]) -> None:
        """Tell values of which none can prune its trial."""
        self._recorder.keep_lease()
        self._trials.report_all(reports)
        self._recorder.record_all(
            [
                self._recorder.event(
                    "reported",
                    trial=report.trial,
                    data={"step": report.step, "value": report.value, "prune": False, "rungs": 0},
                )
                for report in reports
            ]
        )

    def end_attempts(self, seen: Observation) -> None:
        """Decide what becomes of the trials whose attempt has ended."""
        events: list[NewEvent] = []
        for number, result in seen.results.items():
            trial = self._state.trials[number]
            decided = verdict(trial, result, is_shared=self._state.is_shared(trial))
            match decided:
                case Verdict.TELL:
                    events.append(self._tell_values(trial, result))
                case Verdict.FAIL:
                    events.append(self._tell(trial, FAIL, result))
                case Verdict.REQUEUE | Verdict.NOTHING:
                    pass
            events.append(self._end_attempt(trial, result, decided, seen.beats.get(number)))
            if len(events) >= AT_ONCE:
                self._recorder.record_all(events)
                events = []
        self._recorder.record_all(events)

    def fail_all(self, kind: str, message: str) -> None:
        """Tell that every trial that has not ended failed."""
        for trial in self._state.unfinished():
            failed = AttemptResult("", "failed", trial.step, kind, message, {})
            self._recorder.record_all([self._tell(trial, FAIL, failed)])

    def _end_attempt(
        self, trial: Trial, result: AttemptResult, decided: Verdict, beat: Heartbeat | None
    ) -> NewEvent:
        failed = result.status in ("failed", "lost")
        kept, speed = _kept(trial, result, decided, beat), self._steps_per_second(trial, beat)
        lost = 0 if kept is None else max(0, result.step - kept)
        ended = {
            "status": result.status,
            "kind": trial.failure if decided is Verdict.NOTHING and trial.failure else result.kind,
            "message": result.message,
            "step": result.step,
            "lost_seconds": lost / speed if speed else 0.0,
            "kept": kept,
            "repeated_seconds": self._num_repeated(trial) / speed if speed else 0.0,
            "log": self._last_words(trial) if failed else [],
        }
        return self._recorder.event(
            "attempt_ended", trial=trial.number, attempt=trial.attempts, data=ended
        )

    def _steps_per_second(self, trial: Trial, beat: Heartbeat | None) -> float:
        """Return how fast the attempt made steps, 0 if that is not known."""
        if beat is not None:
            return beat.steps_per_second
        # A member that has ended is in no sign of life any more, but its job made as many steps.
        said = self._folder.job(trial.job or "").heartbeat.read()
        return 0.0 if said is None else said.steps_per_second

    def _num_repeated(self, trial: Trial) -> int:
        """Return the steps that the attempt made again although they were thought to be kept."""
        try:
            start = self._folder.trial(trial.number).attempt(trial.attempts).read_start()
        except (CorruptError, DiskError):  # not known
            return 0
        return 0 if start is None or trial.kept is None else max(0, trial.kept - start.step)

    def _last_words(self, trial: Trial) -> list[str]:
        """Return the last lines that the trial's job printed."""
        job = self._state.jobs[trial.job or ""]
        if job.id is None:
            return []
        try:
            log = self._executor.log(self._folder.job(job.name), job.id)
        except OSError:
            return []
        return [printable(line)[:LOG_WIDTH] for line in last_lines(log, LOG_LINES)]

    def _tell_values(self, trial: Trial, result: AttemptResult) -> NewEvent:
        kind = self._trials.failure(trial)
        if kind is not None:
            message = "its result came after Optuna had been told that it failed"
            failed = AttemptResult("", "failed", result.step, kind, message, {})
            return self._tell(trial, FAIL, failed)
        missing = [metric for metric in self._trials.metrics if metric not in result.metrics]
        if missing:
            message = f"the trainer measured no {', '.join(missing)}"
            failed = AttemptResult("", "failed", result.step, CODE, message, {})
            return self._tell(trial, FAIL, failed)
        return self._tell(trial, COMPLETE, result)

    def _tell(self, trial: Trial, how: Stop, result: AttemptResult | None = None) -> NewEvent:
        """Tell Optuna how a trial ended, once, and write it into the trial's folder.

        The event is returned to be recorded last: a driver that dies before leaves what the next
        one does again.
        """
        metrics = result.metrics if result is not None else {}
        failure = result.kind if result is not None else None
        told = {
            "state": how,
            "value": metrics[self._trials.metric]["value"] if how == COMPLETE else None,
            "metrics": metrics,
            "failure": failure,
            "message": result.message if result is not None else "",
        }
        files = self._folder.trial(trial.number)
        if trial.origin is not None:
            told |= self._descent(trial, trial.origin, how)
        self._recorder.keep_lease()
        self._trials.tell(trial, how, metrics, failure=failure)
        files.write_result(told)
        if trial.token is not None:
            files.write_control(Control(trial.token, stop=how))
        return self._recorder.event("told", trial=trial.number, data=told)

    def _descent(self, trial: Trial, origin: PlannedTrial, how: Stop) -> dict[str, Any]:
        """Return what became of a trial of a population, and which checkpoints it left."""
        files = self._folder.trial(trial.number)
        try:
            birth, exchanges = files.read_birth(), files.read_exchanges()
            last = self._folder.checkpoint(final_checkpoint(trial.number, origin.steps))
            sha256 = manifest_sha256(last)
        except CorruptError:  # for good; a disk that fails now ends the tick, and is asked again
            return {"birth": None, "node": None}
        descent = TrialAncestry(trial, self._state.trials, self._seed(trial), birth, exchanges)
        told = {
            "birth": None if birth is None else asdict(birth),
            "node": None,
            "takeovers": [asdict(takeover) for takeover in exchanges.takeovers],
            "lent": [asdict(descent.node(loan.step, loan.sha256)) for loan in exchanges.loans],
        }
        if how == COMPLETE and sha256 is not None:
            told["node"] = asdict(descent.node(origin.steps, sha256))
        return told

    def _seed(self, trial: Trial) -> int:
        return int(self._trials.plain_config(trial)["seed"])


def _kept(
    trial: Trial, result: AttemptResult, decided: Verdict, beat: Heartbeat | None
) -> int | None:
    """Return the step up to which an attempt's training will be used, None if not known.

    As far as the job said: its newest checkpoint may turn out to be damaged, or to be one that the
    others in its job lack. The next attempt tells from which step it went on.
    """
    if decided is Verdict.TELL or result.status in ("interrupted", "pruned"):
        return result.step or None  # 0 where it never began, which changes nothing
    if decided is Verdict.FAIL:
        return trial.first_step
    return None if beat is None else max(beat.saved, trial.first_step)
