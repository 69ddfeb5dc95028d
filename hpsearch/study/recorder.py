"""The recorder: holds the study's lease, writes events and folds them into the state."""

from collections.abc import Callable, Sequence
from typing import Any

from sqlalchemy.orm import Session

from hpsearch.study.database import StudyRecords
from hpsearch.study.events import EventLog, NewEvent
from hpsearch.study.leases import Lease, Leases, check_lease
from hpsearch.study.records import Trial
from hpsearch.study.snapshots import SnapshotWriter
from hpsearch.study.state import StudyState

LEASE_SECONDS = 300.0
"""renewed when half of it has passed: a round may wait two minutes for a scheduler"""


class Recorder:
    """What a driver knows, and the only way in which it comes to know more.

    Attributes:
        state: what the events so far add up to.
    """

    def __init__(
        self,
        log: EventLog,
        leases: Leases,
        lease: Lease,
        clock: Callable[[], float],
        on_event: Callable[[NewEvent], None],
        records: StudyRecords,
        snapshots: SnapshotWriter,
    ) -> None:
        """Read what has happened; ``on_event`` is told of everything new."""
        self._log = log
        self._leases = leases
        self._lease = lease
        self._clock = clock
        self._on_event = on_event
        self._records = records
        self._snapshots = snapshots
        self.state = StudyState()
        self.state.apply(log.read(lease.study_id))
        self._show_status()  # a driver may have died before it could

    def record(
        self,
        kind: str,
        *,
        trial: int | None = None,
        attempt: int | None = None,
        job: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> None:
        """Write that something happened, then know it.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        self.record_all([self.event(kind, trial=trial, attempt=attempt, job=job, data=data)])

    def event(
        self,
        kind: str,
        *,
        trial: int | None = None,
        attempt: int | None = None,
        job: str | None = None,
        data: dict[str, Any] | None = None,
    ) -> NewEvent:
        """Return that something happened just now, to be recorded together with more."""
        return NewEvent(kind, self._clock(), trial, attempt, job, data or {})

    def record_all(self, events: Sequence[NewEvent]) -> None:
        """Write that all this happened, in one transaction, then know it.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        if not events:
            return
        self.keep_lease()
        status = self.state.status
        self.state.apply(self._log.append(self._lease.study_id, events, lease=self._lease))
        if self.state.status != status:
            self._show_status()
        for event in events:
            self._on_event(event)

    def note(self, sentence: str) -> None:
        """Write a line to the driver's log; nothing is decided by it."""
        self._on_event(self.event("note", data={"message": sentence}))

    def keep_lease(self) -> None:
        """Renew the lease when half of it has passed.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        if self._lease.expires_at - self._clock() < LEASE_SECONDS / 2:
            self.renew_lease()

    def renew_lease(self) -> None:
        """Ask the database whether this driver still holds the study, and renew the lease.

        Another one may have taken it although half of the lease is left by this driver's clock: the
        clocks of two machines may differ by minutes.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        self._lease = self._leases.renew(self._lease, now=self._clock(), ttl=LEASE_SECONDS)

    def check_lease(self, session: Session) -> None:
        """Make sure that a transaction is written only while this driver holds the study.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        check_lease(session, self._lease)

    def write_snapshot(self, line: Callable[[Trial], str]) -> None:
        """Write for readers what the events so far add up to; ``line`` as in a list of trials.

        Raises:
            ConflictError: if another driver has taken the study.
        """
        self._snapshots.write(self._lease, self.state, line)

    def _show_status(self) -> None:
        """Bring up to date what is for readers of the table alone; we read the events."""
        self._records.set_state(self._lease.study_id, self.state.status)

    def close(self) -> None:
        """Give the study free."""
        self._leases.release(self._lease)
