"""Rows of Optuna's tables, of many trials at once: a question or a statement a table.

Optuna itself takes ten times as long for ten thousand. All that is used of its private tables is
here, in `writer.py` and in `optuna_rows`; tests/study/test_copy_rows.py compares what is read and
written here with what Optuna reads and writes.
"""

import json
import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from enum import Enum
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.storages._rdb import models
from optuna.trial import FrozenTrial
from sqlalchemy import Connection, Select, Table, bindparam, delete, insert, select

TRIALS: Table = models.TrialModel.__table__
PARAMS: Table = models.TrialParamModel.__table__
VALUES: Table = models.TrialValueModel.__table__
CURVES: Table = models.TrialIntermediateValueModel.__table__
USER_ATTRS: Table = models.TrialUserAttributeModel.__table__
SYSTEM_ATTRS: Table = models.TrialSystemAttributeModel.__table__
PARTS = (PARAMS, VALUES, CURVES, USER_ATTRS, SYSTEM_ATTRS)

_ValueType = models.TrialValueModel.TrialValueType
_CurveType = models.TrialIntermediateValueModel.TrialIntermediateValueType
_NUMBERS = {"INF_POS": math.inf, "INF_NEG": -math.inf, "NAN": math.nan}

Row = dict[str, Any]


def trials_of(study_id: int) -> Select[tuple[int]]:
    """Return the question for the ids of all trials of a study."""
    return select(TRIALS.c.trial_id).where(TRIALS.c.study_id == study_id)


def read_trials(connection: Connection, chosen: Select[tuple[int]]) -> list[FrozenTrial]:
    """Return the trials whose ids ``chosen`` asks for, by their numbers.

    They agree with each other as far as what the connection reads does: in SQLite, ask within a
    transaction that was begun.
    """
    params, distributions = _read_params(connection, chosen)
    values = _read_numbers(connection, VALUES, chosen, "objective", "value")
    curves = _read_numbers(connection, CURVES, chosen, "step", "intermediate_value")
    user, system = (_read_attrs(connection, table, chosen) for table in (USER_ATTRS, SYSTEM_ATTRS))
    asked = select(
        TRIALS.c.trial_id,
        TRIALS.c.number,
        TRIALS.c.state,
        TRIALS.c.datetime_start,
        TRIALS.c.datetime_complete,
    ).where(TRIALS.c.trial_id.in_(chosen))
    return [
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
            intermediate_values=curves[trial],
            trial_id=trial,
        )
        for trial, number, state, start, complete in connection.execute(
            asked.order_by(TRIALS.c.number)
        )
    ]


def write_trials(connection: Connection, study_id: int, trials: Sequence[FrozenTrial]) -> None:
    """Write trials, in the place of what stands under their ids."""
    if not trials:
        return
    ids = [{"id": trial._trial_id} for trial in trials]
    for table in (*PARTS, TRIALS):
        connection.execute(delete(table).where(table.c.trial_id == bindparam("id")), ids)
    _insert(connection, TRIALS, (_trial(study_id, trial) for trial in trials))
    _insert(connection, PARAMS, (row for trial in trials for row in _params(trial)))
    _insert(connection, VALUES, (row for trial in trials for row in _values(trial)))
    _insert(connection, CURVES, (row for trial in trials for row in _curve(trial)))
    _insert(
        connection, USER_ATTRS, (row for trial in trials for row in _attrs(trial, trial.user_attrs))
    )
    system = (row for trial in trials for row in _attrs(trial, trial._system_attrs))
    _insert(connection, SYSTEM_ATTRS, system)


def _rows(
    connection: Connection, table: Table, chosen: Select[tuple[int]], *columns: str
) -> Iterator[Any]:
    """Yield the trial's id and columns of the rows of some trials, in the order of their making."""
    asked = select(table.c.trial_id, *(table.c[name] for name in columns))
    (key,) = table.primary_key
    yield from connection.execute(asked.where(table.c.trial_id.in_(chosen)).order_by(key))


def _read_params(
    connection: Connection, chosen: Select[tuple[int]]
) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, BaseDistribution]]]:
    """Return values and distributions of parameters by trial and name."""
    known: dict[str, BaseDistribution] = {}
    params: dict[int, dict[str, Any]] = defaultdict(dict)
    distributions: dict[int, dict[str, BaseDistribution]] = defaultdict(dict)
    columns = ("param_name", "param_value", "distribution_json")
    for trial, name, value, text in _rows(connection, PARAMS, chosen, *columns):
        if text not in known:
            known[text] = json_to_distribution(text)
        distributions[trial][name] = known[text]
        params[trial][name] = known[text].to_external_repr(value)
    return params, distributions


def _read_numbers(
    connection: Connection, table: Table, chosen: Select[tuple[int]], place: str, column: str
) -> dict[int, dict[int, float]]:
    """Return the numbers of a column by trial and by what the column ``place`` says."""
    numbers: dict[int, dict[int, float]] = defaultdict(dict)
    for trial, at, value, kind in _rows(connection, table, chosen, place, column, f"{column}_type"):
        numbers[trial][at] = _number(value, kind)
    return numbers


def _read_attrs(
    connection: Connection, table: Table, chosen: Select[tuple[int]]
) -> dict[int, dict[str, Any]]:
    attrs: dict[int, dict[str, Any]] = defaultdict(dict)
    for trial, key, text in _rows(connection, table, chosen, "key", "value_json"):
        attrs[trial][key] = json.loads(text)
    return attrs


def _number(stored: float | None, kind: Enum) -> float:
    return _NUMBERS[kind.name] if stored is None else stored


def _insert(connection: Connection, table: Table, rows: Iterable[Row]) -> None:
    listed = list(rows)
    if listed:
        connection.execute(insert(table), listed)


def _trial(study_id: int, trial: FrozenTrial) -> Row:
    return {
        "trial_id": trial._trial_id,
        "study_id": study_id,
        "number": trial.number,
        "state": trial.state,
        "datetime_start": _utc(trial.datetime_start),
        "datetime_complete": _utc(trial.datetime_complete),
    }


def _params(trial: FrozenTrial) -> Iterator[Row]:
    for name, distribution in trial.distributions.items():
        yield {
            "trial_id": trial._trial_id,
            "param_name": name,
            "param_value": distribution.to_internal_repr(trial.params[name]),
            "distribution_json": distribution_to_json(distribution),
        }


def _values(trial: FrozenTrial) -> Iterator[Row]:
    for at, value in enumerate(trial.values or ()):
        stored, kind = models.TrialValueModel.value_to_stored_repr(value)
        yield {
            "trial_id": trial._trial_id,
            "objective": at,
            "value": stored,
            "value_type": kind,
        }


def _curve(trial: FrozenTrial) -> Iterator[Row]:
    model = models.TrialIntermediateValueModel
    for step, value in trial.intermediate_values.items():
        stored, kind = model.intermediate_value_to_stored_repr(value)
        yield {
            "trial_id": trial._trial_id,
            "step": step,
            "intermediate_value": stored,
            "intermediate_value_type": kind,
        }


def _attrs(trial: FrozenTrial, attrs: Mapping[str, Any]) -> Iterator[Row]:
    for key, value in attrs.items():
        yield {"trial_id": trial._trial_id, "key": key, "value_json": json.dumps(value)}


def _local(stored: datetime | None) -> datetime | None:
    """Return the local time without zone, as Optuna's trials have it, of what it stores in UTC."""
    if stored is None:
        return None
    return stored.replace(tzinfo=UTC).astimezone().replace(tzinfo=None)


def _utc(shown: datetime | None) -> datetime | None:
    return None if shown is None else shown.astimezone(UTC).replace(tzinfo=None)
