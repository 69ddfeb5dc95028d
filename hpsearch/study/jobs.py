"""The jobs of a study: announced, submitted, followed, and ended.

A job is announced by an event before it is submitted, so that a driver which dies in between leaves
something to look up. What the executor then knows of the job is confirmed; what it does not know of
after `Executor.patience` seconds never began.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict
from uuid import uuid4

from hpsearch import yaml_file
from hpsearch.cluster.executor import (
    Executor,
    SchedulerSilentError,
    SubmissionRefusedError,
    shared_part,
)
from hpsearch.cluster.records import Assignment, Control, JobPlan
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.study.observe import Observation
from hpsearch.study.recorder import EventRecorder
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""seconds without submissions after one that failed, doubled each time"""


class Jobs:
    """What the driver does with an executor."""

    def __init__(
        self,
        folder: StudyDir,
        trials: Trials,
        recorder: EventRecorder,
        executor: Executor,
        *,
        refills: bool,
        heartbeat_seconds: float,
        clock: Callable[[], float],
    ) -> None:
        """Take where the study lies and where its jobs run.

        ``refills`` says whether a pilot may be given more while it trains, ``heartbeat_seconds``
        how often a job gives a sign of life.
        """
        self._folder = folder
        self._trials = trials
        self._recorder = recorder
        self._executor = executor
        self._refills = refills
        self._heartbeat_seconds = heartbeat_seconds
        self._clock = clock
        self._pause = FIRST_PAUSE
        self._batch = executor.max_batch
        """jobs that one submission holds, as far as the executor took so many"""
        self._not_before = 0.0
        self.refusal: str | None = None
        """what the executor said when it last refused jobs; None after it took some"""

    @property
    def _state(self) -> StudyState:
        return self._recorder.state

    def follow(self, seen: Observation) -> None:
        """Record which announced jobs the executor has, and which have begun to run."""
        event, events = self._recorder.event, []
        for job in self._state.live_jobs():
            status = seen.jobs.get(job.name)
            if status is None:
                continue
            if job.id is None:
                events.append(event("submitted", job=job.name, data={"id": status.id}))
            if job.began_at is None and status.phase == "running":
                events.append(event("job_began", job=job.name))
        self._recorder.record_all(events)

    def end(self, seen: Observation) -> None:
        """Record the jobs that are gone."""
        events = []
        for job in self._state.live_jobs():
            if job.name in seen.gone:
                status = seen.jobs.get(job.name)
                known = {"kind": status.failure, "ended_at": status.ended_at} if status else {}
                data = {key: value for key, value in known.items() if value is not None}
                data |= {"seen": status is not None}
                events.append(self._recorder.event("job_ended", job=job.name, data=data))
        self._recorder.record_all(events)

    def submit(self, groups: Sequence[Sequence[Trial]]) -> None:
        """Submit a job for each group of trials, unless the executor needs a rest.

        After a refusal fewer jobs are submitted at once, since a site may limit a user's jobs.

        Raises:
            DiskError: if the files of a job cannot be written.
            ConflictError: if another driver has taken the study.
        """
        left = list(groups)
        while left and not self._rests():
            size = min(self._executor.max_batch, self._batch)
            self._start(self._announce(left[:size]))
            del left[:size]

    def submit_match(self, number: int) -> None:
        """Submit a job that plays a match, unless the executor needs a rest.

        Raises:
            DiskError: if its file cannot be written.
            ConflictError: if another driver has taken the study.
        """
        if not self._rests():
            self._start([self._announce_match(number)])

    def interrupt(self) -> None:
        """Ask all jobs to save their trials and leave; may be repeated."""
        submitted = self._submitted()
        self._note_interruption(submitted)
        with suppress(SchedulerSilentError):  # the next round asks again
            self._executor.interrupt(submitted)

    def cancel(self, names: Sequence[str] | None = None) -> None:
        """End jobs at once, all of them if none are named; may be repeated.

        Whatever else ends with them was interrupted, as far as its trials are concerned.
        """
        submitted = self._submitted()
        ending = {shared_part(i) for job, i in submitted if names is None or job.name in names}
        chosen = [job for job in submitted if shared_part(job[1]) in ending]
        if chosen:
            self._note_interruption(chosen)
            with suppress(SchedulerSilentError):  # the next round tries again
                self._executor.cancel(chosen)

    def cancel_silent(self) -> None:
        """End the jobs whose trials were given up because nothing was heard of them."""
        names = [job.name for job in self._state.live_jobs() if job.is_silent]
        if names:
            self.cancel(names)

    def cancel_strays(self) -> None:
        """End jobs in the queue that were not announced, or that were given up."""
        self._recorder.renew_lease()  # one that was replaced would take its successor's for strays
        with suppress(SchedulerSilentError):
            self._executor.cancel_strays()

    def _note_interruption(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        events = [
            self._recorder.event("interrupting", job=job.name)
            for job, _ in jobs
            if not self._state.jobs[job.name].interrupted
        ]
        self._recorder.record_all(events)

    def _submitted(self) -> list[tuple[JobDir, str]]:
        return [
            (self._folder.job(job.name), job.id)
            for job in self._state.live_jobs()
            if job.id is not None
        ]

    def _start(self, jobs: Sequence[JobDir]) -> None:
        """Submit jobs that were announced."""
        try:
            ids = self._executor.submit(jobs)
        except SubmissionRefusedError as error:
            self.refusal = str(error)
            self._batch = max(1, len(jobs) // 2)
            self._rest()
            self._withdraw([self._state.jobs[job.name] for job in jobs])
            return
        except SchedulerSilentError:
            self._rest()  # the next looks tell whether it took them
            return
        self.refusal, self._pause, self._batch = None, FIRST_PAUSE, 2 * self._batch
        self._recorder.record_all(
            [
                self._recorder.event("submitted", job=job.name, data={"id": ids[job.name]})
                for job in jobs
            ]
        )

    def _announce(self, groups: Sequence[Sequence[Trial]]) -> list[JobDir]:
        """Announce a job for each group of trials, all at once, and write their files."""
        first = len(self._state.jobs) + 1
        jobs = [self._folder.job(f"{first + index:05d}") for index in range(len(groups))]
        plans = [new_attempts(group) for group in groups]
        gpus = self._executor.gpus_per_job
        pilot = {"pilot": True} if self._executor.pilot_seconds else {}
        self._recorder.record_all(
            [
                self._recorder.event(
                    "announced",
                    job=job.name,
                    data={"trials": [asdict(assignment) for assignment in plan], "gpus": gpus}
                    | pilot,
                )
                for job, plan in zip(jobs, plans, strict=True)
            ]
        )
        for job, group, plan in zip(jobs, groups, plans, strict=True):
            self._recorder.keep_lease()  # many files may take long
            write_trials(self._folder, self._trials, group, plan)
            threads, seconds = self._executor.num_threads, self._executor.pilot_seconds
            # Trials that no other joins train in step, and go on so after a kill.
            refills = self._refills and seconds > 0
            pause = self._heartbeat_seconds
            job.write(JobPlan(plan, threads, seconds, refills, heartbeat_seconds=pause))
        return jobs

    def _announce_match(self, number: int) -> JobDir:
        job = self._folder.job(f"{len(self._state.jobs) + 1:05d}")
        gpus = self._executor.gpus_per_job
        data = {"trials": [], "gpus": gpus, "match": number}
        self._recorder.record("announced", job=job.name, data=data)
        job.write(JobPlan((), self._executor.num_threads, 0.0, refills=False, match=number))
        return job

    def _withdraw(self, jobs: Sequence[Job]) -> None:
        """End jobs that never reached the executor; their trials wait again."""
        never = {"status": "interrupted", "kind": None, "message": "never began", "began": False}
        event, events = self._recorder.event, []
        for job in jobs:
            for number in sorted(job.running):
                trial = self._state.trials[number]
                data = {**never, "step": trial.step}
                ended = event("attempt_ended", trial=number, attempt=trial.attempts, data=data)
                events.append(ended)
            events.append(event("job_ended", job=job.name))
        self._recorder.record_all(events)

    def _rests(self) -> bool:
        """Return whether the executor needs a rest; a clock set back prolongs none."""
        return 0 < self._not_before - self._clock() <= LONGEST_PAUSE

    def _rest(self) -> None:
        self._not_before = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


def new_attempts(group: Sequence[Trial]) -> tuple[Assignment, ...]:
    """Return the next attempt at each of some trials, with a token that no attempt had before."""
    return tuple(Assignment(trial.number, trial.attempts + 1, uuid4().hex) for trial in group)


def write_trials(
    folder: StudyDir, trials: Trials, group: Sequence[Trial], attempts: Sequence[Assignment]
) -> None:
    """Write the files of trials that are about to run; doing it again changes nothing.

    Raises:
        DiskError: if that is not possible.
    """
    for trial, attempt in zip(group, attempts, strict=True):
        files = folder.trial(trial.number)
        config = trials.plain_config(trial)
        files.create(yaml_file.dump(config), trials.lineage(trial), trials.island(trial))
        files.write_control(Control(attempt.token, stop=None))
