"""Snapshots: what the events add up to, so that a reader folds only those after the last one.

A driver writes one now and then, as JSON in rows. Trials, jobs and matches that change no more are
`settled`: each is written once, and read when it is asked for. The head, which is replaced, is all
the rest. A reader of a head finds what it leaves out in rows of its event and before.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, delete, insert, inspect, select
from sqlalchemy.orm import Session

from hpsearch.cluster.records import Exploit
from hpsearch.errors import StorageError, StorageUnavailableError
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.study.database import Base, Database, SnapshotRow
from hpsearch.study.events import EventLog, Lease, check_lease
from hpsearch.study.records import (
    Ended,
    Job,
    Loss,
    Lost,
    Match,
    PlannedTrial,
    PopulationRecord,
    Tally,
    Trial,
)
from hpsearch.study.state import StudyState
from hpsearch.study.url import hide_password

K = TypeVar("K")
V = TypeVar("V")
T = TypeVar("T")

VERSION: Final = 2
"""of what the fold makes of events, and of the lines of trials: to be raised when either changes,
since a snapshot of another version is not read; test_snapshots.py notices"""

TRIAL, JOB, MATCH = "trial", "job", "match"
Settled = dict[str, dict[str, str]]  # texts by name by kind
Converters = Mapping[str, Callable[[Any], Any]]  # of what JSON holds otherwise, by field


def _by_number(mapping: Mapping[Any, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in mapping.items()}


def _record(cls: Callable[..., T], converters: Converters, data: Mapping[str, Any]) -> T:
    converted = {name: convert(data[name]) for name, convert in converters.items() if name in data}
    return cls(**{**data, **converted})


def _plain(value: Any) -> Any:
    return sorted(value) if isinstance(value, set) else vars(value)


@dataclass(frozen=True)
class RowKind(Generic[K, V]):
    """A kind of record of which each is written once, when no event changes it any more."""

    name: str
    plural: str
    key: Callable[[Any], K]  # from a row's name
    field: str  # that holds the key
    cls: Callable[..., V]
    new: Mapping[str, Any]  # fields of a new record, which are not written; None: required
    converters: Converters

    def plain(self, record: V) -> dict[str, Any]:
        """Return the fields that are not as in a new record, which are few."""
        return {name: value for name, value in vars(record).items() if value != self.new[name]}

    def record(self, data: Mapping[str, Any]) -> V:
        return _record(self.cls, self.converters, data)


TRIAL_ROWS: Final = RowKind(
    *(TRIAL, "trials", int, "number", Trial),
    new=vars(Trial(-1, {})) | {"params": None},
    converters={
        "reported": _by_number,
        "losses": lambda losses: [Loss(**(loss | {"log": tuple(loss["log"])})) for loss in losses],
        "origin": PlannedTrial.of,
        "takeovers": lambda takeovers: tuple(Exploit(**exploit) for exploit in takeovers),
    },
)
JOB_ROWS: Final = RowKind(
    *(JOB, "jobs", str, "name", Job),
    new=vars(Job("", [])) | {"groups": None},
    converters={
        "groups": lambda groups: [tuple(map(tuple, group)) for group in groups],
        "running": set,
    },
)
MATCH_ROWS: Final = RowKind(
    *(MATCH, "matches", int, "number", Match),
    new=vars(Match(0, {}, (), ())) | {"members": None, "ended": None, "archive": None},
    converters={
        **dict.fromkeys(("members", "strengths", "intervals"), _by_number),
        **dict.fromkeys(("ended", "archive"), tuple),
    },
)
_STATE: Converters = {"num_told": Counter, "requests": set}
_POPULATION: Converters = {
    "planned": lambda planned: [PlannedTrial.of(trial) for trial in planned],
    **dict.fromkeys(("answers", "newest", "finished"), _by_number),
    "open": lambda ended: {int(member): Ended(**end) for member, end in ended.items()},
    "late": set,
    "operators": lambda tried: {name: OperatorRecord(**record) for name, record in tried.items()},
}
_TALLY: Converters = {
    "lengths": lambda pairs: Counter(
        {tuple(length) if isinstance(length, list) else length: number for length, number in pairs}
    ),
    **dict.fromkeys(("failed", "children", "ended"), Counter),
    "lost": lambda lost: {kind: Lost(**record) for kind, record in lost.items()},
    **dict.fromkeys(("least", "greatest"), lambda pair: pair and tuple(pair)),
}


def is_settled(record: Trial | Job | Match) -> bool:
    match record:
        case Trial():
            return record.told is not None and record.token is None
        case Job():
            return record.ended and not record.running
        case Match():
            return record.is_over


def _records(state: StudyState) -> tuple[tuple[RowKind[Any, Any], Mapping[Any, Any]], ...]:
    return (
        (TRIAL_ROWS, state.trials),
        (JOB_ROWS, state.jobs),
        (MATCH_ROWS, state.population.matches),
    )


def settled(state: StudyState, known: Mapping[str, set[str]]) -> Settled:
    """Return what has settled, without what is ``known``: names by kind."""
    return {
        kind.name: {
            name: json.dumps(kind.plain(record), default=_plain)
            for key, record in records.items()
            if (name := str(key)) not in known[kind.name] and is_settled(record)
        }
        for kind, records in _records(state)
    }


def head_text(state: StudyState) -> str:
    apart = ("trials", "jobs", "untold", "live", "population", "tally")
    scalars = {name: value for name, value in vars(state).items() if name not in apart}
    tally, population = state.tally, state.population
    # What a status shows, settled or not.
    best = [pair[1] for pair in (tally.least, tally.greatest) if pair is not None]
    trials = {*best, *tally.newest_failed, *population.archive[-1:]}
    wanted: dict[str, set[int]] = {TRIAL: trials, JOB: set(), MATCH: {population.num_judged}}
    head: dict[str, Any] = {"version": VERSION, "state": scalars}
    for kind, records in _records(state):
        shown = wanted[kind.name]
        head[kind.plural] = [
            kind.plain(record)
            for key, record in records.items()
            if key in shown or not is_settled(record)
        ]
        head[f"num_{kind.plural}"] = len(records)
    head["population"] = {
        name: value for name, value in vars(population).items() if name != "matches"
    }
    head["tally"] = vars(tally) | {"lengths": [*tally.lengths.items()]}
    return json.dumps(head, default=_plain)


def restored(head: Mapping[str, Any], rows: "SnapshotRows") -> StudyState:
    """Return the state of a head, which reads from ``rows`` what has settled and it leaves out."""

    def stored(kind: RowKind[K, V]) -> Stored[K, V]:
        known = {kind.key(data[kind.field]): kind.record(data) for data in head[kind.plural]}
        return Stored(kind, known, head[f"num_{kind.plural}"] - len(known), rows)

    state = _record(StudyState, _STATE, head["state"])
    state.trials, state.jobs = trials, jobs = stored(TRIAL_ROWS), stored(JOB_ROWS)
    state.untold = {number: trial for number, trial in trials.known.items() if trial.told is None}
    state.live = {name: job for name, job in jobs.known.items() if not job.ended}
    state.tally = _record(Tally, _TALLY, head["tally"])
    state.population = _record(PopulationRecord, _POPULATION, head["population"])
    state.population.matches = stored(MATCH_ROWS)
    return state


# The rows of the database.

LINES, HEAD = "lines", "head"
PIECE: Final = 1_000_000  # characters of a head in a row, which every server takes
LINES_A_BLOCK: Final = 1_000
ROWS: Final = Base.metadata.tables[SnapshotRow.__tablename__]  # columns, quicker than objects

REFRESH_SECONDS: Final = 30.0  # between two snapshots; readers fold the events after the last one
SHARE: Final = 0.02  # of the driver's time that they may take


class SnapshotWriter:
    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._due_at = clock() + REFRESH_SECONDS
        self._last_event = -1
        self._known: dict[str, set[str]] | None = None  # rows that are there, by kind, once read

    def write(
        self, lease: Lease, state: StudyState, line: Callable[[Trial], str], *, if_due: bool = False
    ) -> None:
        """Write what has settled since the last snapshot, and a new head, if anything happened.

        ``line`` gives what a list of trials shows of one. With ``if_due`` a snapshot is written now
        and then, in little of the driver's time. Raises a ConflictError if another driver has taken
        the study; then nothing is written.
        """
        began = self._clock()
        if state.last_event == self._last_event or (if_due and began < self._due_at):
            return

        def work(session: Session) -> dict[str, set[str]]:
            check_lease(session, lease)
            known = self._known or _rows_there(session, lease.study_id)
            new = settled(state, known)
            lines = [f"{number}\t{line(state.trials[int(number)])}" for number in new[TRIAL]]
            # Lines together are read many times as fast as one by one.
            new[LINES] = {
                f"{state.last_event}-{start}": "\n".join(lines[start : start + LINES_A_BLOCK])
                for start in range(0, len(lines), LINES_A_BLOCK)
            }
            head = head_text(state)
            pieces = [head[start : start + PIECE] for start in range(0, len(head), PIECE)]
            new[HEAD] = {str(place): piece for place, piece in enumerate(pieces)}
            session.execute(delete(ROWS).where(_of(lease.study_id, HEAD)))
            _insert(session, lease.study_id, state, new)
            return {kind: known[kind] | new[kind].keys() for kind in known}

        self._known = self._database.transaction(work)
        self._last_event, now = state.last_event, self._clock()
        self._due_at = now + max(REFRESH_SECONDS, (now - began) / SHARE)


def _insert(session: Session, study_id: int, state: StudyState, texts: Settled) -> None:
    common = {"study_id": study_id, "event": state.last_event}
    rows = [
        common | {"kind": kind, "name": name, "data": text}
        for kind, of_kind in texts.items()
        for name, text in of_kind.items()
    ]
    session.execute(insert(ROWS), rows)


def _rows_there(session: Session, study_id: int) -> dict[str, set[str]]:
    """Return the names of the rows of a snapshot by kind; those of another version are deleted."""
    if _head(session, study_id) is None:
        session.execute(delete(ROWS).where(ROWS.c.study_id == study_id))
    names = select(ROWS.c.name)
    return {
        kind: {*session.scalars(names.where(_of(study_id, kind)))} for kind in (TRIAL, JOB, MATCH)
    }


def _head(session: Session, study_id: int) -> Any:
    # A database that was made before there were snapshots has no table for them.
    if not inspect(session.connection()).has_table(ROWS.name):
        return None
    query = select(ROWS.c.name, ROWS.c.data).where(_of(study_id, HEAD))
    pieces = {int(name): data for name, data in session.execute(query)}
    try:
        head = json.loads("".join(pieces[place] for place in range(len(pieces))))
        return head if head["version"] == VERSION else None
    except (ValueError, LookupError, TypeError):
        return None


def _of(study_id: int, kind: str) -> ColumnElement[bool]:
    return and_(ROWS.c.study_id == study_id, ROWS.c.kind == kind)


@dataclass(frozen=True)
class SnapshotRows:
    """The rows of a snapshot beside its head, read over another connection."""

    url: str
    study_id: int
    event: int  # of the head, to which newer rows do not belong

    def texts(self, kind: str, name: str | None = None) -> Sequence[str]:
        """Return what the rows of a kind hold, or the row of one name, if it is there."""
        query = select(ROWS.c.data).where(_of(self.study_id, kind), ROWS.c.event <= self.event)
        if name is not None:
            query = query.where(ROWS.c.name == name)
        with closing(Database.open(self.url)) as database:
            return database.transaction(lambda session: session.scalars(query).all())

    def records(self, kind: str, name: str | None = None) -> list[Any]:
        try:
            # One text, because that is read twice as fast as many.
            records: list[Any] = json.loads(f"[{','.join(self.texts(kind, name))}]")
        except ValueError as error:
            raise StorageError(
                f"the snapshot of the study in {hide_password(self.url)} is damaged; remove it "
                f"with: DELETE FROM {ROWS.name} WHERE study_id = {self.study_id}; all that it says "
                "is in the events too"
            ) from error
        return records


@dataclass(eq=False, repr=False)
class Stored(MutableMapping[K, V]):
    """Records of which some are in memory, and the others, all older, are read when asked for."""

    kind: RowKind[K, V]
    known: dict[K, V]  # those in memory
    num_stored: int  # the others
    rows: SnapshotRows  # that hold them

    def __getitem__(self, key: K) -> V:
        if key not in self.known and self.num_stored:
            for data in self.rows.records(self.kind.name, str(key)):
                self.known[key] = self.kind.record(data)
                self.num_stored -= 1
        if key not in self.known:
            iter(self)  # says so where this one is missing because all rows are gone
        return self.known[key]

    def __setitem__(self, key: K, value: V) -> None:
        self.known[key] = value

    def __delitem__(self, key: K) -> None:
        del self.known[key]

    def __len__(self) -> int:
        return len(self.known) + self.num_stored

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order of their numbers; everything is read."""
        if self.num_stored:
            records, kind = self.rows.records(self.kind.name), self.kind
            every = {kind.key(data[kind.field]): kind.record(data) for data in records}
            every |= self.known
            if len(every) != len(self):
                raise StorageUnavailableError(
                    "a newer hpsearch has taken the study meanwhile; run the command again"
                )
            # Numbers, or names with as many digits as are needed.
            order = sorted(every, key=lambda key: (len(str(key)), str(key)))
            self.known = {key: every[key] for key in order}
            self.num_stored = 0
        return iter(self.known)


def read_state(database: Database, study_id: int) -> StudyState:
    """Return what all events add up to; what has settled is read when it is asked for."""
    head = database.transaction(lambda session: _head(session, study_id))
    state = StudyState()
    if head is not None:
        with suppress(ValueError, LookupError, TypeError, AttributeError):  # the events say it all
            rows = SnapshotRows(database.url, study_id, head["state"]["last_event"])
            state = restored(head, rows)
    state.apply(EventLog(database).read(study_id, after_id=state.last_event))
    return state
