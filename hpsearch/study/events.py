"""The event log: what happened in a study, append-only; everything else is a fold over it."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hpsearch.bounded import parse_json
from hpsearch.study.database import Database
from hpsearch.study.descent import Node, add_node
from hpsearch.study.leases import Lease, check_lease
from hpsearch.study.tables import EventRow


@dataclass(frozen=True)
class NewEvent:
    """Something that happened and is not written yet."""

    kind: str
    at: float
    """seconds since the epoch"""
    trial: int | None = None
    attempt: int | None = None
    job: str | None = None
    data: dict[str, Any] = field(default_factory=dict)
    """what JSON can hold"""


@dataclass(frozen=True)
class Event:
    """Something that happened; the ids of a study's events grow in their order."""

    id: int
    kind: str
    at: float
    """seconds since the epoch"""
    trial: int | None
    attempt: int | None
    job: str | None
    data: dict[str, Any]


class EventLog:
    """The events of all studies of a database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self, study_id: int, events: Sequence[NewEvent], *, lease: Lease | None = None
    ) -> list[Event]:
        """Write events in one transaction, all or none; return them with their ids.

        Raises:
            ConflictError: if a lease is given and somebody else has taken the study meanwhile.
        """

        def work(session: Session) -> list[Event]:
            if lease is not None:
                check_lease(session, lease)
            rows = [_row(study_id, event) for event in events]
            session.add_all(rows)
            session.flush()
            for event in events:
                if event.data.get("node") is not None:
                    add_node(session, study_id, Node.of(event.data["node"]))
                for lent in event.data.get("lent", ()):
                    add_node(session, study_id, Node.of(lent))
            return [_event(row) for row in rows]

        return self._database.transaction(work)

    def read(self, study_id: int, after_id: int = 0) -> list[Event]:
        """Return the events of a study, those with a higher id than ``after_id`` alone."""
        # Columns instead of objects, which take several times as long to make.
        row = EventRow.__table__.c
        query = (
            select(row.id, row.kind, row.at, row.trial, row.attempt, row.job, row.data)
            .where(row.study_id == study_id, row.id > after_id)
            .order_by(row.id)
        )

        def work(session: Session) -> list[Event]:
            return [
                Event(number, kind, float(at), trial, attempt, job, parse_json(data))
                for number, kind, at, trial, attempt, job, data in session.execute(query)
            ]

        return self._database.transaction(work)


def _row(study_id: int, event: NewEvent) -> EventRow:
    return EventRow(
        study_id=study_id,
        at=event.at,
        kind=event.kind,
        trial=event.trial,
        attempt=event.attempt,
        job=event.job,
        data=json.dumps(event.data),
    )


def _event(row: EventRow) -> Event:
    return Event(
        id=row.id,
        kind=row.kind,
        at=float(row.at),
        trial=row.trial,
        attempt=row.attempt,
        job=row.job,
        data=parse_json(row.data),
    )
