"""What attempts wrote, told to Optuna: learning curves, values, failures; each of them once."""

from hpsearch.cluster.executor import Executor
from hpsearch.cluster.messages import AttemptResult, Control, Stop
from hpsearch.cluster.trial_dir import StudyDir
from hpsearch.study.observe import Observation
from hpsearch.study.policy import Verdict, verdict
from hpsearch.study.recorder import Recorder
from hpsearch.study.state import COMPLETE, FAIL, PRUNED, StudyState, Trial
from hpsearch.study.trials import Trials

LOG_LINES, LOG_WIDTH = 5, 300


class Results:
    """What the driver does with what its trials came to."""

    def __init__(
        self, folder: StudyDir, trials: Trials, recorder: Recorder, executor: Executor
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
        for report in seen.reports:
            trial = self._state.trials[report.trial]
            if trial.is_over:
                continue
            last = report.step >= self._trials.config(trial).steps
            prune = self._trials.report(trial, report, last=last)
            told = {
                "step": report.step,
                "value": report.value,
                "prune": prune,
                "rungs": self._trials.num_rungs(trial),
            }
            self._recorder.record("reported", trial=report.trial, data=told)
        for trial in self._state.unfinished():
            if trial.prune:
                self._tell(trial, PRUNED)

    def end_attempts(self, seen: Observation) -> None:
        """Decide what becomes of the trials whose attempt has ended."""
        for number, result in seen.results.items():
            trial = self._state.trials[number]
            decided = verdict(trial, result)
            match decided:
                case Verdict.TELL:
                    self._tell_values(trial, result)
                case Verdict.FAIL:
                    self._tell(trial, FAIL, result)
                case Verdict.REQUEUE | Verdict.NOTHING:
                    pass
            self._end_attempt(trial, result, decided)

    def fail_all(self, kind: str, message: str) -> None:
        """Tell that every trial that has not ended failed."""
        for trial in self._state.unfinished():
            self._tell(trial, FAIL, AttemptResult("", "failed", trial.step, kind, message, {}))

    def _end_attempt(self, trial: Trial, result: AttemptResult, decided: Verdict) -> None:
        failed = result.status in ("failed", "lost")
        ended = {
            "status": result.status,
            "kind": result.kind,
            "message": result.message,
            "step": result.step,
            "lost_seconds": self._lost_seconds(trial, result, decided),
            "log": self._last_words(trial) if failed else [],
        }
        self._recorder.record(
            "attempt_ended", trial=trial.number, attempt=trial.attempts, data=ended
        )

    def _lost_seconds(self, trial: Trial, result: AttemptResult, decided: Verdict) -> float:
        """Return the seconds of training that the attempt made and nobody will use."""
        attempt = self._folder.trial(trial.number).attempt(trial.attempts)
        heartbeat = attempt.read_heartbeat()
        if decided is Verdict.TELL or result.status in ("interrupted", "pruned"):
            return 0.0
        if heartbeat is None or heartbeat.steps_per_second <= 0:
            return 0.0
        kept = 0 if decided is Verdict.FAIL else heartbeat.saved
        return max(0, result.step - kept) / heartbeat.steps_per_second

    def _last_words(self, trial: Trial) -> list[str]:
        """Return the last lines that the trial's job printed."""
        job = self._state.jobs[trial.job or ""]
        if job.id is None:
            return []
        try:
            log = self._executor.log(self._folder.job(job.name), job.id)
            lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            return []
        return [line[:LOG_WIDTH] for line in lines[-LOG_LINES:]]

    def _tell_values(self, trial: Trial, result: AttemptResult) -> None:
        missing = [metric for metric in self._trials.metrics if metric not in result.metrics]
        if missing:
            message = f"the trainer measured no {', '.join(missing)}"
            self._tell(trial, FAIL, AttemptResult("", "failed", result.step, "code", message, {}))
        else:
            self._tell(trial, COMPLETE, result)

    def _tell(self, trial: Trial, how: Stop, result: AttemptResult | None = None) -> None:
        """Tell Optuna how a trial ended, once, and write it into the trial's folder.

        The event comes last: a driver that dies before it leaves what the next one does again.
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
        self._trials.tell(trial, how, metrics, failure=failure)
        files = self._folder.trial(trial.number)
        files.write_result(told)
        if trial.token is not None:
            files.write_control(Control(trial.token, stop=how))
        self._recorder.record("told", trial=trial.number, data=told)
