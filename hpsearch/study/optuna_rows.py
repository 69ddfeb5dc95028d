"""Rows of Optuna's tables, written many in one transaction.

Optuna has no public way to do that. All that is used of its private tables is in this file and in
`copy/`, and tests/study/test_drafts.py compares what it writes with what Optuna writes.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from optuna.distributions import distribution_to_json
from optuna.storages import RDBStorage
from optuna.storages._rdb import models
from optuna.storages._rdb.storage import _create_scoped_session
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy import delete, insert

CurveValue = tuple[int, int, float]
"""of a learning curve: trial's id, step, value"""


def insert_trial(storage: RDBStorage, study_id: int, draft: FrozenTrial) -> int:
    """Write a running trial, its parameters and its attributes in one transaction."""
    with _create_scoped_session(storage.scoped_session) as session:
        # As Optuna does: nobody else may count the trials meanwhile.
        models.StudyModel.find_or_raise_by_id(study_id, session, for_update=True)
        trial = models.TrialModel(
            study_id=study_id,
            number=None,
            state=TrialState.RUNNING,
            datetime_start=draft.datetime_start,
        )
        session.add(trial)
        session.flush()
        trial.number = trial.count_past_trials(session)
        key = {"trial_id": trial.trial_id}
        rows = [key | row for row in _parameters(draft)]
        attrs = [key | row for row in _attributes(draft.system_attrs)]
        shown = [key | row for row in _attributes(draft.user_attrs)]
        if rows:
            session.execute(insert(models.TrialParamModel), rows)
        if attrs:
            session.execute(insert(models.TrialSystemAttributeModel), attrs)
        if shown:
            session.execute(insert(models.TrialUserAttributeModel), shown)
        return int(trial.trial_id)


def insert_curve_values(storage: RDBStorage, values: Sequence[CurveValue]) -> None:
    """Write values of learning curves; those that had arrived are replaced."""
    model = models.TrialIntermediateValueModel
    kind = model.TrialIntermediateValueType.FINITE
    rows = [
        {
            "trial_id": trial_id,
            "step": step,
            "intermediate_value": value,
            "intermediate_value_type": kind,
        }
        for trial_id, step, value in values
    ]
    with _create_scoped_session(storage.scoped_session) as session:
        for trial_id, step, _ in values:
            session.execute(
                delete(model).where(model.trial_id == trial_id, model.step == step),
                execution_options={"synchronize_session": False},
            )
        session.execute(insert(model), rows)


def _parameters(trial: FrozenTrial) -> list[dict[str, Any]]:
    return [
        {
            "param_name": name,
            "param_value": distribution.to_internal_repr(trial.params[name]),
            "distribution_json": distribution_to_json(distribution),
        }
        for name, distribution in trial.distributions.items()
    ]


def _attributes(attrs: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value_json": json.dumps(value)} for key, value in attrs.items()]
