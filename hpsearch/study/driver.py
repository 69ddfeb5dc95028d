"""The driver: looks, records, decides, acts. The only writer of SQL.

A tick does one round and may die anywhere: what it decides from is a fold over the event log, each
outside action is announced by an event before it is taken, and what was announced but not confirmed
is looked up at the executor by the next tick. So the next one continues.
"""

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from hpsearch.cluster.records import Heartbeat
from hpsearch.errors import OthersTrialsError
from hpsearch.study import requests
from hpsearch.study.breeding.breeder import Breeder
from hpsearch.study.jobs import Jobs, Pilots
from hpsearch.study.memory import RareCollections
from hpsearch.study.observe import Observation, Observer
from hpsearch.study.recorder import DriverContext, DriverPart, Limits
from hpsearch.study.records import Trial
from hpsearch.study.requests import Request
from hpsearch.study.results import Results
from hpsearch.study.spec_checks import enqueue_problems
from hpsearch.study.state import (
    BUSY,
    CANCELLED,
    FAILED,
    FINISHED,
    RUNNING,
    STOPPED,
    STOPPING,
)


def groups(
    waiting: Sequence[Trial], group_key: Callable[[Trial], Hashable], members_per_job: int
) -> list[list[Trial]]:
    """Return the trials of each job to submit, those that have waited longest first.

    Trials of one job have one `group_key`: one shape, and one island where there are islands. Those
    that an interruption threw out of one job go on together, so that an interrupted study trains as
    an uninterrupted one does; one that took too much memory together with others goes on alone.
    """
    together: dict[Hashable, list[Trial]] = {}
    for trial in sorted(waiting, key=lambda trial: trial.number):
        alone = trial.number if trial.is_alone else None
        together.setdefault((trial.job, group_key(trial), alone), []).append(trial)
    jobs = [
        group[start : start + members_per_job]
        for group in together.values()
        for start in range(0, len(group), members_per_job)
    ]
    return sorted(jobs, key=lambda group: group[0].number)


ASKED_AT_ONCE = 200
"""trials recorded in one transaction, or a job's; a driver that dies leaves at most so many"""
ASKING_SECONDS = 2.0  # between two times to ask in a look, each of which goes through all jobs
SUBMITTING_SECONDS = 10.0  # of a round's work, after which jobs are submitted; each is a call
WORKING_SECONDS = 20.0  # after which a round is over, although there is more to do


class Driver(DriverPart):
    """Drives one study; `open_driver` puts its parts together."""

    def __init__(self, context: DriverContext, collections: RareCollections) -> None:
        super().__init__(context)
        self._collections = collections
        spec = self._study.spec
        self._limits = Limits(context)
        self._jobs = Jobs(context)
        self._pilots = Pilots(context, self._jobs)
        self._results = Results(context)
        self._breeder: Breeder | None = None
        if spec.population is not None:
            self._breeder = Breeder(
                context, spec.population, self._jobs, self._pilots, self._limits
            )
        trials = self._trials
        self._observer = Observer(self._folder, self._executor, trials.metric, trials.is_rung)
        self._asks_at = 0.0  # when to ask again within a look
        self.is_resumed = False  # whether a user asked, in the last round, to go on
        self.is_hurried = False  # whether the last round had no time for all that there was to do

    @property
    def refusal(self) -> str | None:
        """Why the last submission of jobs failed; None after one that did not."""
        return self._jobs.refusal

    def heartbeats(self) -> Mapping[int, Heartbeat]:
        """Return the heartbeats of running trials that the last round saw, by trial."""
        return self._observer.heartbeats(self.state)

    @property
    def is_busy(self) -> bool:
        return self.state.status in BUSY or bool(self.state.live_jobs())

    def start(self, *, resume: bool = True) -> None:
        """Begin, or reopen a study whose budget grew; one held by a user with ``resume`` alone."""
        state = self.state
        has_work = self._limits.allow_another() or state.is_undecided or state.status == FAILED
        has_work = has_work or (self._breeder is not None and self._breeder.is_closing_due)
        is_held = state.status not in (RUNNING, FINISHED, FAILED)
        reopens = state.status != RUNNING and has_work and not self._limits.are_failures_too_many()
        if state.started_at is None or (reopens and (resume or not is_held)):
            self._recorder.record("started")

    def tick(self) -> None:
        """Do one round; what it has no time for is left to the next one, see `is_hurried`."""
        end = self._clock() + WORKING_SECONDS
        due = min(self._clock() + SUBMITTING_SECONDS, end)
        self.is_hurried = False
        self._asks_at = self._clock()
        self._recorder.renew_lease()
        self._heed()
        self._trials.recount()
        for seen in self._look():
            has_more = True
            while has_more and not self.is_hurried:
                has_more = self._start_trials(due, is_all_seen=seen.is_last)
                now = self._clock()
                due = min(now + SUBMITTING_SECONDS, end) if now >= due else due
                is_all_done = seen.is_last and not has_more
                self.is_hurried = now >= end and self._trains_on and not is_all_done
            if self.is_hurried:
                break
        self._end_jobs()
        self._conclude()
        self._collections.settle()

    def interrupt(self) -> None:
        self._jobs.interrupt()

    def collect(self) -> None:
        """Do one round without starting anything."""
        self._recorder.renew_lease()
        self._heed()
        self._look_at_all()

    def write_snapshot(self, *, if_due: bool = False) -> None:
        self._recorder.write_snapshot(if_due=if_due)

    # Listen, look and record.

    def _heed(self) -> None:
        """Do what users have asked for; asked twice, it is done once."""
        for sentence in requests.put_aside(self._folder):
            self._recorder.note(sentence)
        heard = requests.waiting(self._folder)
        self.is_resumed = any(request.verb == "resume" for request in heard)
        for request in heard:
            if request.id not in self.state.requests:
                if request.kinds:  # jobs may have failed since a driver last looked
                    self._look_at_all()
                data: dict[str, Any] = {"id": request.id, "verb": request.verb}
                data["trials"] = self._to_retry(request)
                if request.verb == "enqueue":
                    data["params"] = request.params
                    self._enqueue(request)
                self._recorder.record("requested", data=data)
            requests.forget(self._folder, request)

    def _enqueue(self, request: Request) -> None:
        """Let Optuna give a user's values next; what is wrong with them is noted."""
        spec, is_population = self._study.spec, self._breeder is not None
        problems = enqueue_problems(
            spec.space, spec.sampler, request.params, is_population=is_population
        )
        if problems:
            self._recorder.note(f"what was enqueued is not tried: {'; '.join(problems)}")
        else:
            self._trials.enqueue(request.id, request.params)

    def _to_retry(self, request: Request) -> list[int]:
        """Return the failed trials to retry, none of a population, which selects."""
        failed = self.state.failed_for_good() if self._breeder is None else []
        return [
            trial.number
            for trial in failed
            if trial.number in request.trials or trial.failure in request.kinds
        ]

    def _look_at_all(self) -> None:
        for _ in self._look():
            pass
        self._end_jobs()

    def _look(self) -> Iterator[Observation]:
        """Record what there is to see, part by part."""
        for seen in self._observer.observe(self.state, now=self._clock()):
            self._pilots.ended = seen.ended
            self._jobs.follow(seen)
            self._results.report(seen)
            self._results.end_attempts(seen)
            self._jobs.end(seen)
            yield seen

    def _end_jobs(self) -> None:
        """End jobs that are silent, unknown, or of a study that a user cancelled."""
        self._jobs.cancel_silent()
        self._jobs.cancel_strays()
        if self.state.status == CANCELLED:
            self._results.cancel_all()
            self._jobs.cancel()

    # Decide and act.

    @property
    def _trains_on(self) -> bool:
        return self.state.status in BUSY and not self._limits.are_failures_too_many()

    def _start_trials(self, due: float, *, is_all_seen: bool) -> bool:
        """Ask for trials until they are ``due``, and submit jobs then, or once there are all.

        While more of the look follows, at most every `ASKING_SECONDS`, and when they are due.
        Return whether there are more to ask for.
        """
        self._pilots.repair()
        is_early = self._clock() < min(self._asks_at, due) and not is_all_seen
        if is_early or self._limits.are_failures_too_many():
            return False
        if is_all_seen:
            self._breed()
        has_more = self._ask(due)
        if not has_more:
            self._asks_at = self._clock() + ASKING_SECONDS
        is_all = is_all_seen and not has_more
        if is_all or self._clock() >= due:
            self._dispatch(are_more_coming=not is_all)
        return has_more

    def _breed(self) -> None:
        """Judge the match that was played, call the next one; it comes before new trials."""
        if self._breeder is None or self.state.status != RUNNING:
            return
        self._breeder.plan()
        if self._limits.allow_gpu_hours():
            self._breeder.submit(self._free_jobs())

    def _free_jobs(self) -> int:
        at_once, room = self._study.executor.jobs, self._executor.max_jobs
        # With no room for even one, a job is submitted all the same: its refusal says why.
        allowed = at_once if room is None else min(at_once, max(1, room))
        # Where thousands end at a time, they are replaced before all their results are read.
        return allowed - sum(job.name not in self._pilots.ended for job in self.state.live_jobs())

    def _ask(self, until: float) -> bool:
        """Ask for as many trials as the free jobs can hold, and the pilots besides.

        Return whether there was no time for all of them. Trials that an interruption put back count
        as a whole job for each job that they were in, which would run still.
        """
        if self.state.status != RUNNING:
            return False
        waiting, whole = self.state.waiting(), self._study.executor.members_per_job
        free = self._free_jobs() - len({trial.job for trial in waiting} - {None})
        places = free * whole + self._pilots.places - sum(trial.job is None for trial in waiting)
        at_once = whole * max(1, ASKED_AT_ONCE // whole)  # else a round would leave jobs half full
        while places > 0 and self._will_ask():
            try:
                places -= self._ask_for(min(places, at_once))
            except OthersTrialsError:  # a user's, who has enqueued some by Optuna: they come first
                self._trials.recount()
            if self._clock() >= until:
                return places > 0 and self._will_ask()
        return False

    def _will_ask(self) -> bool:
        if self._breeder is not None and not self.state.population.planned:
            return False
        has_more = bool(self.state.retries or self._limits.num_allowed())
        return self.state.status == RUNNING and has_more

    def _ask_for(self, places: int) -> int:
        """Ask for some trials and record them together; return how many there were."""
        retries = list(self.state.retries)
        planned = list(self.state.population.planned)
        new = self._limits.num_allowed()
        if self._breeder is not None:
            new = min(new, len(planned))
        events = []
        with self._trials.asking():
            for _ in range(min(places, new + len(retries))):
                asked = self._trials.ask(self.state.trials, retries, planned)
                data: dict[str, Any] = {"params": asked.params, "retry_of": asked.retry_of}
                if asked.retry_of is not None:
                    retries.remove(asked.retry_of)
                if asked.origin is not None:
                    planned.remove(asked.origin)
                    data["origin"] = asdict(asked.origin)
                events.append(self._recorder.event("asked", trial=asked.number, data=data))
        self._recorder.record_all(events)
        return len(events)

    def _dispatch(self, *, are_more_coming: bool) -> None:
        """Give waiting trials to jobs that take more, and submit others while a job is free."""
        if self.state.status not in BUSY or not self._limits.allow_gpu_hours():
            self._pilots.close_idle()
            return
        stops = self.state.status == STOPPING
        waiting = [trial for trial in self.state.waiting() if trial.attempts or not stops]
        members_per_job = self._study.executor.members_per_job
        not_given = self._pilots.give(groups(waiting, self._trials.group_key, members_per_job))
        breeds_on = self._breeder is not None and not stops and self._breeder.will_go_on
        if are_more_coming:  # in a moment, which fill up the pilots, and the jobs of each shape
            not_given = [group for group in not_given if len(group) == members_per_job]
            self._jobs.submit(not_given[: max(self._free_jobs(), 0)])
            return
        if self._study.refills and not (not_given or breeds_on or self._will_ask()):
            self._pilots.close_all()
        if not breeds_on:  # else those that are idle now will be needed
            self._pilots.close_idle()
        else:
            # What is left is of other shapes than those pilots take, and waits for a job.
            room = self._free_jobs() + self._pilots.num_leaving
            self._pilots.close_idle(at_most=max(0, len(not_given) - room))
        self._jobs.submit(not_given[: max(self._free_jobs(), 0)])

    def _conclude(self) -> None:
        """End the study when nothing is left to do, or when too much has failed."""
        state = self.state
        if state.status not in BUSY or state.live_jobs():
            if state.status in BUSY and self._limits.are_failures_too_many():
                self.interrupt()
            return
        if self._limits.are_failures_too_many():
            self._recorder.record("ended", data={"status": FAILED})
        elif state.status == STOPPING:
            if not state.goes_on or not self._limits.allow_gpu_hours():
                self._recorder.record("ended", data={"status": STOPPED})
        elif not self._limits.allow_gpu_hours() or not (
            state.is_undecided or self._limits.allow_another()
        ):
            self._recorder.record("ended", data={"status": FINISHED})
