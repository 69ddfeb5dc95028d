"""What the database says of a study: one consistent look at our tables and Optuna's, by plain SQL.

Nothing here is read by the code that wrote it: tables and columns are named anew.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy
from sqlalchemy import Connection, Select, column, select, table
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from hpsearch.audit.finding import MALFORMED, shown
from hpsearch.errors import CorruptError, StorageError
from hpsearch.study.url import hide_password, sqlite_file

LOCK_SECONDS = 30.0
"""for which SQLite waits for a driver to finish writing"""
SNAPSHOTS = "hpsearch_snapshots"
UNREADABLE = "unreadable"
"""key of what stands for a text that is no JSON"""


@dataclass(frozen=True)
class EventInBooks:
    """A row of the event log."""

    id: int
    at: float
    """seconds since the epoch"""
    kind: str
    trial: int | None
    attempt: int | None
    job: str | None
    data: Any


@dataclass(frozen=True)
class OptunaTrial:
    """A trial as Optuna's tables hold it."""

    number: int
    state: str
    started: datetime | None
    completed: datetime | None
    values: Mapping[int, float]
    """by objective"""
    params: Mapping[str, Any]
    ranges: Mapping[str, Any]
    """of the parameters, as Optuna stores them"""
    curve: Mapping[int, float]
    """by step"""
    attrs: Mapping[str, Any]
    """for users"""


@dataclass(frozen=True)
class LeaseInBooks:
    """Who may write."""

    holder: str
    token: int
    expires_at: float
    """seconds since the epoch"""


@dataclass(frozen=True)
class NodeInBooks:
    """A checkpoint of the graph of descent."""

    trial: int
    step: int
    sha256: str
    operator: str
    adopted: bool | None
    seed: int
    changes: Any
    parents: tuple[str, ...]


@dataclass(frozen=True)
class SnapshotInBooks:
    """A row of what readers begin from, instead of from all events."""

    kind: str
    """trial, job, match, lines or head"""
    name: str
    event: int
    """the last that was known when it was written"""
    data: str


@dataclass(frozen=True)
class Books:
    """All that the database says of one study, at one moment."""

    name: str
    spec: Mapping[str, Any]
    spec_hash: str
    state: str
    events: tuple[EventInBooks, ...]
    """by id"""
    lease: LeaseInBooks | None
    nodes: tuple[NodeInBooks, ...]
    trials: tuple[OptunaTrial, ...]
    """by number"""
    directions: tuple[str, ...]
    """of the objectives, as Optuna knows them"""
    snapshots: tuple[SnapshotInBooks, ...]
    """none in a database that was made before there were any"""


def read_books(name: str, url: str) -> Books:
    """Return what the database at ``url`` says of a study; nothing is written.

    All is read in one transaction that sees one moment, whatever a driver writes meanwhile.

    Raises:
        StorageError: if the database cannot be reached or read.
        CorruptError: if it does not hold the study, or not what it searches.
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
    columns = ("id", "name", "spec", "spec_hash", "state")
    study = _only(_rows(connection, _all("hpsearch_studies", *columns, where={"name": name})), name)
    own, spec = study["id"], _plain(study["spec"])
    if not isinstance(spec, dict) or UNREADABLE in spec:
        raise CorruptError(
            f"the database holds no readable spec of the study {name}; restore it from a copy"
        )
    # Events first: in a snapshot the order is of no matter, and on others nothing is too new.
    what = ("id", "at", "kind", "trial", "attempt", "job", "data")
    events = _rows(
        connection, _all("hpsearch_events", *what, where={"study_id": own}).order_by(column("id"))
    )
    leases = _rows(
        connection,
        _all("hpsearch_leases", "holder", "token", "expires_at", where={"study_id": own}),
    )
    optuna = _only(_rows(connection, _all("studies", "study_id", where={"study_name": name})), name)
    return Books(
        name=name,
        spec=spec,
        spec_hash=study["spec_hash"],
        state=study["state"],
        events=tuple(EventInBooks(**{**event, "data": _plain(event["data"])}) for event in events),
        lease=LeaseInBooks(**leases[0]) if leases else None,
        nodes=_nodes(connection, own),
        trials=_trials(connection, optuna["study_id"]),
        directions=_directions(connection, optuna["study_id"]),
        snapshots=_snapshots(connection, own),
    )


def _only(rows: Sequence[Mapping[str, Any]], name: str) -> Mapping[str, Any]:
    if len(rows) != 1:
        raise CorruptError(
            f"the database holds {len(rows)} studies called {name}, but there must be one, in "
            "Optuna's tables and in those of hpsearch; restore it from a copy"
        )
    return rows[0]


def _nodes(connection: Connection, own: int) -> tuple[NodeInBooks, ...]:
    what = ("id", "trial", "step", "sha256", "operator", "adopted", "seed", "changes")
    rows = _rows(connection, _all("hpsearch_checkpoints", *what, where={"study_id": own}))
    parents: dict[int, list[tuple[int, str]]] = {row["id"]: [] for row in rows}
    edges = _all("hpsearch_parents", "checkpoint_id", "position", "sha256")
    for edge in _rows(connection, edges):
        if edge["checkpoint_id"] in parents:
            parents[edge["checkpoint_id"]].append((edge["position"], edge["sha256"]))
    return tuple(_node(row, sorted(parents[row["id"]])) for row in rows)


def _node(row: Mapping[str, Any], parents: Sequence[tuple[int, str]]) -> NodeInBooks:
    adopted = None if row["adopted"] is None else bool(row["adopted"])
    said = {key: value for key, value in row.items() if key != "id"}
    said |= {"adopted": adopted, "changes": _plain(row["changes"])}
    # One that stands in another place than the next equals no parent that an event tells.
    placed = (
        sha256 if position == place else f"{sha256} at {position}"
        for place, (position, sha256) in enumerate(parents)
    )
    return NodeInBooks(**said, parents=tuple(placed))


def _snapshots(connection: Connection, own: int) -> tuple[SnapshotInBooks, ...]:
    if not sqlalchemy.inspect(connection).has_table(SNAPSHOTS):
        return ()
    what = ("kind", "name", "event", "data")
    return tuple(
        SnapshotInBooks(**row)
        for row in _rows(connection, _all(SNAPSHOTS, *what, where={"study_id": own}))
    )


def _directions(connection: Connection, optuna_id: int) -> tuple[str, ...]:
    rows = _rows(
        connection,
        _all("study_directions", "objective", "direction", where={"study_id": optuna_id}),
    )
    return tuple(row["direction"] for row in sorted(rows, key=lambda r: r["objective"]))


def _trials(connection: Connection, optuna_id: int) -> tuple[OptunaTrial, ...]:
    what = ("trial_id", "number", "state", "datetime_start", "datetime_complete")
    rows = _rows(connection, _all("trials", *what, where={"study_id": optuna_id}))
    mine: Select[Any] = select(column("trial_id")).select_from(
        table("trials", column("trial_id"), column("study_id"))
    )
    mine = mine.where(column("study_id") == optuna_id)

    def of_trial(name: str, *columns: str) -> dict[int, list[Mapping[str, Any]]]:
        query = _all(name, "trial_id", *columns).where(column("trial_id").in_(mine))
        grouped: dict[int, list[Mapping[str, Any]]] = {row["trial_id"]: [] for row in rows}
        for row in _rows(connection, query):
            grouped.setdefault(row["trial_id"], []).append(row)
        return grouped

    values = of_trial("trial_values", "objective", "value", "value_type")
    curves = of_trial(
        "trial_intermediate_values", "step", "intermediate_value", "intermediate_value_type"
    )
    params = of_trial("trial_params", "param_name", "param_value", "distribution_json")
    attrs = of_trial("trial_user_attributes", "key", "value_json")
    trials = [
        OptunaTrial(
            number=row["number"] if type(row["number"]) is int else -1,
            state=row["state"],
            started=_time(row["datetime_start"]),
            completed=_time(row["datetime_complete"]),
            values={r["objective"]: _number(r["value"], r["value_type"]) for r in values[key]},
            params={
                r["param_name"]: _param(r["param_value"], _plain(r["distribution_json"]))
                for r in params[key]
            },
            ranges={r["param_name"]: _plain(r["distribution_json"]) for r in params[key]},
            curve={
                r["step"]: _number(r["intermediate_value"], r["intermediate_value_type"])
                for r in curves[key]
            },
            attrs={r["key"]: _plain(r["value_json"]) for r in attrs[key]},
        )
        for row in rows
        for key in [row["trial_id"]]
    ]
    return tuple(sorted(trials, key=lambda trial: trial.number))


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


def _all(source: str, *columns: str, where: Mapping[str, Any] | None = None) -> Select[Any]:
    where = where or {}
    names = dict.fromkeys((*columns, *where))
    query: Select[Any] = select()
    query = query.add_columns(*(column(name) for name in columns)).select_from(
        table(source, *(column(name) for name in names))
    )
    for key, value in where.items():
        query = query.where(column(key) == value)
    return query


def _rows(connection: Connection, query: Select[Any]) -> list[Mapping[str, Any]]:
    rows: Iterable[Any] = connection.execute(query).mappings()
    return [dict(row) for row in rows]
