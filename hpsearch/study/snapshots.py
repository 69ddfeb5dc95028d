"""Snapshots: what the events add up to, so that a reader folds only those after the last one.

A driver writes one now and then, as JSON text in rows. Trials, jobs and matches that change no more
are `settled`: each is written once and read when it is asked for. The head is all the rest, and the
few settled ones that every look at a study needs. It is replaced, and no other row is ever changed.
A reader of a head therefore finds what it leaves out, whatever a driver writes meanwhile: the rows
of the same event and those before.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Generic, TypeVar

from sqlalchemy import ColumnElement, and_, delete, insert, inspect, select
from sqlalchemy.orm import Session

from hpsearch.cluster.records import Exploit
from hpsearch.errors import StorageError, StorageUnavailableError
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.study.database import Base, Database, SnapshotRow
from hpsearch.study.events import EventLog
from hpsearch.study.leases import Lease, check_lease
from hpsearch.study.records import (
    Ended,
    Job,
    Length,
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

VERSION: Final = 1
"""of what the fold makes of events, and of the lines of trials: to be raised when either changes,
since a snapshot of another version is not read; test_snapshots.py notices"""

TRIAL, JOB, MATCH = "trial", "job", "match"
Settled = dict[str, dict[str, str]]  # texts by name by kind

# What must be given is never as in a new record, and so always written.
_NEW_TRIAL = vars(Trial(-1, {})) | {"params": None}
_NEW_JOB = vars(Job("", [])) | {"groups": None}
_NEW_MATCH = vars(Match(0, {}, (), ())) | {"members": None, "ended": None, "archive": None}
_BY_THEMSELVES = ("trials", "jobs", "untold", "live", "population", "tally")


def is_settled(record: Trial | Job | Match) -> bool:
    """Return whether no event changes a record any more."""
    match record:
        case Trial():
            return record.told is not None and record.token is None
        case Job():
            return record.ended and not record.running
        case Match():
            return record.is_over


def settled(state: StudyState, known: Mapping[str, set[str]]) -> Settled:
    """Return what has settled, without what is ``known``: names by kind."""
    matches = state.population.matches
    every: list[tuple[str, Mapping[Any, Trial | Job | Match], Callable[[Any], str]]] = [
        (TRIAL, state.trials, lambda trial: json.dumps(_changed(trial, _NEW_TRIAL), default=vars)),
        (JOB, state.jobs, lambda job: json.dumps(_job(job))),
        (MATCH, matches, lambda match: json.dumps(_changed(match, _NEW_MATCH))),
    ]
    return {
        kind: {
            name: text(record)
            for key, record in records.items()
            if (name := str(key)) not in known[kind] and is_settled(record)
        }
        for kind, records, text in every
    }


def head_text(state: StudyState) -> str:
    population, wanted = state.population, _wanted(state)
    scalars = {name: it for name, it in vars(state).items() if name not in _BY_THEMSELVES}
    trials = (it for it in state.trials.values() if it.number in wanted or not is_settled(it))
    matches = (
        it
        for it in population.matches.values()
        if it.number == population.num_judged or not is_settled(it)
    )
    head = {
        "version": VERSION,
        "state": scalars | {"requests": sorted(state.requests)},
        "trials": [_changed(trial, _NEW_TRIAL) for trial in trials],
        "num_trials": len(state.trials),
        "jobs": [_job(job) for job in state.jobs.values() if not is_settled(job)],
        "num_jobs": len(state.jobs),
        "matches": [_changed(match, _NEW_MATCH) for match in matches],
        "num_matches": len(population.matches),
        "population": {
            name: sorted(it) if isinstance(it, set) else it
            for name, it in vars(population).items()
            if name != "matches"
        },
        "tally": vars(state.tally) | {"lengths": [*state.tally.lengths.items()]},
    }
    return json.dumps(head, default=vars)


def _wanted(state: StudyState) -> set[int]:
    """Return the trials that a status shows, ended or not."""
    tally = state.tally
    best = [pair[1] for pair in (tally.least, tally.greatest) if pair is not None]
    return {*best, *tally.newest_failed, *state.population.archive[-1:]}


def _changed(record: Trial | Job | Match, new: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not as in a new record, which are few."""
    return {name: it for name, it in vars(record).items() if it != new[name]}


def _job(job: Job) -> dict[str, Any]:
    data = _changed(job, _NEW_JOB)
    return data | {"running": sorted(job.running)} if job.running else data


# From text to state: what JSON holds otherwise than the records do, by field.

Converters = Mapping[str, Callable[[Any], Any]]


def _by_number(mapping: Mapping[Any, Any]) -> dict[int, Any]:
    return {int(key): value for key, value in mapping.items()}


def _lengths(pairs: Iterable[tuple[Any, int]]) -> Counter[Length]:
    lengths: Counter[Length] = Counter()
    for length, number in pairs:
        lengths[tuple(length) if isinstance(length, list) else length] = number
    return lengths


def _pair(data: Iterable[Any] | None) -> tuple[Any, ...] | None:
    return None if data is None else tuple(data)


_STATE: Converters = {"num_told": Counter, "requests": set}
_TRIAL: Converters = {
    "reported": _by_number,
    "losses": lambda losses: [Loss(**(it | {"log": tuple(it["log"])})) for it in losses],
    "origin": PlannedTrial.of,
    "takeovers": lambda takeovers: tuple(Exploit(**it) for it in takeovers),
}
_JOB: Converters = {
    "groups": lambda groups: [tuple((n, k, token) for n, k, token in group) for group in groups],
    "running": set,
}
_MATCH: Converters = {
    **dict.fromkeys(("members", "strengths", "intervals"), _by_number),
    **dict.fromkeys(("ended", "archive"), tuple),
}
_POPULATION: Converters = {
    "planned": lambda planned: [PlannedTrial.of(it) for it in planned],
    **dict.fromkeys(("answers", "newest", "finished"), _by_number),
    "open": lambda ended: {int(member): Ended(**it) for member, it in ended.items()},
    "late": set,
    "operators": lambda tried: {name: OperatorRecord(**it) for name, it in tried.items()},
}
_TALLY: Converters = {
    "lengths": _lengths,
    **dict.fromkeys(("failed", "children"), Counter),
    "lost": lambda lost: {kind: Lost(**it) for kind, it in lost.items()},
    **dict.fromkeys(("least", "greatest"), _pair),
}


def _record(cls: Callable[..., T], converters: Converters, data: Mapping[str, Any]) -> T:
    return cls(
        **{
            name: converters[name](value) if name in converters else value
            for name, value in data.items()
        }
    )


trial_of = partial(_record, Trial, _TRIAL)
job_of = partial(_record, Job, _JOB)
match_of = partial(_record, Match, _MATCH)


def restored(head: Mapping[str, Any]) -> StudyState:
    """Return the state of a head; of what has settled it has only what the head has."""
    state = _record(StudyState, _STATE, head["state"])
    state.trials = {trial.number: trial for trial in map(trial_of, head["trials"])}
    state.untold = {number: it for number, it in state.trials.items() if it.told is None}
    state.jobs = {job.name: job for job in map(job_of, head["jobs"])}
    state.live = {name: job for name, job in state.jobs.items() if not job.ended}
    state.tally = _record(Tally, _TALLY, head["tally"])
    state.population = _record(PopulationRecord, _POPULATION, head["population"])
    state.population.matches = {it.number: it for it in map(match_of, head["matches"])}
    return state


# The rows of the database.

LINES, HEAD = "lines", "head"
PIECE: Final = 1_000_000  # characters of a head in a row, which every server takes
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


@dataclass(frozen=True)
class StoredRows(Generic[K, V]):
    """The rows of one kind of record in a snapshot, read over a connection of their own."""

    url: str
    study_id: int
    event: int  # of the head, to which newer rows do not belong
    kind: str
    key: Callable[[str], K]  # from a row's name
    record: Callable[[Mapping[str, Any]], V]

    def read(self, key: K) -> V | None:
        texts = self._query(self.kind, ROWS.c.name == str(key))
        return self.record(self._parse(texts[0][1])) if texts else None

    def read_all(self) -> dict[K, V]:
        """Return all records, with those that may be in memory too."""
        rows = self._query(self.kind)
        # One text, because that is read twice as fast as many.
        records = self._parse(f"[{','.join(text for _, text in rows)}]")
        return {
            self.key(name): self.record(data) for (name, _), data in zip(rows, records, strict=True)
        }

    def lines(self) -> str:
        """Return what a list shows of all trials that have settled, each after number and tab."""
        return "\n".join(text for _, text in self._query(LINES))

    def _query(self, kind: str, *conditions: ColumnElement[bool]) -> Sequence[Any]:
        query = select(ROWS.c.name, ROWS.c.data).where(
            _of(self.study_id, kind), ROWS.c.event <= self.event, *conditions
        )
        with closing(Database.open(self.url)) as database:
            return database.transaction(lambda session: session.execute(query).all())

    def _parse(self, text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError as error:
            raise StorageError(
                f"the snapshot of the study in {hide_password(self.url)} is damaged; remove it "
                f"with: DELETE FROM {ROWS.name} WHERE study_id = {self.study_id}; all that it says "
                "is in the events too"
            ) from error


class Stored(MutableMapping[K, V]):
    """Records of which some are in memory, and the others are read when they are asked for.

    What is written into it stays in memory; a key that is new here must not be in the table.

    Attributes:
        known: what is in memory.
        num_stored: how many others there are.
        rows: where they are.
    """

    def __init__(self, known: dict[K, V], num_stored: int, rows: StoredRows[K, V]) -> None:
        self.known = known
        self.num_stored = num_stored
        self.rows = rows

    def __getitem__(self, key: K) -> V:
        if key not in self.known and self.num_stored:
            value = self.rows.read(key)
            if value is not None:
                self.known[key] = value
                self.num_stored -= 1
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
            every = {**self.rows.read_all(), **self.known}
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
    """Return what the events of a study add up to, by the last snapshot and the events after it.

    What the snapshot leaves out is read when it is asked for, over another connection.

    Raises:
        StorageUnavailableError: if the database cannot be read now.
    """

    def read_head(session: Session) -> Any:
        # A database that was made before there were snapshots has no table for them.
        has_table = inspect(session.connection()).has_table(ROWS.name)
        return _head(session, study_id) if has_table else None

    head = database.transaction(read_head)
    try:
        state = StudyState() if head is None else _state_of(head, database.url, study_id)
    except (ValueError, LookupError, TypeError):  # damaged: all of it is in the events too
        state = StudyState()
    state.apply(EventLog(database).read(study_id, after_id=state.last_event))
    return state


def _state_of(head: Mapping[str, Any], url: str, study_id: int) -> StudyState:
    state = restored(head)
    place, population = (url, study_id, state.last_event), state.population
    trials, jobs, matches = dict(state.trials), dict(state.jobs), dict(population.matches)
    state.trials = Stored(
        trials, head["num_trials"] - len(trials), StoredRows(*place, TRIAL, int, trial_of)
    )
    state.jobs = Stored(jobs, head["num_jobs"] - len(jobs), StoredRows(*place, JOB, str, job_of))
    population.matches = Stored(
        matches, head["num_matches"] - len(matches), StoredRows(*place, MATCH, int, match_of)
    )
    return state
