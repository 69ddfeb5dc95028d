"""Pilots: jobs that take more trials when they have trained some.

What a process pays once (imports, the device, compilation) is then paid once for all of them. A
group of trials is announced by an event before its files are written; where a driver died in
between, the next one writes them.
"""

from collections.abc import Sequence
from dataclasses import asdict

from hpsearch.cluster.messages import Assignment
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.study.jobs import new_attempts, write_trials
from hpsearch.study.recorder import Recorder
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials


class Pilots:
    """The pilots of a study."""

    def __init__(
        self, folder: StudyDir, trials: Trials, recorder: Recorder, *, looks_ahead: bool
    ) -> None:
        """Give trials to the jobs of a study.

        With ``looks_ahead`` a job gets more as soon as what it trains has come to its last rung, so
        that it need not wait for a driver that comes by once in a while.
        """
        self._folder = folder
        self._trials = trials
        self._recorder = recorder
        self._looks_ahead = looks_ahead
        self._is_repaired = False

    @property
    def _state(self) -> StudyState:
        return self._recorder.state

    def ready(self) -> list[Job]:
        """Return the jobs that can take more trials."""
        return [job for job in self._open() if self._is_about_to_end(job)]

    def give(self, groups: Sequence[list[Trial]]) -> list[list[Trial]]:
        """Give each ready job a group of its shape; return the groups that are left.

        Raises:
            DiskError: if the files of a group cannot be written.
            ConflictError: if another driver has taken the study.
        """
        left = list(groups)
        for job in self.ready():
            shape = self._shape(job)
            group = next((one for one in left if self._trials.shape(one[0]) == shape), None)
            if group is not None:
                left.remove(group)
                self._give(job, group)
        return left

    def close_idle(self) -> None:
        """Let the jobs go for which there is nothing to do.

        Raises:
            DiskError: if they cannot be told.
            ConflictError: if another driver has taken the study.
        """
        idle = [job for job in self._open() if self._state.is_idle(job)]
        events = [self._recorder.event("job_closed", job=job.name) for job in idle]
        self._recorder.record_all(events)
        for job in idle:
            self._folder.job(job.name).write_next(len(job.groups), ())

    def repair(self) -> None:
        """Write what the driver before announced and did not live to write; once is enough.

        Raises:
            DiskError: if that is not possible.
        """
        if self._is_repaired:
            return
        for job in self._state.live_jobs():
            given = len(job.groups) - 1
            files = self._folder.job(job.name)
            if given and files.read_next(given) is None:
                self._write(job, [Assignment(*one) for one in job.groups[-1]])
            if job.closed and files.read_next(given + 1) is None:
                files.write_next(given + 1, ())
        self._is_repaired = True

    def _open(self) -> list[Job]:
        """Return the pilots that run and may be given more."""
        return [
            job
            for job in self._state.live_jobs()
            if job.is_pilot
            and job.began_at is not None
            and not (job.closed or job.interrupted or job.is_leaving)
        ]

    def _is_about_to_end(self, job: Job) -> bool:
        if self._state.is_idle(job):
            return True
        running = (self._state.trials[number] for number, _, _ in job.groups[-1])
        return self._looks_ahead and all(self._trials.is_at_last_rung(one) for one in running)

    def _shape(self, job: Job) -> object:
        return self._trials.shape(self._state.trials[job.groups[0][0][0]])

    def _give(self, job: Job, group: Sequence[Trial]) -> None:
        attempts = new_attempts(group)
        data = {"trials": [asdict(one) for one in attempts]}
        self._recorder.record("announced", job=job.name, data=data)
        self._write(job, attempts)

    def _write(self, job: Job, attempts: Sequence[Assignment]) -> None:
        group = [self._state.trials[attempt.trial] for attempt in attempts]
        # One that was told since must not be told to go on.
        going = [(t, a) for t, a in zip(group, attempts, strict=True) if t.told is None]
        write_trials(self._folder, self._trials, [t for t, _ in going], [a for _, a in going])
        self._folder.job(job.name).write_next(len(job.groups) - 1, attempts)
