"""The driver: looks, records, decides, acts. The only writer of SQL.

A tick does one round and may die anywhere: what it decides from is a fold over the event log, each
outside action is announced by an event before it is taken, and what was announced but not confirmed
is looked up at the executor by the next tick. So the next one continues.
"""

from collections.abc import Callable, Sequence
from uuid import uuid4

from hpsearch import yaml_file
from hpsearch.cluster.executor import Executor
from hpsearch.cluster.messages import Assignment, AttemptResult, Control
from hpsearch.cluster.trial_dir import StudyDir
from hpsearch.study.dispatch import groups
from hpsearch.study.observe import Observation, observe
from hpsearch.study.policy import Verdict, verdict
from hpsearch.study.recorder import Recorder
from hpsearch.study.spec import StudySpec
from hpsearch.study.state import (
    COMPLETE,
    FAIL,
    FAILED,
    FINISHED,
    PRUNED,
    RUNNING,
    Job,
    StudyState,
    Trial,
)
from hpsearch.study.trials import Trials
from hpsearch.trainers.config import shape_key


class Driver:
    """Drives one study; `opening.open_driver` puts its parts together."""

    def __init__(
        self,
        spec: StudySpec,
        folder: StudyDir,
        trials: Trials,
        recorder: Recorder,
        executor: Executor,
        *,
        num_threads: int,
        clock: Callable[[], float],
    ) -> None:
        """Take what the study says, where it lies, and where its jobs run."""
        self._spec = spec
        self._folder = folder
        self._trials = trials
        self._recorder = recorder
        self._executor = executor
        self._num_threads = num_threads
        self._clock = clock

    @property
    def state(self) -> StudyState:
        """Return what the events so far add up to."""
        return self._recorder.state

    def start(self) -> None:
        """Begin, or go on if that is possible: a grown budget or limit reopens a study."""
        left = self._has_budget() or bool(self.state.unfinished()) or self.state.status == FAILED
        reopens = self.state.status != RUNNING and left and not self._is_broken()
        if self.state.started_at is None or reopens:
            self._recorder.record("started")

    def tick(self) -> None:
        """Do one round."""
        self._look()
        if not self._is_broken():
            self._ask()
            self._dispatch()
        self._conclude()

    def interrupt(self) -> None:
        """Ask all running jobs to save their trials and leave; may be repeated."""
        for job in self.state.live_jobs():
            if job.id is not None:
                if not job.interrupted:
                    self._recorder.record("interrupting", job=job.name)
                self._executor.interrupt(self._folder.job(job.name), job.id)

    def collect(self) -> None:
        """Do one round without starting anything."""
        self._look()

    def close(self) -> None:
        """Let another driver take over at once."""
        self._recorder.close()

    # Look and record.

    def _look(self) -> None:
        self._recorder.keep_lease()
        self._confirm_submissions()
        seen = observe(
            self.state, self._folder, self._executor, self._trials.metric, self._trials.is_rung
        )
        self._report(seen)
        self._end_attempts(seen)
        self._end_jobs(seen)

    def _confirm_submissions(self) -> None:
        """Look up the jobs that were announced by a driver that died before it could confirm."""
        for job in self.state.live_jobs():
            if job.id is None:
                job_id = self._executor.find(self._folder.job(job.name))
                if job_id is not None:
                    self._recorder.record("submitted", job=job.name, data={"id": job_id})
                else:
                    self._withdraw(job)

    def _withdraw(self, job: Job) -> None:
        """End a job that never reached the executor; its trials wait again."""
        for number, _, token in job.trials:
            trial = self.state.trials[number]
            if trial.token == token:
                never = AttemptResult(token, "interrupted", trial.step, None, "never began", {})
                self._end_attempt(trial, never)
        self._recorder.record("job_ended", job=job.name)

    def _report(self, seen: Observation) -> None:
        """Tell Optuna the learning curves, and prune what its pruner gives up."""
        for report in seen.reports:
            trial = self.state.trials[report.trial]
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
        self._tell_pruned()

    def _tell_pruned(self) -> None:
        for trial in self.state.unfinished():
            if trial.prune:
                self._tell(trial, PRUNED)

    def _end_attempts(self, seen: Observation) -> None:
        for number, result in seen.results.items():
            trial = self.state.trials[number]
            match verdict(trial, result):
                case Verdict.TELL:
                    self._tell_values(trial, result)
                case Verdict.FAIL:
                    self._tell(trial, FAIL, result)
                case Verdict.REQUEUE | Verdict.NOTHING:
                    pass
            self._end_attempt(trial, result)

    def _end_attempt(self, trial: Trial, result: AttemptResult) -> None:
        ended = {
            "status": result.status,
            "kind": result.kind,
            "message": result.message,
            "step": result.step,
        }
        self._recorder.record(
            "attempt_ended", trial=trial.number, attempt=trial.attempts, data=ended
        )

    def _end_jobs(self, seen: Observation) -> None:
        for job in self.state.live_jobs():
            if job.name not in seen.alive:
                self._recorder.record("job_ended", job=job.name)

    # Decide and act.

    def _is_broken(self) -> bool:
        """Return whether more trials have failed than the study allows."""
        return len(self.state.told(FAIL)) > self._spec.max_failures

    def _has_budget(self) -> bool:
        budget, began = self._spec.budget, self.state.started_at
        if len(self.state.trials) >= budget.trials:
            return False
        if budget.wall_hours is None or began is None:
            return True
        return self._clock() - began < budget.wall_hours * 3600

    def _free_jobs(self) -> int:
        return self._spec.executor.jobs - len(self.state.live_jobs())

    def _ask(self) -> None:
        """Ask for as many trials as the free jobs can hold.

        What an interruption threw out of a job fills a job, however little of it is left: in an
        uninterrupted study, nothing is asked before that job ends.
        """
        free = self._free_jobs() - len({trial.job for trial in self.state.waiting()} - {None})
        places = free * self._spec.executor.members_per_job
        while self._num_new() < places and self._has_budget():
            number, params = self._trials.ask(known=self.state.trials)
            self._recorder.record("asked", trial=number, data={"params": params})

    def _num_new(self) -> int:
        return sum(trial.job is None for trial in self.state.waiting())

    def _dispatch(self) -> None:
        """Submit waiting trials while a job is free."""
        waiting = groups(
            self.state.waiting(),
            shape=lambda trial: shape_key(self._trials.config(trial)),
            members_per_job=self._spec.executor.members_per_job,
        )
        for group in waiting[: max(self._free_jobs(), 0)]:
            self._submit(group)

    def _submit(self, group: Sequence[Trial]) -> None:
        """Announce a job, write its files, submit it, confirm it."""
        job = self._folder.job(f"{len(self.state.jobs) + 1:05d}")
        assignments = tuple(
            Assignment(trial.number, trial.attempts + 1, uuid4().hex) for trial in group
        )
        announced = [
            {"trial": one.trial, "attempt": one.attempt, "token": one.token} for one in assignments
        ]
        self._recorder.record("announced", job=job.name, data={"trials": announced})
        for trial, assignment in zip(group, assignments, strict=True):
            files = self._folder.trial(trial.number)
            config = self._trials.plain_config(trial)
            lineage = {"parents": [], "operator": "ask", "seed": config["seed"]}
            files.create(yaml_file.dump(config), lineage)
            files.write_control(Control(assignment.token, stop=None))
        job.write(assignments, self._num_threads)
        job_id = self._executor.submit(job)
        self._recorder.record("submitted", job=job.name, data={"id": job_id})

    def _tell_values(self, trial: Trial, result: AttemptResult) -> None:
        missing = [metric for metric in self._trials.metrics if metric not in result.metrics]
        if missing:
            message = f"the trainer measured no {', '.join(missing)}"
            self._tell(trial, FAIL, AttemptResult("", "failed", result.step, "code", message, {}))
        else:
            self._tell(trial, COMPLETE, result)

    def _tell(self, trial: Trial, how: str, result: AttemptResult | None = None) -> None:
        """Tell Optuna how a trial ended, once, and write it into the trial's folder.

        The event comes last: a driver that dies before it leaves what the next one does again.
        """
        metrics = result.metrics if result is not None else {}
        told = {
            "state": how,
            "value": metrics[self._trials.metric]["value"] if how == COMPLETE else None,
            "metrics": metrics,
            "failure": result.kind if result is not None else None,
            "message": result.message if result is not None else "",
        }
        self._trials.tell(trial, how, metrics)
        files = self._folder.trial(trial.number)
        files.write_result(told)
        if trial.token is not None:
            files.write_control(Control(trial.token, stop=how))
        self._recorder.record("told", trial=trial.number, data=told)

    def _conclude(self) -> None:
        """End the study when nothing is left to do, or when too much has failed."""
        if self.state.status != RUNNING:
            return
        if self._is_broken():
            self.interrupt()
            if not self.state.live_jobs():
                self._recorder.record("ended", data={"status": FAILED})
        elif not self.state.unfinished() and not self.state.live_jobs() and not self._has_budget():
            self._recorder.record("ended", data={"status": FINISHED})
