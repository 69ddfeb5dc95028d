"""The event log: what happened in a study, append-only; everything else is a fold over it.

It is written under a lease, which says who may write now, and by `DriverLog` for people. The graph
of descent is written with the event that ends a population's trial, so that they never disagree.
"""

import json
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, cast

from sqlalchemy import CursorResult, Double, Table, bindparam, func, insert, select, update
from sqlalchemy.orm import Session

from hpsearch.errors import ConflictError, unwritten
from hpsearch.files import parse_json
from hpsearch.printable import printable
from hpsearch.study.database import CheckpointRow, Database, EventRow, LeaseRow, ParentRow, StudyRow


@dataclass(frozen=True)
class Lease:
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

        return self._database.find_or_insert(work)

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
        self._database.transaction(lambda session: session.execute(_RELEASED, _named(lease)))


def check_lease(session: Session, lease: Lease, *, expires_at: float | None = None) -> None:
    """Lock the lease while a transaction is written; ConflictError if another driver has it."""
    held = session.execute(_HELD, _named(lease) | {"end": expires_at})
    if _num_changed(held) == 0:
        row = session.get(LeaseRow, lease.study_id)
        holder = row.holder if row and row.holder else "no driver any more"
        raise ConflictError(
            f"the study is no longer driven by {lease.holder}, whose lease expired, but by "
            f"{holder}; stop this driver, or wait until that one ends"
        )


# Made once, and of columns instead of objects: a driver asks several times a tick.
_LEASES: Any = LeaseRow.__table__
_NAMED = ("study_id", "token", "holder")
_OWN = update(_LEASES).where(*(_LEASES.c[name] == bindparam(f"own_{name}") for name in _NAMED))
_HELD = _OWN.values(expires_at=func.coalesce(bindparam("end", type_=Double), _LEASES.c.expires_at))
_RELEASED = _OWN.values(holder="", expires_at=0.0)


def _named(lease: Lease) -> dict[str, Any]:
    return {f"own_{name}": getattr(lease, name) for name in _NAMED}


def _num_changed(result: Any) -> int:
    assert isinstance(result, CursorResult)
    return result.rowcount


@dataclass(frozen=True)
class Node:
    trial: int
    step: int
    sha256: str  # of its content
    parents: tuple[str, ...]  # their sha256; the first gives all that the operator does not make
    operator: str
    adopted: bool | None  # whether the operator's child was; None where there was none to try
    seed: int
    changes: dict[str, Any]  # from the first parent's configuration: before and after, by path

    @classmethod
    def of(cls, data: dict[str, Any]) -> "Node":
        return cls(**{**data, "parents": tuple(data["parents"])})


def add_node(session: Session, study_id: int, node: Node) -> None:
    columns = {key: value for key, value in vars(node).items() if key != "parents"}
    row = CheckpointRow(study_id=study_id, **columns | {"changes": json.dumps(node.changes)})
    session.add(row)
    session.flush()
    for position, parent in enumerate(node.parents):
        session.add(ParentRow(checkpoint_id=row.id, position=position, sha256=parent))


def read_nodes(database: Database, study_id: int) -> list[Node]:
    own = CheckpointRow.study_id == study_id
    checkpoints = select(CheckpointRow).where(own)
    checkpoints = checkpoints.order_by(CheckpointRow.trial, CheckpointRow.step)
    edges = select(ParentRow).join(CheckpointRow, ParentRow.checkpoint_id == CheckpointRow.id)
    edges = edges.where(own).order_by(ParentRow.checkpoint_id, ParentRow.position)

    def work(session: Session) -> list[Node]:
        parents = defaultdict[int, list[str]](list)
        for edge in session.scalars(edges):
            parents[edge.checkpoint_id].append(edge.sha256)
        nodes = []
        for row in session.scalars(checkpoints):
            given = {"parents": parents[row.id], "changes": json.loads(row.changes)}
            names = [column.name for column in fields(Node) if column.name not in given]
            nodes.append(Node.of(given | {name: getattr(row, name) for name in names}))
        return nodes

    return database.transaction(work)


@dataclass(frozen=True)
class Event:
    id: int  # 0 before it is written
    kind: str
    at: float  # seconds since the epoch
    trial: int | None = None
    attempt: int | None = None
    job: str | None = None
    data: dict[str, Any] = field(default_factory=dict)  # what JSON can hold


EVENTS_AT_ONCE = 2000  # that are read together: a million would take gigabytes


class EventLog:
    def __init__(self, database: Database) -> None:
        self._database = database

    def append(
        self, study_id: int, events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[Event]:
        """Write events, all or none, and return them with their ids; raises as `check_lease`."""
        if not events:
            return []

        def work(session: Session) -> list[Event]:
            if lease is not None:
                check_lease(session, lease)
            texts = [json.dumps(event.data) for event in events]
            rows = [
                {name: value for name, value in vars(event).items() if name != "id"}
                | {"study_id": study_id, "data": text}
                for event, text in zip(events, texts, strict=True)
            ]
            session.execute(insert(cast(Table, EventRow.__table__)), rows)
            # Objects, which know their ids, take several times as long. Only the holder of the
            # lease writes events of a study, so the last ones are these.
            of_study = select(EventRow.id).where(EventRow.study_id == study_id)
            newest = session.scalars(of_study.order_by(EventRow.id.desc()).limit(len(rows)))
            ids = sorted(newest)
            for event in events:
                for node in (event.data.get("node"), *event.data.get("lent", ())):
                    if node is not None:
                        add_node(session, study_id, Node.of(node))
            # As they are read again, with lists and texts as keys.
            return [
                replace(event, id=number, data=parse_json(text))
                for number, event, text in zip(ids, events, texts, strict=True)
            ]

        return self._database.transaction(work)

    def read(self, study_id: int, after_id: int = 0) -> Iterator[Event]:
        """Yield the events of a study in order, those with a higher id than ``after_id`` alone."""
        while events := self._read_part(study_id, after_id):
            yield from events
            if len(events) < EVENTS_AT_ONCE:
                return
            after_id = events[-1].id

    def _read_part(self, study_id: int, after_id: int) -> list[Event]:
        # Columns instead of objects, which take several times as long to make.
        row = EventRow.__table__.c
        query = select(row.id, row.kind, row.at, row.trial, row.attempt, row.job, row.data)
        query = query.where(row.study_id == study_id, row.id > after_id)
        query = query.order_by(row.id).limit(EVENTS_AT_ONCE)

        def work(session: Session) -> list[Event]:
            return [
                Event(number, kind, float(at), trial, attempt, job, parse_json(data))
                for number, kind, at, trial, attempt, job, data in session.execute(query)
            ]

        return self._database.transaction(work)


class DriverLog(AbstractContextManager["DriverLog"]):
    """The driver's log, for people: a line for every event, in a file opened at the first one."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: Any = None

    def __exit__(self, *error: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, event: Event) -> None:
        """Log one event; a DiskError if the file cannot be written."""
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a", encoding="utf-8", buffering=1)
            self._file.write(line(event) + "\n")
        except OSError as error:
            raise unwritten(self._path, error) from error

    def note(self, sentence: str) -> None:
        self.write(Event(0, "note", time.time(), data={"message": sentence}))


_DETAILS = ("status", "state", "kind", "step", "value", "failure", "message", "id")
"""keys of an event's data that its line shows"""


def line(event: Event) -> str:
    """Return an event as one line: when, what, which trial and job, details."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    whose = (("trial", event.trial), ("attempt", event.attempt), ("job", event.job))
    which = [f"{name} {value}" for name, value in whose if value is not None]
    details = [f"{k}={v}" for k, v in event.data.items() if k in _DETAILS and v not in (None, "")]
    return printable(" ".join(" ".join([when, event.kind, *which, *details]).splitlines()))
