"""What the database says of a study: our tables and Optuna's, read at one moment by plain SQL."""

import json
import math
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Select, column, select, table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from hpsearch.audit.finding import MALFORMED, shown
from hpsearch.errors import CorruptError, StorageError
from hpsearch.study.events import Event, Node
from hpsearch.study.url import hide_password, sqlite_file

LOCK_SECONDS = 30.0  # for which SQLite waits for a driver to finish writing
SNAPSHOTS = "hpsearch_snapshots"
UNREADABLE = "unreadable"  # key of what stands for a text that is no JSON


@dataclass(frozen=True)
class OptunaTrial:
    """A trial as Optuna's tables hold it."""

    number: int
    state: str
    started: datetime | None
    completed: datetime | None
    values: Mapping[int, float]  # by objective
    params: Mapping[str, Any]
    ranges: Mapping[str, Any]  # of the parameters, as Optuna stores them
    curve: Mapping[int, float]  # by step
    attrs: Mapping[str, Any]  # for users


@dataclass(frozen=True)
class Books:
    """All that the database says of one study, at one moment."""

    name: str
    spec: Mapping[str, Any]
    spec_hash: str
    state: str
    events: tuple[Event, ...]  # by id
    lease: Any  # row of holder, token and expires_at (since the epoch), if there is one
    nodes: tuple[Node, ...]  # of the graph of descent
    trials: tuple[OptunaTrial, ...]  # by number
    directions: tuple[str, ...]  # of the objectives, as Optuna knows them
    snapshots: tuple[Any, ...]  # rows of kind, name, event and data; none in old databases


def read_books(name: str, url: str) -> Books:
    """Return what the database at ``url`` says of a study; nothing is written.

    All is of one moment, whatever a driver writes meanwhile. Raises StorageError if the database
    cannot be reached or read; CorruptError if it does not hold the study, or not what it searches.
    """
    is_file = sqlite_file(url) is not None
    try:
        engine = sqlalchemy.create_engine(
            url, poolclass=NullPool, connect_args={"timeout": LOCK_SECONDS} if is_file else {}
        )
        with engine.connect() as connection:
            if is_file:
                # Not a read-only connection, which could not undo what a killed driver half wrote.
                connection.exec_driver_sql("PRAGMA query_only = ON")
                connection.exec_driver_sql("BEGIN")
            else:
                connection = connection.execution_options(isolation_level="REPEATABLE READ")
            return _read(name, connection)
    except (SQLAlchemyError, ImportError) as error:
        reason = str(error).partition("\n")[0]
        raise StorageError(
            f"the database {hide_password(url)} cannot be read ({hide_password(reason)}); check "
            "that it can be reached, then run the same command again"
        ) from error
    except MALFORMED as error:
        raise CorruptError(
            f"the database holds rows of {name} of another form than hpsearch and Optuna write "
            f"({type(error).__name__}: {shown(str(error))}); restore it from a copy"
        ) from error


def _read(name: str, connection: Connection) -> Books:
    study = _only(_rows(connection, "hpsearch_studies", "id spec spec_hash state", name=name), name)
    spec = _plain(study.spec)
    if not isinstance(spec, dict) or UNREADABLE in spec:
        raise CorruptError(
            f"the database holds no readable spec of the study {name}; restore it from a copy"
        )

    def ours(source: str, columns: str) -> list[Any]:
        return _rows(connection, source, columns, study_id=study.id)

    # Events first: in a snapshot the order is of no matter, and on others nothing is too new.
    events = ours("hpsearch_events", "id kind at trial attempt job data")
    leases = ours("hpsearch_leases", "holder token expires_at")
    optuna_id = _only(_rows(connection, "studies", "study_id", study_name=name), name).study_id
    goals = _rows(connection, "study_directions", "objective direction", study_id=optuna_id)
    has_snapshots = sqlalchemy.inspect(connection).has_table(SNAPSHOTS)
    return Books(
        name=name,
        spec=spec,
        spec_hash=study.spec_hash,
        state=study.state,
        events=tuple(Event(**row._asdict() | {"data": _plain(row.data)}) for row in sorted(events)),
        lease=leases[0] if leases else None,
        nodes=_nodes(connection, study.id),
        trials=_trials(connection, optuna_id),
        directions=tuple(direction for _, direction in sorted(goals)),
        snapshots=tuple(ours(SNAPSHOTS, "kind name event data") if has_snapshots else ()),
    )


def _only(rows: list[Any], name: str) -> Any:
    if len(rows) != 1:
        raise CorruptError(
            f"the database holds {len(rows)} studies called {name}, but there must be one, in "
            "Optuna's tables and in those of hpsearch; restore it from a copy"
        )
    return rows[0]


def _nodes(connection: Connection, study_id: int) -> tuple[Node, ...]:
    edges = defaultdict[int, list[tuple[int, str]]](list)
    for owner, *edge in _rows(connection, "hpsearch_parents", "checkpoint_id position sha256"):
        edges[owner].append(tuple(edge))
    columns = "id trial step sha256 operator adopted seed changes"
    rows = _rows(connection, "hpsearch_checkpoints", columns, study_id=study_id)
    return tuple(
        Node(
            *(row.trial, row.step, row.sha256),
            parents=_parents(sorted(edges[row.id])),
            operator=row.operator,
            adopted=None if row.adopted is None else bool(row.adopted),
            seed=row.seed,
            changes=_plain(row.changes),
        )
        for row in rows
    )


def _parents(edges: list[tuple[int, str]]) -> tuple[str, ...]:
    # One that stands in another place than the next equals no parent that an event tells.
    return tuple(
        sha256 if position == place else f"{sha256} at {position}"
        for place, (position, sha256) in enumerate(edges)
    )


_PARTS = {
    "trial_values": "objective value value_type",
    "trial_params": "param_name param_value distribution_json",
    "trial_intermediate_values": "step intermediate_value intermediate_value_type",
    "trial_user_attributes": "key value_json",
}
"""columns by table, in the order in which `_trial` takes them"""


def _trials(connection: Connection, optuna_id: int) -> tuple[OptunaTrial, ...]:
    columns = "trial_id number state datetime_start datetime_complete"
    rows = _rows(connection, "trials", columns, study_id=optuna_id)
    own = _query("trials", "trial_id", study_id=optuna_id)
    parts = []
    for source, columns in _PARTS.items():
        of_trial = defaultdict[int, list[Any]](list)
        for trial_id, *part in _rows(connection, source, f"trial_id {columns}", trial_id=own):
            of_trial[trial_id].append(part)
        parts.append(of_trial)
    trials = (_trial(row, *(of_trial[row.trial_id] for of_trial in parts)) for row in rows)
    return tuple(sorted(trials, key=lambda trial: trial.number))


def _trial(
    row: Any, values: list[Any], params: list[Any], curve: list[Any], attrs: list[Any]
) -> OptunaTrial:
    ranges = {name: _plain(text) for name, _, text in params}
    return OptunaTrial(
        number=row.number if type(row.number) is int else -1,
        state=row.state,
        started=_time(row.datetime_start),
        completed=_time(row.datetime_complete),
        values={objective: _number(value, kind) for objective, value, kind in values},
        params={name: _param(value, ranges[name]) for name, value, _ in params},
        ranges=ranges,
        curve={step: _number(value, kind) for step, value, kind in curve},
        attrs={key: _plain(text) for key, text in attrs},
    )


def _param(value: Any, stored: Any) -> Any:
    """Return a parameter's value from Optuna's number for it; damaged ones as they stand."""
    try:
        match stored["name"]:
            case "CategoricalDistribution":
                return stored["attributes"]["choices"][int(value)]
            case "IntDistribution" if int(value) == value:
                return int(value)
            case _:
                return value
    except MALFORMED:
        return value


def _number(value: Any, kind: str) -> float:
    if kind == "FINITE" and isinstance(value, int | float):
        return float(value)
    # A text, which SQLite keeps, or a kind that Optuna does not have equals nothing that was told.
    return {"INF_POS": math.inf, "INF_NEG": -math.inf}.get(kind, math.nan)


def _time(value: Any) -> datetime | None:
    # SQLite has no dates: Optuna writes them as text.
    try:
        return datetime.fromisoformat(value) if isinstance(value, str) else value
    except ValueError:
        return None


def _plain(text: Any) -> Any:
    try:
        return json.loads(text)
    except (ValueError, TypeError, RecursionError):
        return {UNREADABLE: text}


def _rows(connection: Connection, source: str, columns: str, **where: Any) -> list[Any]:
    return list(connection.execute(_query(source, columns, **where)))


def _query(source: str, columns: str, **where: Any) -> Select[Any]:
    """Return what asks for columns of the rows in which others have, or are among, some values."""
    query: Select[Any] = select()
    query = query.add_columns(*map(column, columns.split())).select_from(table(source))
    for name, value in where.items():
        known = column(name).in_(value) if isinstance(value, Select) else column(name) == value
        query = query.where(known)
    return query
