"""Pilots: jobs that take more trials than their first ones.

What a process pays once (imports, the device, compilation) is then paid once for all of them. A
trial that ends leaves a place, which the next one of its shape takes. A group of trials is
announced by an event before its files are written; where a driver died in between, the next one
writes them.
"""

from collections.abc import Sequence
from dataclasses import asdict

from hpsearch.cluster.records import Assignment
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.errors import CorruptError
from hpsearch.study.jobs import new_attempts, write_trials
from hpsearch.study.recorder import EventRecorder
from hpsearch.study.records import Job, Trial
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials


class Pilots:
    """The pilots of a study."""

    def __init__(
        self,
        folder: StudyDir,
        trials: Trials,
        recorder: EventRecorder,
        *,
        members_per_job: int,
        refills: bool,
        looks_ahead: bool,
    ) -> None:
        """Give trials to the jobs of a study.

        With ``refills`` a job gets more while some of its trials still train, else when all have
        ended. With ``looks_ahead`` a trial that has come to its last rung counts as ended, so that
        its place need not wait for a driver that comes by once in a while.
        """
        self._folder = folder
        self._trials = trials
        self._recorder = recorder
        self._members_per_job = members_per_job
        self._refills = refills
        self._looks_ahead = looks_ahead
        self._is_repaired = False

    @property
    def _state(self) -> StudyState:
        return self._recorder.state

    @property
    def places(self) -> int:
        """Return how many more trials all jobs can take now."""
        return sum(self._places(job) for job in self._open())

    def give(self, groups: Sequence[list[Trial]]) -> list[list[Trial]]:
        """Give each job trials of its shape; return the groups that are left.

        Raises:
            DiskError: if the files of a group cannot be written.
            ConflictError: if another driver has taken the study.
        """
        left = list(groups)
        for job in self._open():
            places = self._places(job) if left else 0
            chosen = self._chosen(job, left, places) if places else []
            if chosen:
                self._give(job, chosen)
                given = {trial.number for trial in chosen}
                rest = ([trial for trial in group if trial.number not in given] for group in left)
                left = [group for group in rest if group]
        return left

    def _chosen(self, job: Job, groups: Sequence[list[Trial]], places: int) -> list[Trial]:
        """Return the trials that a job is given; where none are refilled, those of one group."""
        fitting = [group for group in groups if self._fits(job, group)]
        if not self._refills:
            fitting = fitting[:1]
        return [trial for group in fitting for trial in group][:places]

    def give_match(self, number: int) -> bool:
        """Give a match to a job that trains no trial; return whether there was one.

        Raises:
            DiskError: if that cannot be written.
            ConflictError: if another driver has taken the study.
        """
        for job in self._idle():
            data = {"trials": [], "match": number}
            self._recorder.record("announced", job=job.name, data=data)
            self._folder.job(job.name).write_next_match(len(job.groups) - 1, number)
            return True
        return False

    @property
    def num_leaving(self) -> int:
        """Return how many jobs have nothing left to train or play, and only need time to go."""
        going = [job for job in self._state.live_jobs() if job.closed or job.is_leaving]
        return sum(not (job.running or self._plays(job)) for job in going)

    def close_idle(self, at_most: int | None = None) -> None:
        """Let the jobs go for which there is nothing to do, all of them if no number is said.

        Raises:
            DiskError: if they cannot be told.
            ConflictError: if another driver has taken the study.
        """
        self._close(self._idle()[:at_most])

    def close_all(self) -> None:
        """Let all jobs go when they have trained what they have; raises as `close_idle` does."""
        self._close(self._open())

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
            # What was announced before has been written: one died at the newest.
            if given and _lacks(files, given):
                self._rewrite(job)
            if job.closed and _lacks(files, given + 1):
                files.write_next(given + 1, ())
        self._is_repaired = True

    def _rewrite(self, job: Job) -> None:
        """Write what a job was given last: trials, or a match."""
        if job.groups[-1]:
            self._write(job, [Assignment(*group) for group in job.groups[-1]])
        elif job.match is not None:
            self._folder.job(job.name).write_next_match(len(job.groups) - 1, job.match)

    def _idle(self) -> list[Job]:
        """Return the pilots that run, may be given more, and have nothing to do."""
        return [job for job in self._open() if not (job.running or self._plays(job))]

    def _plays(self, job: Job) -> bool:
        match = self._state.population.match
        return match is not None and match.job == job.name

    def _open(self) -> list[Job]:
        """Return the pilots that run and may be given more."""
        return [
            job
            for job in self._state.live_jobs()
            if job.is_pilot
            and job.began_at is not None
            and not (job.closed or job.interrupted or job.is_leaving)
        ]

    def _places(self, job: Job) -> int:
        """Return how many more trials a job can take now."""
        if self._plays(job):
            return 0
        if not job.running:
            return self._members_per_job
        if not self._refills:
            return 0
        staying = len(job.running)
        if self._looks_ahead:
            trials = (self._state.trials[number] for number in job.running)
            staying = sum(not self._trials.is_at_last_rung(trial) for trial in trials)
        # Twice as many at most: short trials are at their last rung from the beginning.
        return max(0, min(job.slots - staying, 2 * job.slots - len(job.running)))

    def _fits(self, job: Job, group: Sequence[Trial]) -> bool:
        """Return whether a group can train in a job; one that needs a GPU of its own cannot."""
        if group[0].is_alone:
            return False
        first, _, _ = job.groups[0][0]
        return self._trials.shape(group[0]) == self._trials.shape(self._state.trials[first])

    def _close(self, jobs: Sequence[Job]) -> None:
        events = [self._recorder.event("job_closed", job=job.name) for job in jobs]
        self._recorder.record_all(events)
        for job in jobs:
            self._folder.job(job.name).write_next(len(job.groups), ())

    def _give(self, job: Job, group: Sequence[Trial]) -> None:
        attempts = new_attempts(group)
        data = {"trials": [asdict(attempt) for attempt in attempts]}
        self._recorder.record("announced", job=job.name, data=data)
        self._write(job, attempts)

    def _write(self, job: Job, attempts: Sequence[Assignment]) -> None:
        group = [self._state.trials[attempt.trial] for attempt in attempts]
        # One that was told since must not be told to go on.
        going = [(t, a) for t, a in zip(group, attempts, strict=True) if t.told is None]
        write_trials(self._folder, self._trials, [t for t, _ in going], [a for _, a in going])
        self._folder.job(job.name).write_next(len(job.groups) - 1, attempts)


def _lacks(files: JobDir, number: int) -> bool:
    """Return whether a job cannot read what it is given at a count: it is missing or damaged."""
    try:
        return files.read_next(number) is None
    except CorruptError:
        return True
