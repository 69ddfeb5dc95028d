"""Rows of Optuna's tables, many at once: the dashboard's trials, a new trial, values of curves.

Optuna takes ten times as long to read many trials, and cannot write several rows at once. All that
is used of its private tables is here; test_rows.py and test_write_behind.py compare with Optuna.
"""

import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from optuna.distributions import BaseDistribution, distribution_to_json, json_to_distribution
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import Connection, Table, delete, insert, select
from sqlalchemy.orm import Session

_NUMBERS = {"INF_POS": math.inf, "INF_NEG": -math.inf}

CurveValue = tuple[int, int, float]  # of a learning curve: trial's id, step, value


def trial_ids(connection: Connection, study_id: int) -> list[int]:
    trials = models.TrialModel.__table__.c
    query = select(trials.trial_id).where(trials.study_id == study_id).order_by(trials.number)
    return list(connection.scalars(query))


def read_trials(connection: Connection, ids: Sequence[int]) -> list[FrozenTrial]:
    """Return trials by their numbers, without curves, as of one moment within a transaction."""
    params, distributions = _read_params(connection, ids)
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
            intermediate_values={},
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
    connection: Connection, ids: Sequence[int]
) -> tuple[dict[int, dict[str, Any]], dict[int, dict[str, BaseDistribution]]]:
    known: dict[str, BaseDistribution] = {}
    params: dict[int, dict[str, Any]] = defaultdict(dict)
    distributions: dict[int, dict[str, BaseDistribution]] = defaultdict(dict)
    columns = ("param_name", "param_value", "distribution_json")
    for trial, name, value, text in _rows(connection, models.TrialParamModel, ids, *columns):
        if text not in known:
            known[text] = json_to_distribution(text)
        distributions[trial][name] = known[text]
        params[trial][name] = known[text].to_external_repr(value)
    return params, distributions


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


def insert_trial(storage: RDBStorage, study_id: int, unwritten: FrozenTrial) -> int:
    with _create_scoped_session(storage.scoped_session) as session:
        # As Optuna does: no other thread may count the trials meanwhile.
        models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
        trial = models.TrialModel(
            study_id=study_id,
            number=None,
            state=TrialState.RUNNING,
            datetime_start=unwritten.datetime_start,
        )
        session.add(trial)
        session.flush()
        trial.number = trial.count_past_trials(session)
        parameters = [
            {
                "trial_id": trial.trial_id,
                "param_name": name,
                "param_value": distribution.to_internal_repr(unwritten.params[name]),
                "distribution_json": distribution_to_json(distribution),
            }
            for name, distribution in unwritten.distributions.items()
        ]
        if parameters:
            session.execute(insert(models.TrialParamModel), parameters)
        for model, attrs in (
            (models.TrialSystemAttributeModel, unwritten.system_attrs),
            (models.TrialUserAttributeModel, unwritten.user_attrs),
        ):
            texts = {name: json.dumps(value) for name, value in attrs.items()}
            key = {"trial_id": trial.trial_id}
            if texts:
                rows = [key | {"key": name, "value_json": texts[name]} for name in texts]
                session.execute(insert(model), rows)
        return int(trial.trial_id)


def insert_curve_values(
    storage: RDBStorage, values: Sequence[CurveValue], fence: Callable[[Session], None]
) -> None:
    """Write values of learning curves; those that had arrived are replaced.

    Calls ``fence`` first, which may raise: other transactions are fenced before they flush, and
    these statements flush nothing.
    """
    model = models.TrialIntermediateValueModel
    kind = {"intermediate_value_type": model.TrialIntermediateValueType.FINITE}
    rows = [
        kind | {"trial_id": trial_id, "step": step, "intermediate_value": value}
        for trial_id, step, value in values
    ]
    with _create_scoped_session(storage.scoped_session) as session:
        fence(session)
        for trial_id, step, _ in values:
            session.execute(
                delete(model).where(model.trial_id == trial_id, model.step == step),
                execution_options={"synchronize_session": False},
            )
        session.execute(insert(model), rows)
