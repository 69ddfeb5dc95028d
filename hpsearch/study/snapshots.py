"""Snapshots in the database: a driver writes them now and then, readers begin from them.

A row is never changed while a snapshot of its version lasts, but for the head, which is replaced.
A reader of a head therefore finds what it leaves out, whatever a driver writes meanwhile: the rows
of the same event and those before.

Mappings of which a part is in memory, and the rest is read when it is asked for.
"""

import json
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, Final, Generic, Protocol, TypeVar

from sqlalchemy import ColumnElement, and_, delete, insert, inspect, select
from sqlalchemy.orm import Session

from hpsearch.errors import StorageError, StorageUnavailableError
from hpsearch.study.database import Base, Database, SnapshotRow
from hpsearch.study.events import EventLog
from hpsearch.study.leases import Lease, check_lease
from hpsearch.study.records import Trial
from hpsearch.study.snapshot import (
    JOB,
    MATCH,
    TRIAL,
    VERSION,
    Settled,
    head_text,
    job_of,
    match_of,
    restored,
    settled,
    trial_of,
)
from hpsearch.study.state import StudyState
from hpsearch.study.url import hide_password

K = TypeVar("K")
V = TypeVar("V")
V_co = TypeVar("V_co", covariant=True)


class RestOfMapping(Protocol[K, V_co]):
    """Where the rest is."""

    def read(self, key: K) -> V_co | None:
        """Return a value, None if there is none."""

    def read_all(self) -> Mapping[K, V_co]:
        """Return everything, with what may be in memory too."""


class Stored(MutableMapping[K, V], Generic[K, V]):
    """What is in memory, and what a table holds besides.

    What is written into it stays in memory; a key that is new here must not be in the table.

    Attributes:
        known: what is in memory.
        num_stored: how many others there are.
    """

    def __init__(self, known: dict[K, V], num_stored: int, source: RestOfMapping[K, V]) -> None:
        """``num_stored`` counts what the source alone holds."""
        self.known = known
        self.num_stored = num_stored
        self._source = source

    def __getitem__(self, key: K) -> V:
        """Return a value, read if it must be."""
        if key not in self.known and self.num_stored:
            value = self._source.read(key)
            if value is not None:
                self.known[key] = value
                self.num_stored -= 1
        return self.known[key]

    def __setitem__(self, key: K, value: V) -> None:
        """Hold a value in memory."""
        self.known[key] = value

    def __delitem__(self, key: K) -> None:
        """Forget what is in memory."""
        del self.known[key]

    def __len__(self) -> int:
        """Return how many there are, read or not."""
        return len(self.known) + self.num_stored

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order of their numbers; everything is read."""
        if self.num_stored:
            every = {**self._source.read_all(), **self.known}
            if len(every) != len(self):
                raise StorageUnavailableError(
                    "a newer hpsearch has taken the study meanwhile; run the command again"
                )
            self.known = {key: every[key] for key in sorted(every, key=_number)}
            self.num_stored = 0
        return iter(self.known)


def _number(key: object) -> tuple[int, str]:
    """Sort by number, whether it is one or a name with as many digits as are needed."""
    return len(str(key)), str(key)


T = TypeVar("T")

LINES, HEAD = "lines", "head"
PIECE: Final = 1_000_000
"""characters of a head in a row, which every server takes"""
LINES_A_BLOCK: Final = 1_000
ROWS: Final = Base.metadata.tables[SnapshotRow.__tablename__]
"""read and written as columns, because objects take several times as long"""


class SnapshotWriter:
    """Writes the snapshots of a study that a driver holds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, set[str]] | None = None
        """names of the rows that are there, by kind; None before anything was read"""

    def write(self, lease: Lease, state: StudyState, line: Callable[[Trial], str]) -> None:
        """Write what has settled since the last snapshot, and a new head.

        ``line`` gives what a list of trials shows of one.

        Raises:
            ConflictError: if another driver has taken the study; then nothing is written.
            StorageError: if the database cannot be used.
        """

        def work(session: Session) -> dict[str, set[str]]:
            check_lease(session, lease)
            known = self._known or _rows_there(session, lease.study_id)
            new = settled(state, known)
            trials = [state.trials[int(number)] for number in new[TRIAL]]
            lines = [f"{trial.number}\t{line(trial)}" for trial in trials]
            _replace_head(session, lease.study_id, state)
            _insert(session, lease.study_id, state, new | {LINES: _blocks(lines, state)})
            return {kind: known[kind] | new[kind].keys() for kind in known}

        self._known = self._database.transaction(work)


def _blocks(lines: Sequence[str], state: StudyState) -> dict[str, str]:
    """Return lines together, which are read many times as fast as one by one."""
    starts = range(0, len(lines), LINES_A_BLOCK)
    return {
        f"{state.last_event}-{start}": "\n".join(lines[start : start + LINES_A_BLOCK])
        for start in starts
    }


def _replace_head(session: Session, study_id: int, state: StudyState) -> None:
    head = head_text(state)
    pieces = [head[start : start + PIECE] for start in range(0, len(head), PIECE)]
    session.execute(delete(ROWS).where(_of(study_id, HEAD)))
    _insert(session, study_id, state, {HEAD: {str(n): piece for n, piece in enumerate(pieces)}})


def _insert(session: Session, study_id: int, state: StudyState, texts: Settled) -> None:
    common = {"study_id": study_id, "event": state.last_event}
    rows = [
        common | {"kind": kind, "name": name, "data": text}
        for kind, of_kind in texts.items()
        for name, text in of_kind.items()
    ]
    if rows:
        session.execute(insert(ROWS), rows)


def _rows_there(session: Session, study_id: int) -> dict[str, set[str]]:
    """Return the names of the rows of a snapshot by kind; those of another version are deleted."""
    names = {kind: set[str]() for kind in (TRIAL, JOB, MATCH)}
    if _head(session, study_id) is None:
        session.execute(delete(ROWS).where(ROWS.c.study_id == study_id))
        return names
    for kind, of_kind in names.items():
        query = select(ROWS.c.name).where(_of(study_id, kind))
        of_kind.update(session.scalars(query))
    return names


def _head(session: Session, study_id: int) -> Any:
    """Return the head of a study's snapshot; None if there is none of this version."""
    query = select(ROWS.c.name, ROWS.c.data).where(_of(study_id, HEAD))
    pieces = {int(name): data for name, data in session.execute(query)}
    if not pieces:
        return None
    try:
        head = json.loads("".join(pieces[place] for place in range(len(pieces))))
        return head if head["version"] == VERSION else None
    except (ValueError, LookupError, TypeError):
        return None


def _of(study_id: int, kind: str) -> ColumnElement[bool]:
    return and_(ROWS.c.study_id == study_id, ROWS.c.kind == kind)


# Reading.


def read_state(database: Database, study_id: int) -> StudyState:
    """Return what the events of a study add up to, by the last snapshot and the events after it.

    What the snapshot leaves out is read when it is asked for, over a connection of its own.

    Raises:
        StorageUnavailableError: if the database cannot be read now.
    """
    head = database.transaction(lambda session: _head_if_any(session, study_id))
    try:
        state = StudyState() if head is None else _state_of(head, database, study_id)
    except (ValueError, LookupError, TypeError):  # damaged: all of it is in the events too
        state = StudyState()
    state.apply(EventLog(database).read(study_id, after_id=state.last_event))
    return state


def _head_if_any(session: Session, study_id: int) -> Any:
    """Return the head, None in a database that was made before there were snapshots."""
    if not inspect(session.connection()).has_table(ROWS.name):
        return None
    return _head(session, study_id)


def _state_of(head: Mapping[str, Any], database: Database, study_id: int) -> StudyState:
    state = restored(head)
    rows, population = _Rows(database.url, study_id, state.last_event), state.population
    trials, jobs, matches = dict(state.trials), dict(state.jobs), dict(population.matches)
    state.trials = StoredTrials(trials, head["num_trials"] - len(trials), rows)
    state.jobs = Stored(jobs, head["num_jobs"] - len(jobs), _Records(rows, JOB, str, job_of))
    population.matches = Stored(
        matches, head["num_matches"] - len(matches), _Records(rows, MATCH, int, match_of)
    )
    return state


@dataclass(frozen=True)
class _Rows:
    """The rows of a snapshot, each read over a connection of its own."""

    url: str
    study_id: int
    event: int
    """of the head, which rows that are newer do not belong to"""

    def one(self, kind: str, name: str) -> Any:
        """Return a row's data, None if there is no such row."""
        query = select(ROWS.c.data).where(self._are_of(kind), ROWS.c.name == name)
        texts = self._ask(lambda session: session.scalars(query).all())
        return self._read(texts[0]) if texts else None

    def every(self, kind: str) -> tuple[list[str], list[Any]]:
        """Return the names and the data of all rows of a kind."""
        query = select(ROWS.c.name, ROWS.c.data).where(self._are_of(kind))
        rows = self._ask(lambda session: session.execute(query).all())
        # One text, because that is read twice as fast as many.
        data = self._read(f"[{','.join(text for _, text in rows)}]")
        return [name for name, _ in rows], data

    def lines(self) -> str:
        """Return the lines of all trials, each after its number and a tab."""
        query = select(ROWS.c.data).where(self._are_of(LINES))
        return "\n".join(self._ask(lambda session: session.scalars(query).all()))

    def _read(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise StorageError(
                f"the snapshot of the study in {hide_password(self.url)} is damaged; remove it "
                f"with: DELETE FROM {ROWS.name} WHERE study_id = {self.study_id}; all that it says "
                "is in the events too"
            ) from error

    def _are_of(self, kind: str) -> ColumnElement[bool]:
        return and_(_of(self.study_id, kind), ROWS.c.event <= self.event)

    def _ask(self, work: Callable[[Session], T]) -> T:
        with closing(Database.open(self.url)) as database:
            return database.transaction(work)


@dataclass(frozen=True)
class _Records(Generic[K, V]):
    """The records of one kind."""

    rows: _Rows
    kind: str
    key: Callable[[str], K]
    """of a row's name"""
    of: Callable[[Mapping[str, Any]], V]

    def read(self, key: K) -> V | None:
        """Return a record, None if there is none."""
        data = self.rows.one(self.kind, str(key))
        return None if data is None else self.of(data)

    def read_all(self) -> dict[K, V]:
        """Return all records."""
        names, data = self.rows.every(self.kind)
        return dict(zip(map(self.key, names), map(self.of, data), strict=True))


class StoredTrials(Stored[int, Trial]):
    """Trials of which those that have settled are read when they are asked for."""

    def __init__(self, known: dict[int, Trial], num_stored: int, rows: _Rows) -> None:
        """Take the trials that are known, and where the others are."""
        super().__init__(known, num_stored, _Records(rows, TRIAL, int, trial_of))
        self._rows = rows

    def lines(self) -> str:
        """Return what a list shows of trials, each after its number and a tab.

        Some of those that are in memory may be among them, and all that are not.
        """
        return self._rows.lines()
