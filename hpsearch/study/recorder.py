"""What the parts of a driver share: events written under the lease, limits, outages waited out.

Nothing is lost while a database is away: jobs write files alone, and a driver that begins anew
decides from what the database and the files say.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from hpsearch import errors
from hpsearch.cluster.executor import Executor
from hpsearch.cluster.failures import last_words
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.printable import printable
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import Event, EventLog, Lease, Leases, check_lease
from hpsearch.study.records import Trial
from hpsearch.study.snapshots import SnapshotWriter
from hpsearch.study.spec import Study
from hpsearch.study.state import StudyState
from hpsearch.study.trials import Trials

LEASE_SECONDS = 300.0  # renewed at half of it: a round may wait two minutes for a scheduler


class EventRecorder:
    """What a driver knows, and the only way in which it comes to know more."""

    def __init__(
        self,
        database: Database,
        lease: Lease,
        clock: Callable[[], float],
        on_event: Callable[[Event], None],
        line: Callable[[Trial], str],
    ) -> None:
        """Read what has happened; ``on_event`` hears of all that is new, ``line`` lists a trial."""
        self._log = EventLog(database)
        self._leases = Leases(database)
        self._records = StudyRecords(database)
        self._snapshots = SnapshotWriter(database)
        self._lease = lease
        self._clock = clock
        self._on_event = on_event
        self._line = line
        self.state = StudyState()
        self.state.apply(self._log.read(lease.study_id))
        self._show_status()  # a driver may have died before it could

    def record(
        self, kind: str, *, job: str | None = None, data: dict[str, Any] | None = None
    ) -> None:
        self.record_all([self.event(kind, job=job, data=data)])

    def event(
        self,
        kind: str,
        *,
        trial: int | None = None,
        attempt: int | None = None,
        job: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> Event:
        return Event(0, kind, self._clock(), trial, attempt, job, data or {})

    def record_all(self, events: Sequence[Event]) -> None:
        """Write that all this happened, in one transaction, then know it; as `renew_lease`."""
        if not events:
            return
        self.keep_lease()
        status = self.state.status
        self.state.apply(self._log.append(self._lease.study_id, events, lease=self._lease))
        if self.state.status != status:
            self._show_status()
        for event in events:
            self._on_event(event)

    def record_jobs(self, kind: str, data: Mapping[str, dict[str, Any]]) -> None:
        """Record that the same happened to several jobs; ``data`` by their names."""
        self.record_all([self.event(kind, job=job, data=data[job]) for job in data])

    def note(self, sentence: str) -> None:
        """Tell of what is not kept in the database, as nothing is decided by it."""
        self._on_event(self.event("note", data={"message": sentence}))

    def keep_lease(self) -> None:
        """Renew the lease when half of it has passed; raises as `renew_lease`."""
        if self._lease.expires_at - self._clock() < LEASE_SECONDS / 2:
            self.renew_lease()

    def renew_lease(self) -> None:
        """Ask the database whether this driver still holds the study, and renew the lease.

        Raises a ConflictError if another driver has taken it. It may have although half of the
        lease is left by this driver's clock: the clocks of two machines may differ by minutes.
        """
        self._lease = self._leases.renew(self._lease, now=self._clock(), ttl=LEASE_SECONDS)

    def check_lease(self, session: Session) -> None:
        check_lease(session, self._lease)

    def write_snapshot(self, *, if_due: bool = False) -> None:
        """Write what the events so far add up to, for readers; as `SnapshotWriter.write`."""
        self._snapshots.write(self._lease, self.state, self._line, if_due=if_due)

    def _show_status(self) -> None:
        """Bring up to date what is for readers of the table alone; we read the events."""
        self._records.set_state(self._lease.study_id, self.state.status)

    def close(self) -> None:
        self._leases.release(self._lease)


@dataclass(frozen=True)
class DriverContext:
    study: Study
    folder: StudyDir
    trials: Trials
    recorder: EventRecorder
    executor: Executor
    clock: Callable[[], float]


LOG_LINES, LOG_WIDTH = 5, 300  # of a job's log, that events keep


class DriverPart:
    def __init__(self, context: DriverContext) -> None:
        self._study = context.study
        self._folder = context.folder
        self._trials = context.trials
        self._recorder = context.recorder
        self._executor = context.executor
        self._clock = context.clock

    @property
    def state(self) -> StudyState:
        return self._recorder.state

    def last_words(self, name: str | None) -> list[str]:
        """Return the last lines of a job's log, none where there is no such job, or no log."""
        job = self.state.jobs.get(name or "")
        if job is None or job.id is None:
            return []
        try:
            log = self._executor.log(self._folder.job(job.name), job.id)
        except OSError:
            return []
        return [printable(line)[:LOG_WIDTH] for line in last_words(log, LOG_LINES)]


class Limits(DriverPart):
    """Holds a study to its budget of trials and hours, and to the failures that it allows."""

    def are_failures_too_many(self) -> bool:
        return self.state.num_failures() > self._study.spec.max_failures

    def allow_another(self) -> bool:
        """Return whether one more trial may be asked for that trains; a retry is no more."""
        budget, began = self._study.spec.budget, self.state.started_at
        if self.state.num_asked >= budget.trials or not self.allow_gpu_hours():
            return False
        if budget.wall_hours is None or began is None:
            return True
        return self._clock() - began < budget.wall_hours * 3600

    def num_allowed(self) -> int:
        """Return how many more trials may be asked for, those of a closing besides the budget."""
        untrained = len(self.state.population.untrained) if self.allow_gpu_hours() else 0
        left = self._study.spec.budget.trials - self.state.num_asked if self.allow_another() else 0
        return untrained + left

    def allow_gpu_hours(self) -> bool:
        cap = self._study.spec.budget.gpu_hours
        return cap is None or self.state.gpu_seconds(self._clock()) < cap * 3600


T = TypeVar("T")

AWAY = (errors.StorageUnavailableError, errors.SchedulerUnavailableError)
"""what may come back by itself"""
PATIENCE = 24 * 3600.0  # seconds for which a database that was reached once may stay away
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds between two attempts
GLANCE_SECONDS = 1.0  # between two looks whether to stop


@dataclass
class Outage:
    """Waits while the database, or a scheduler, is away."""

    tell: Callable[[str], None]  # a user, that the database went away, and that it is back
    _: KW_ONLY
    note: Callable[[str], None] = lambda sentence: None
    """is given what is wrong before each pause, of half a minute at most"""
    waits_at_start: bool = False
    """whether to wait without limit even if the database never answered; for drivers without a
    terminal, whose URL was tested before"""
    should_stop: Callable[[], bool] = lambda: False  # ends the waiting
    patience: float = PATIENCE
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _was_reached: bool = field(default=False, init=False)
    _since: float | None = field(default=None, init=False)
    _lost_at: float = field(default=-inf, init=False)  # when the database was last found away
    _pause: float = field(default=FIRST_PAUSE, init=False)

    def reached(self) -> None:
        """Note that the database answers; whatever went away before is over."""
        if self._since is not None:
            away = self.clock() - self._since
            self.tell(f"the database is back, {away:.0f} seconds after it was missed")
        self._was_reached = True
        self._since = None
        self._pause = FIRST_PAUSE

    def run(self, work: Callable[[], T]) -> T:
        """Return what ``work`` returns; do it again whenever the database has gone away.

        The work opens the study itself, each time anew, and calls `reached` once that was done. An
        error of `AWAY` is raised if what is away was never reached and is not waited for, or stayed
        away for longer than the patience; a ConflictError if another driver has taken the study.
        """
        while True:
            try:
                return work()
            except AWAY as error:
                self._lost_at = self.clock()
                self._wait(error)
            except errors.ConflictError:
                # Our own lease, which could not be given back, keeps us out until it expires.
                is_own = self.clock() - self._lost_at <= LEASE_SECONDS + FIRST_PAUSE
                if not is_own or self.should_stop():
                    raise
                self.sleep(FIRST_PAUSE)

    def _wait(self, error: errors.HpsearchError) -> None:
        if not (self._was_reached or self.waits_at_start):
            raise error
        if self._since is None:
            self._since = self.clock()
            self.tell(f"{error}; running jobs go on, and this waits until it is back")
        self.note(str(error))
        end = self.clock() + self._pause
        self._pause = min(2 * self._pause, LONGEST_PAUSE)
        if not self.waits_at_start and end - self._since > self.patience:
            raise error
        while (left := end - self.clock()) > 0:
            if self.should_stop():
                raise error
            self.sleep(min(left, GLANCE_SECONDS))
