"""Leases: which process may write a study now.

Time is always an argument, so that a simulation can be the clock.
"""

from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import CursorResult, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from hpsearch.errors import ConflictError
from hpsearch.study.database import Database, LeaseRow, StudyRow


@dataclass(frozen=True)
class Lease:
    """The right to write a study, until it expires."""

    study_id: int
    holder: str
    token: int  # higher than that of every holder before
    expires_at: float  # seconds since the epoch


class Leases:
    """Who may write which study; at most one holder each, also when processes race."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def acquire(self, study_id: int, *, holder: str, now: float, ttl: float) -> Lease:
        """Return a lease for ``ttl`` seconds; a ConflictError if another driver holds the study."""

        def work(session: Session) -> Lease:
            # One statement decides, so of two processes one finds the row already taken.
            taken = session.execute(
                update(LeaseRow)
                .where(LeaseRow.study_id == study_id, LeaseRow.expires_at <= now)
                .values(holder=holder, token=LeaseRow.token + 1, expires_at=now + ttl)
            )
            row = session.get(LeaseRow, study_id)
            if row is None:
                row = LeaseRow(study_id=study_id, holder=holder, token=1, expires_at=now + ttl)
                session.add(row)
            elif _num_changed(taken) == 0:
                name = session.get_one(StudyRow, study_id).name
                raise ConflictError(
                    f"the study {name} is driven by {row.holder}, whose lease expires in "
                    f"{row.expires_at - now:.0f} seconds; look at it with hpsearch status, end it "
                    f"with hpsearch stop or cancel; a living driver renews it"
                )
            return Lease(study_id, holder, row.token, row.expires_at)

        try:
            return self._database.transaction(work)
        except IntegrityError:
            # The first lease of this study was inserted by another process since the question.
            return self._database.transaction(work)

    def current(self, study_id: int) -> Lease | None:
        """Return the lease that was last taken, expired or not; None if it was released."""
        row = self._database.transaction(lambda session: session.get(LeaseRow, study_id))
        if row is None or not row.holder:
            return None
        return Lease(study_id, row.holder, row.token, row.expires_at)

    def renew(self, lease: Lease, *, now: float, ttl: float) -> Lease:
        """Return the lease with a new end, ``ttl`` seconds from now; raises as `check_lease`."""
        end = now + ttl
        self._database.transaction(lambda session: check_lease(session, lease, expires_at=end))
        return replace(lease, expires_at=end)

    def release(self, lease: Lease) -> None:
        """Give the study free; nothing happens if the lease was lost."""
        statement = (
            update(LeaseRow)
            .where(LeaseRow.study_id == lease.study_id, LeaseRow.token == lease.token)
            .values(holder="", expires_at=0.0)
        )
        self._database.transaction(lambda session: session.execute(statement))


def check_lease(session: Session, lease: Lease, *, expires_at: float | None = None) -> None:
    """Make sure that a transaction is written only while no other driver holds the study.

    The update locks the row until the transaction ends, so no driver can take the study in between.
    A ConflictError if another one has taken it.
    """
    held = session.execute(
        update(LeaseRow)
        .where(
            LeaseRow.study_id == lease.study_id,
            LeaseRow.token == lease.token,
            LeaseRow.holder == lease.holder,
        )
        .values(expires_at=LeaseRow.expires_at if expires_at is None else expires_at)
    )
    if _num_changed(held) == 0:
        row = session.get(LeaseRow, lease.study_id)
        holder = row.holder if row and row.holder else "no driver any more"
        raise ConflictError(
            f"the study is no longer driven by {lease.holder}, whose lease expired, but by "
            f"{holder}; stop this driver, or wait until that one ends"
        )


def _num_changed(result: Any) -> int:
    assert isinstance(result, CursorResult)
    return result.rowcount
