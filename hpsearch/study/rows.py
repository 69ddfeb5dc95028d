"""Rows of Optuna's tables, many at once: trials, new ones, and what becomes of them.

Optuna takes ten times as long to read many trials, and cannot write several rows at once. All that
is used of its private tables is here; test_rows.py and test_write_behind.py compare with Optuna.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar

from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Engine, Table, bindparam, delete, insert, select, update
from sqlalchemy.orm import Session

from hpsearch.errors import OthersTrialsError

_NUMBERS = {"INF_POS": math.inf, "INF_NEG": -math.inf}


def trial_ids(engine: Engine, study_id: int) -> list[int]:
    trials = models.TrialModel.__table__.c
    query = select(trials.trial_id).where(trials.study_id == study_id).order_by(trials.number)
    with engine.begin() as connection:
        return list(connection.scalars(query))


TRIALS_AT_ONCE = 500  # read in one transaction; a longer one would keep a driver waiting

Known = dict[str, BaseDistribution]
"""distributions by their texts in the database: one object for all trials, as each takes memory"""


def read_trials(engine: Engine, ids: Sequence[int], *, with_curves: bool) -> list[FrozenTrial]:
    """Return trials by their ids, which are in the order of their numbers."""
    trials: list[FrozenTrial] = []
    known: Known = {}
    for start in range(0, len(ids), TRIALS_AT_ONCE):
        with engine.begin() as connection:
            part = ids[start : start + TRIALS_AT_ONCE]
            trials += _read_part(connection, part, known, with_curves=with_curves)
    return trials


def _read_part(
    connection: Connection, ids: Sequence[int], known: Known, *, with_curves: bool
) -> list[FrozenTrial]:
    params, distributions = _read_params(connection, ids, known)
    curves = _read_curves(connection, ids) if with_curves else {}
    values: dict[int, dict[int, float]] = defaultdict(dict)
    measured = _rows(connection, models.TrialValueModel, ids, "objective", "value", "value_type")
    for trial, place, number, kind in measured:
        values[trial][place] = _NUMBERS[kind.name] if number is None else number
    user = _read_attrs(connection, models.TrialUserAttributeModel, ids)
    system = _read_attrs(connection, models.TrialSystemAttributeModel, ids)
    columns = ("number", "state", "datetime_start", "datetime_complete")
    rows = _rows(connection, models.TrialModel, ids, *columns)
    trials = [
        FrozenTrial(
            number=number,
            state=state,
            value=None,
            values=[value for _, value in sorted(values[trial].items())] or None,
            datetime_start=_local(start),
            datetime_complete=_local(complete),
            params=params[trial],
            distributions=distributions[trial],
            user_attrs=user[trial],
            system_attrs=system[trial],
            intermediate_values=curves.get(trial, {}),
            trial_id=trial,
        )
        for trial, number, state, start, complete in rows
    ]
    return sorted(trials, key=lambda trial: trial.number)


def _rows(connection: Connection, model: Any, ids: Sequence[int], *columns: str) -> Iterator[Any]:
    """Yield the trial's id and columns of the rows of some trials, in the order of their making."""
    table: Table = model.__table__
    query = select(table.c.trial_id, *(table.c[name] for name in columns))
    (key,) = table.primary_key
    yield from connection.execute(query.where(table.c.trial_id.in_(ids)).order_by(key))


def _read_params(
    connection: Connection, ids: Sequence[int], known: Known
) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, BaseDistribution]]]:
    params: dict[int, dict[str, Any]] = defaultdict(dict)
    distributions: dict[int, dict[str, BaseDistribution]] = defaultdict(dict)
    columns = ("param_name", "param_value", "distribution_json")
    for trial, name, value, text in _rows(connection, models.TrialParamModel, ids, *columns):
        if text not in known:
            known[text] = json_to_distribution(text)
        distributions[trial][name] = known[text]
        params[trial][name] = known[text].to_external_repr(value)
    return params, distributions


def _read_curves(connection: Connection, ids: Sequence[int]) -> dict[int, dict[int, float]]:
    """Return values by trial and step."""
    curves: dict[int, dict[int, float]] = defaultdict(dict)
    model = models.TrialIntermediateValueModel
    columns = ("step", "intermediate_value", "intermediate_value_type")
    for trial, step, value, kind in _rows(connection, model, ids, *columns):
        curves[trial][step] = model.stored_repr_to_intermediate_value(value, kind)
    return curves


def _read_attrs(
    connection: Connection, model: Any, ids: Sequence[int]
) -> dict[int, dict[str, Any]]:
    attrs: dict[int, dict[str, Any]] = defaultdict(dict)
    for trial, key, text in _rows(connection, model, ids, "key", "value_json"):
        attrs[trial][key] = json.loads(text)
    return attrs


def _local(stored: datetime | None) -> datetime | None:
    """Return the local time without zone, as Optuna's trials have it, of what it stores in UTC."""
    if stored is None:
        return None
    return stored.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def as_read(value: Any) -> Any:
    """Return an attribute as it is read again, with lists and texts as keys."""
    return json.loads(json.dumps(value))


def insert_trials(
    storage: RDBStorage,
    study_id: int,
    unwritten: Sequence[FrozenTrial],
    fence: Callable[[Session], None],
) -> list[int]:
    """Write running trials, whose numbers come next, and return their ids.

    Calls ``fence`` as `write_changes` does. Raises OthersTrialsError, and writes nothing, where
    another process has added trials.
    """
    table = models.TrialModel.__table__
    with _create_scoped_session(storage.scoped_session) as session:
        fence(session)
        # As Optuna does: no other thread may add trials meanwhile.
        models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
        rows = [
            {
                "study_id": study_id,
                "number": trial.number,
                "state": TrialState.RUNNING,
                "datetime_start": trial.datetime_start,
            }
            for trial in unwritten
        ]
        session.execute(insert(table), rows)
        newest = select(table.c.trial_id, table.c.number).where(table.c.study_id == study_id)
        newest = newest.order_by(table.c.trial_id.desc()).limit(len(rows) + 1)
        ids, numbers = zip(*reversed(session.execute(newest).all()), strict=True)
        first = unwritten[0].number
        if [*numbers] != [*range(max(0, first - 1), first + len(rows))]:
            raise OthersTrialsError("another process has added trials to this study; ask again")
        ids = ids[-len(rows) :]
        pairs = list(zip(ids, unwritten, strict=True))
        distributions = {id(d): d for trial in unwritten for d in trial.distributions.values()}
        texts = {key: distribution_to_json(d) for key, d in distributions.items()}
        parameters = [
            {
                "trial_id": trial_id,
                "param_name": name,
                "param_value": distribution.to_internal_repr(trial.params[name]),
                "distribution_json": texts[id(distribution)],
            }
            for trial_id, trial in pairs
            for name, distribution in trial.distributions.items()
        ]
        if parameters:
            session.execute(insert(models.TrialParamModel.__table__), parameters)
        system = {(i, key): value for i, t in pairs for key, value in t.system_attrs.items()}
        user = {(i, key): value for i, t in pairs for key, value in t.user_attrs.items()}
        _insert_attrs(session, models.TrialSystemAttributeModel, system)
        _insert_attrs(session, models.TrialUserAttributeModel, user)
        return list(ids)


def find_written(storage: RDBStorage, study_id: int, numbers: Sequence[int]) -> list[int]:
    """Return the ids of trials by their numbers, all of them or none."""
    trials = models.TrialModel
    query = select(trials.trial_id).where(trials.study_id == study_id, trials.number.in_(numbers))
    with _create_scoped_session(storage.scoped_session) as session:
        return list(session.scalars(query.order_by(trials.number)))


Attrs = dict[tuple[int, str], Any]
"""by a trial's id and a key"""


def _insert_attrs(session: Session, model: Any, attrs: Attrs) -> None:
    rows = [
        {"trial_id": trial_id, "key": key, "value_json": json.dumps(value)}
        for (trial_id, key), value in attrs.items()
    ]
    if rows:
        session.execute(insert(model.__table__), rows)


@dataclass(frozen=True)
class End:
    state: TrialState
    values: Sequence[float] | None
    at: datetime  # local time without zone


@dataclass(frozen=True)
class Changes:
    """What becomes of running trials, in the order in which Optuna would be told one by one."""

    curves: dict[tuple[int, int], float] = field(default_factory=dict)
    """finite numbers, by a trial's id and a step"""
    user_attrs: Attrs = field(default_factory=dict)
    system_attrs: Attrs = field(default_factory=dict)
    ends: dict[int, End] = field(default_factory=dict)

    @property
    def are_none(self) -> bool:
        return not (self.curves or self.user_attrs or self.system_attrs or self.ends)


def write_changes(
    storage: RDBStorage,
    changes: Changes,
    fence: Callable[[Session], None],
    *,
    may_have_arrived: bool,
) -> None:
    """Write changes in one transaction; what had arrived before is replaced.

    Calls ``fence`` first, which may raise: other transactions are fenced before they flush, and
    these statements flush nothing. Raises UpdateFinishedTrialError, and writes nothing, if a trial
    of ``changes.ends`` has ended already, unless these changes ``may_have_arrived``; values and
    attributes are not checked, which the fence keeps other writers from.
    """
    with _create_scoped_session(storage.scoped_session) as session:
        fence(session)
        if changes.ends:
            _end(session, changes.ends, may_have_arrived=may_have_arrived)
        if changes.curves:
            _write_curves(session, changes.curves)
        for model, attrs in (
            (models.TrialUserAttributeModel, changes.user_attrs),
            (models.TrialSystemAttributeModel, changes.system_attrs),
        ):
            for key, ids in _by_last(attrs).items():
                _delete(session, model, model.trial_id.in_(ids), model.key == key)
            _insert_attrs(session, model, attrs)


def _end(session: Session, ends: dict[int, End], *, may_have_arrived: bool) -> None:
    trials, values = models.TrialModel, models.TrialValueModel
    query = select(trials.trial_id, trials.state).where(trials.trial_id.in_(ends))
    states = {row.trial_id: row.state for row in session.execute(query.with_for_update())}
    for trial_id, end in ends.items():
        state = states[trial_id]
        if state.is_finished() and not (may_have_arrived and state == end.state):
            raise UpdateFinishedTrialError(f"the trial with the id {trial_id} has ended: {state}")
    _delete(session, values, values.trial_id.in_(ends))
    rows = []
    for trial_id, end in ends.items():
        for objective, value in enumerate(end.values or ()):
            stored, kind = values.value_to_stored_repr(value)
            place = {"trial_id": trial_id, "objective": objective}
            rows.append({**place, "value": stored, "value_type": kind})
    if rows:
        session.execute(insert(values.__table__), rows)
    table = trials.__table__
    session.connection().execute(
        update(table)
        .where(table.c.trial_id == bindparam("ended"))
        .values(state=bindparam("new_state"), datetime_complete=bindparam("at")),
        [
            {"ended": trial_id, "new_state": end.state, "at": _utc(end.at)}
            for trial_id, end in ends.items()
        ],
    )


def _write_curves(session: Session, curves: dict[tuple[int, int], float]) -> None:
    model = models.TrialIntermediateValueModel
    kind = {"intermediate_value_type": model.TrialIntermediateValueType.FINITE}
    for step, ids in _by_last(curves).items():
        _delete(session, model, model.trial_id.in_(ids), model.step == step)
    rows = [
        kind | {"trial_id": trial_id, "step": step, "intermediate_value": value}
        for (trial_id, step), value in curves.items()
    ]
    session.execute(insert(model.__table__), rows)


Last = TypeVar("Last", int, str)


def _by_last(keys: Iterable[tuple[int, Last]]) -> dict[Last, list[int]]:
    """Return the ids of trials, by the step or key that comes with them."""
    ids: dict[Last, list[int]] = {}
    for trial_id, last in keys:
        ids.setdefault(last, []).append(trial_id)
    return ids


def _delete(session: Session, model: Any, *where: Any) -> None:
    statement = delete(model).where(*where)
    session.execute(statement, execution_options={"synchronize_session": False})


def _utc(local: datetime) -> datetime:
    """Return what Optuna stores of a local time without zone."""
    return local.astimezone(UTC).replace(tzinfo=None)
