"""The jobs of a study: announced, submitted, followed, and ended.

An event announces a job before it is submitted, so that the next driver can look it up. What the
executor does not know of after `Executor.patience` seconds never began.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import Any, TypeVar
from uuid import uuid4

from hpsearch.cluster.executor import SchedulerSilentError, SubmissionRefusedError, shared_part
from hpsearch.cluster.heartbeats import seconds_between
from hpsearch.cluster.records import Assignment, Control, Fresh, JobPlan, Lineage
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import CorruptError
from hpsearch.files import do_together
from hpsearch.study.breeding.lineage import island_of, lineage_of
from hpsearch.study.config_texts import ConfigTexts
from hpsearch.study.observe import Observation
from hpsearch.study.options import LocalOptions
from hpsearch.study.recorder import DriverContext, DriverPart
from hpsearch.study.records import Job, Trial

Item = TypeVar("Item")

FIRST_PAUSE, LONGEST_PAUSE = 10.0, 300.0
"""seconds without submissions after one that failed, doubled each time"""


WRITTEN_AT_ONCE = 200
"""jobs between two looks at the lease; of jobs that run, also those that one transaction announces,
whose files a driver that dies leaves to the next one"""


class Jobs(DriverPart):
    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._pause = FIRST_PAUSE
        self._batch = math.inf  # jobs that one submission holds at most, after refusals
        self._not_before = 0.0
        self._config_texts = ConfigTexts(context.study)
        self.refusal: str | None = None  # why the last submission failed

    def follow(self, seen: Observation) -> None:
        """Record which announced jobs the executor has, and which have begun to run."""
        event, events = self._recorder.event, []
        for job in self.state.live_jobs():
            status = seen.jobs.get(job.name)
            if status is not None and job.id is None:
                self.refusal = None  # it has the job, though its answer was lost
                events.append(event("submitted", job=job.name, data={"id": status.id}))
            if status is not None and job.began_at is None and status.phase == "running":
                data = {"gpus": job.gpus * status.share} if status.share < 1.0 else {}
                events.append(event("job_began", job=job.name, data=data))
        self._recorder.record_all(events)

    def end(self, seen: Observation) -> None:
        ended = {}
        for job in self.state.live_jobs():
            # A pilot may have been given trials after the look that found it gone.
            if job.name in seen.gone and not job.running:
                status = seen.jobs.get(job.name)
                known = {"kind": status.failure, "ended_at": status.ended_at} if status else {}
                told = {key: value for key, value in known.items() if value is not None}
                ended[job.name] = told | {"seen": status is not None}
                with suppress(OSError):  # one that was killed has left its gauges
                    self._folder.job(job.name).textfile.unlink(missing_ok=True)
        self._recorder.record_jobs("job_ended", ended)

    def submit(self, groups: Sequence[Sequence[Trial]]) -> None:
        """Submit a job for each group; after a refusal fewer at once, as a site may limit jobs."""
        left = list(groups)
        while left and not self._is_paused():
            size = int(min(self._executor.max_batch, self._batch))
            self._start(self._announce(left[:size]))
            del left[:size]

    def submit_match(self, number: int) -> None:
        """Submit a job that plays a match, unless the executor needs a rest."""
        if self._is_paused():
            return
        job = self._new_job()
        data = {"trials": [], "gpus": self._executor.gpus_per_job, "match": number}
        self._recorder.record("announced", job=job.name, data=data)
        threads, ranks = self._executor.num_threads, self._executor.ranks
        job.plan.write(JobPlan((), threads, 0.0, refills=False, match=number, ranks=ranks))
        self._start([job])

    def interrupt(self) -> None:
        submitted = self._submitted()
        self._note_interruption(submitted)
        with suppress(SchedulerSilentError):  # the next round asks again
            self._executor.interrupt(submitted)

    def cancel(self, names: Sequence[str] | None = None) -> None:
        """End jobs (None: all) at once, and those that end only with them; an interruption."""
        submitted = self._submitted()
        ending = {shared_part(i) for job, i in submitted if names is None or job.name in names}
        chosen = [job for job in submitted if shared_part(job[1]) in ending]
        if chosen:
            self._note_interruption(chosen)
            with suppress(SchedulerSilentError):  # the next round tries again
                self._executor.cancel(chosen)

    def cancel_silent(self) -> None:
        self.cancel([job.name for job in self.state.live_jobs() if job.is_silent])

    def cancel_strays(self) -> None:
        """End jobs in the queue that were not announced, or that were given up."""
        # Else a driver that was replaced would take its successor's jobs for strays.
        self._recorder.renew_lease()
        with suppress(SchedulerSilentError):
            self._executor.cancel_strays()

    def _note_interruption(self, jobs: Sequence[tuple[JobDir, str]]) -> None:
        known = [self.state.jobs[job.name] for job, _ in jobs]
        new: dict[str, dict[str, Any]] = {job.name: {} for job in known if not job.interrupted}
        self._recorder.record_jobs("interrupting", new)

    def _submitted(self) -> list[tuple[JobDir, str]]:
        live = self.state.live_jobs()
        return [(self._folder.job(job.name), job.id) for job in live if job.id is not None]

    def _start(self, jobs: Sequence[JobDir]) -> None:
        try:
            ids = self._executor.submit(jobs)
        except SubmissionRefusedError as error:
            self.refusal = str(error)
            self._batch = max(1, len(jobs) // 2)
            if not error.has_alternative:
                self._pause_submissions()
            self._withdraw([self.state.jobs[job.name] for job in jobs])
        except SchedulerSilentError as error:
            self.refusal = f"it is not known whether the jobs were taken ({error})"
            self._pause_submissions()  # the next looks tell whether it took them
        else:
            self.refusal, self._pause, self._batch = None, FIRST_PAUSE, 2 * self._batch
            submitted = {job.name: {"id": ids[job.name]} for job in jobs}
            self._recorder.record_jobs("submitted", submitted)

    def _announce(self, groups: Sequence[Sequence[Trial]]) -> list[JobDir]:
        """Announce a job for each group of trials, all at once, and write their files."""
        plans = {self._new_job(index): new_attempts(group) for index, group in enumerate(groups)}
        executor, seconds = self._executor, self._executor.pilot_seconds
        job_facts = {"gpus": executor.gpus_per_job} | ({"pilot": True} if seconds else {})
        announced = {job.name: _trials_of(plan) | job_facts for job, plan in plans.items()}
        self._recorder.record_jobs("announced", announced)
        # Where no trial joins a job later, all its trials make each step together; after a kill
        # they go on from a step that all have saved.
        refills = self._study.refills and seconds > 0
        pause = seconds_between(self._study.executor.jobs)

        def write(job: JobDir, plan: tuple[Assignment, ...]) -> None:
            self.write_trials(plan, to_new_job=True)
            job.plan.write(
                JobPlan(
                    plan,
                    executor.num_threads,
                    seconds,
                    refills,
                    heartbeat_seconds=pause,
                    ranks=executor.ranks,
                    programs=self._study.is_program,
                    descend=self._study.spec.population is not None,
                )
            )

        for works in _parts([partial(write, job, plan) for job, plan in plans.items()]):
            self._recorder.keep_lease()  # many files may take long
            do_together(works)
        return list(plans)

    def _new_job(self, index: int = 0) -> JobDir:
        return self._folder.job(f"{len(self.state.jobs) + 1 + index:05d}")

    def write_trials(self, attempts: Sequence[Assignment], *, to_new_job: bool = False) -> None:
        """Write the files of trials about to run, if they were not told; may be repeated.

        A new job knows from its plan that no trial descends from others. A job that runs may have
        been started by a version without `JobPlan.descend`, and needs a lineage that says so.
        """
        study, options = self._study, self._study.spec.population
        for attempt in attempts:
            trial = self.state.trials[attempt.trial]
            if trial.told is not None:
                continue
            files, settings = self._folder.trial(trial.number), study.settings_of(trial)
            needs_none = options is None and to_new_job
            lineage = None if needs_none else Lineage(Fresh(), settings["seed"])
            island = None
            if trial.origin is not None and options is not None:
                lineage = lineage_of(trial.origin, settings["seed"], options, study.path.parent)
                island = island_of(trial.origin, options, study.space, study.spec.seed)
            control = Control(attempt.token, stop=None)
            files.create(self._config_texts.of(trial), lineage, island, control)

    def _withdraw(self, jobs: Sequence[Job]) -> None:
        """End jobs that never reached the executor; their trials wait again."""
        never = {"status": "interrupted", "kind": None, "message": "never began", "began": False}
        event, events = self._recorder.event, []
        for job in jobs:
            for number in sorted(job.running):
                trial = self.state.trials[number]
                data = {**never, "step": trial.step}
                events += [event("attempt_ended", trial=number, attempt=trial.attempts, data=data)]
            events += [event("job_ended", job=job.name)]
        self._recorder.record_all(events)

    def _is_paused(self) -> bool:
        """Return whether the executor needs a rest; a clock set back prolongs none."""
        return 0 < self._not_before - self._clock() <= LONGEST_PAUSE

    def _pause_submissions(self) -> None:
        self._not_before = self._clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)


class Pilots(DriverPart):
    """The pilots of a study: jobs that take more trials than their first ones.

    What a process pays once (imports, the device, compilation) is then paid once for all of them.
    A trial that ends leaves a place, which the next one of its shape takes. A group is announced by
    an event before its files are written; where a driver died in between, the next one writes them.
    """

    def __init__(self, context: DriverContext, jobs: Jobs) -> None:
        super().__init__(context)
        self._jobs = jobs
        self._refills = self._study.refills  # whether a job gets more before all its trials ended
        # A trial that has come to its last rung counts as ended, so that its place need not wait
        # for a driver that comes by once in a while.
        self._looks_ahead = not isinstance(self._study.executor, LocalOptions)
        self._is_repaired = False
        self.ended: frozenset[str] = frozenset()  # names of jobs that the last look found ended

    @property
    def places(self) -> int:
        return sum(self._places(job) for job in self._open())

    def give(self, groups: Sequence[list[Trial]]) -> list[list[Trial]]:
        """Give each job trials of its shape; return the groups that are left."""
        by_shape: dict[str, deque[list[Trial]]] = {}
        for group in groups:
            if not group[0].is_alone:  # it needs a job of its own
                by_shape.setdefault(self._trials.shape(group[0]), deque()).append(group)
        chosen: dict[str, list[Trial]] = {}
        for job in self._open():
            places = self._places(job) if by_shape else 0
            if places == 0:
                continue
            first, _, _ = job.groups[0][0]
            shape = self._trials.shape(self.state.trials[first])
            if fitting := by_shape.get(shape):
                chosen[job.name] = self._take(fitting, places)
                if not fitting:
                    del by_shape[shape]
        self._announce({job: new_attempts(trials) for job, trials in chosen.items()})
        given = {trial.number for trials in chosen.values() for trial in trials}
        rest = ([trial for trial in group if trial.number not in given] for group in groups)
        return [group for group in rest if group]

    def _take(self, fitting: deque[list[Trial]], places: int) -> list[Trial]:
        """Take trials for so many places, of several groups where a job is refilled."""
        taken: list[Trial] = []
        while fitting and len(taken) < places and (self._refills or not taken):
            group, room = fitting.popleft(), places - len(taken)
            taken += group[:room]
            if group[room:]:
                fitting.appendleft(group[room:])
        return taken

    def _announce(self, given: Mapping[str, Sequence[Assignment]]) -> None:
        """Announce trials for jobs that run, by their names, and write the files of both."""
        for part in _parts(list(given)):
            announced = {name: _trials_of(given[name]) for name in part}
            self._recorder.record_jobs("announced", announced)
            jobs = self.state.jobs
            do_together([partial(self._write, jobs[name], given[name]) for name in part])

    def give_match(self, number: int) -> bool:
        """Give a match to a job that trains no trial; return whether there was one."""
        idle = self._idle()
        if not idle:
            return False
        job, data = idle[0], {"trials": [], "match": number}
        self._recorder.record("announced", job=job.name, data=data)
        self._folder.job(job.name).write_next(len(job.groups) - 1, match=number)
        return True

    @property
    def num_leaving(self) -> int:
        """How many jobs have nothing left to train or play, and only need time to go."""
        going = [job for job in self.state.live_jobs() if job.closed or job.is_leaving]
        return sum(not (job.running or self._plays(job)) for job in going)

    def close_idle(self, at_most: int | None = None) -> None:
        """Let jobs go for which there is nothing to do, all of them if no number is given.

        Those that leave are told so, too: a pilot that cannot read a trial would wait for more.
        """
        leaving = [job for job in self._present() if job.is_leaving]
        self._close([*leaving, *self._idle()[:at_most]])

    def close_all(self) -> None:
        """Let all jobs go when they have trained what they have."""
        self._close(self._open())

    def repair(self) -> None:
        """Write what the driver before announced and did not live to write; once is enough."""
        if self._is_repaired:
            return
        for job in self.state.live_jobs():
            last = len(job.groups) - 1
            files = self._folder.job(job.name)
            # Only the newest group can be unwritten: the driver wrote all earlier ones before it
            # died.
            if last and _lacks(files, last):
                if job.groups[-1]:
                    self._write(job, [Assignment(*group) for group in job.groups[-1]])
                else:
                    files.write_next(last, match=job.match)
            if job.closed and _lacks(files, last + 1):
                files.write_next(last + 1, ())
        self._is_repaired = True

    def _write(self, job: Job, attempts: Sequence[Assignment]) -> None:
        self._jobs.write_trials(attempts)
        self._folder.job(job.name).write_next(len(job.groups) - 1, attempts)

    def _idle(self) -> list[Job]:
        return [job for job in self._open() if not (job.running or self._plays(job))]

    def _plays(self, job: Job) -> bool:
        match = self.state.population.match
        return match is not None and match.job == job.name

    def _open(self) -> list[Job]:
        return [job for job in self._present() if not job.is_leaving]

    def _present(self) -> list[Job]:
        """Return the pilots that run and were not told to go."""
        return [
            job
            for job in self.state.live_jobs()
            if job.is_pilot
            and job.began_at is not None
            and not (job.closed or job.interrupted or job.name in self.ended)
        ]

    def _places(self, job: Job) -> int:
        if self._plays(job):
            return 0
        if not job.running:
            return self._study.executor.members_per_job
        if not self._refills:
            return 0
        staying = len(job.running)
        if self._looks_ahead:
            trials = (self.state.trials[number] for number in job.running)
            staying = sum(not self._trials.is_at_last_rung(trial) for trial in trials)
        # At most twice as many trials as slots: a short one is at its last rung from the beginning.
        return max(0, min(job.slots - staying, 2 * job.slots - len(job.running)))

    def _close(self, jobs: Sequence[Job]) -> None:
        for part in _parts(jobs):
            self._recorder.record_jobs("job_closed", {job.name: {} for job in part})
            files = [(self._folder.job(job.name), len(job.groups)) for job in part]
            do_together([partial(job.write_next, number, ()) for job, number in files])


def _parts(items: Sequence[Item]) -> Iterator[Sequence[Item]]:
    for start in range(0, len(items), WRITTEN_AT_ONCE):
        yield items[start : start + WRITTEN_AT_ONCE]


def _lacks(files: JobDir, number: int) -> bool:
    try:
        return files.read_next(number) is None
    except CorruptError:
        return True


def new_attempts(group: Sequence[Trial]) -> tuple[Assignment, ...]:
    """Return the next attempt at each of some trials, with a token that no attempt had before."""
    return tuple(Assignment(trial.number, trial.attempts + 1, uuid4().hex) for trial in group)


def _trials_of(attempts: Sequence[Assignment]) -> dict[str, Any]:
    return {"trials": [asdict(attempt) for attempt in attempts]}
