"""The event log: what happened in a study, append-only; everything else is a fold over it.

The graph of descent in SQL: checkpoints that others may descend from, and their parents.

It is written together with the event that tells how a trial of a population ended, so that graph
and events never disagree.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from hpsearch.files import parse_json
from hpsearch.study.database import CheckpointRow, Database, EventRow, ParentRow
from hpsearch.study.leases import Lease, check_lease


@dataclass(frozen=True)
class Node:
    """A checkpoint and where it comes from."""

    trial: int
    step: int
    sha256: str
    """of its content"""
    parents: tuple[str, ...]
    """their sha256; the first gives all that the operator does not make"""
    operator: str
    adopted: bool | None
    """whether the operator's child was; None where there was none to try"""
    seed: int
    changes: dict[str, Any]
    """what differs from the first parent's configuration, by path: before and after"""

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Node":
        """Return what an event holds."""
        return cls(**{**data, "parents": tuple(data["parents"])})


def add_node(session: Session, study_id: int, node: Node) -> None:
    """Write a checkpoint and its parents."""
    row = CheckpointRow(
        study_id=study_id,
        trial=node.trial,
        step=node.step,
        sha256=node.sha256,
        operator=node.operator,
        adopted=node.adopted,
        seed=node.seed,
        changes=json.dumps(node.changes),
    )
    session.add(row)
    session.flush()
    for position, parent in enumerate(node.parents):
        session.add(ParentRow(checkpoint_id=row.id, position=position, sha256=parent))


def read_nodes(database: Database, study_id: int) -> list[Node]:
    """Return the checkpoints of a study, by trial and step."""
    checkpoints = (
        select(CheckpointRow)
        .where(CheckpointRow.study_id == study_id)
        .order_by(CheckpointRow.trial, CheckpointRow.step)
    )
    edges = (
        select(ParentRow)
        .join(CheckpointRow, ParentRow.checkpoint_id == CheckpointRow.id)
        .where(CheckpointRow.study_id == study_id)
        .order_by(ParentRow.checkpoint_id, ParentRow.position)
    )

    def work(session: Session) -> list[Node]:
        parents: dict[int, list[str]] = {}
        for edge in session.scalars(edges):
            parents.setdefault(edge.checkpoint_id, []).append(edge.sha256)
        return [_node(row, parents.get(row.id, [])) for row in session.scalars(checkpoints)]

    return database.transaction(work)


def _node(row: CheckpointRow, parents: list[str]) -> Node:
    return Node(
        trial=row.trial,
        step=row.step,
        sha256=row.sha256,
        parents=tuple(parents),
        operator=row.operator,
        adopted=row.adopted,
        seed=row.seed,
        changes=json.loads(row.changes),
    )


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
            ConflictError: if a lease is given and another driver has taken the study meanwhile.
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
