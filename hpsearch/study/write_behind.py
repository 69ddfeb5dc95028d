"""A storage that writes a new trial once, whole, and the values of many curves together.

Optuna writes a trial when it is created and again with each parameter. Here a new trial is a draft
in memory until all its parameters are suggested. A driver that dies before that leaves nothing,
and the next one draws the same, because suggestions depend on the trial's number and the history.

Besides, what Optuna finds by walking over all trials is remembered: which one has a number, and
that none waits; and what was written as it stands is not read back.
"""

import copy
import itertools
import json
from collections.abc import Callable, Container, Sequence
from datetime import datetime
from typing import Any

from optuna.distributions import BaseDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event
from sqlalchemy.orm import Session

from hpsearch.study.rows import CurveValue, insert_curve_values, insert_trial
from hpsearch.study.storage import MirroredStorage

DRAFT = -1
"""id of the draft"""


class WriteBehindStorage(MirroredStorage):
    """A `MirroredStorage` of one study, with at most one draft."""

    _draft: FrozenTrial | None = None
    _some_wait = True

    @classmethod
    def over(
        cls, storage: MirroredStorage, fence: Callable[[Session], None] | None = None
    ) -> "WriteBehindStorage":
        """Return a storage on the connections of another one, which stays to be closed.

        ``fence`` is called in each transaction that creates, changes or ends a trial, and raises if
        this process may not write any more: another driver may take the study at any moment.
        """
        if fence is not None:
            event.listen(
                storage._backend.scoped_session, "before_flush", lambda session, *_: fence(session)
            )
        return cls(storage.url, storage._backend)

    # Drafts.

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Begin a draft, which replaces the one before; a template is written at once."""
        if template_trial is not None:
            return super().create_new_trial(study_id, template_trial)
        self._draft = create_trial(state=TrialState.RUNNING)
        self._draft.number = len(self._loaded(study_id))
        self._draft.datetime_start = datetime.now()
        self._draft._trial_id = DRAFT
        return DRAFT

    def discard(self) -> None:
        """Forget the draft, if there is one."""
        self._draft = None

    def keep(self, study_id: int) -> None:
        """Write the draft, if there is one."""
        if self._draft is None:
            return
        draft, self._draft = self._draft, None
        with self._lock, self._forgetting_if_lost(study_id):
            number = len(self._loaded(study_id))
            attempts = itertools.count()

            def create() -> int:
                arrived = self._find(study_id, number) if next(attempts) else None
                return (
                    arrived if arrived is not None else insert_trial(self._backend, study_id, draft)
                )

            self._add(study_id, self._persist(create))

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Set a parameter of a running trial."""
        if trial_id != DRAFT:
            super().set_trial_param(trial_id, param_name, param_value_internal, distribution)
            return
        value = distribution.to_external_repr(param_value_internal)
        self._drafted.params = self._drafted.params | {param_name: value}
        self._drafted.distributions = self._drafted.distributions | {param_name: distribution}

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of an unfinished trial for Optuna."""
        if trial_id != DRAFT:
            super().set_trial_system_attr(trial_id, key, value)
            return
        self._drafted.system_attrs = self._drafted.system_attrs | {key: value}

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial, or a copy of the draft."""
        return copy.deepcopy(self._drafted) if trial_id == DRAFT else super().get_trial(trial_id)

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials of a study, the draft among those that run."""
        if states == (TrialState.WAITING,) and not self._some_wait:
            return []
        stored = super().get_all_trials(study_id, deepcopy, states)
        if states == (TrialState.WAITING,):
            self._some_wait = bool(stored)
        if self._draft is not None and (states is None or TrialState.RUNNING in states):
            stored = [*stored, self.get_trial(DRAFT)]
        return stored

    @property
    def _drafted(self) -> FrozenTrial:
        assert self._draft is not None, "a draft's id is not used after it was kept"
        return self._draft

    # Many values at once.

    def set_curve_values(self, values: Sequence[CurveValue]) -> None:
        """Set what running trials have reported, finite numbers, in one transaction."""
        if not values:
            return
        study_id, _ = self._places[values[0][0]]
        with self._lock, self._forgetting_if_lost(study_id):
            self._persist(lambda: insert_curve_values(self._backend, values))
            for trial_id, step, value in values:
                trial = self._replace(trial_id)
                trial.intermediate_values = trial.intermediate_values | {step: value}

    # What is known without reading it back.

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of an unfinished trial for users."""
        if trial_id == DRAFT:
            self._drafted.user_attrs = self._drafted.user_attrs | {key: value}
            return
        study_id, _ = self._places[trial_id]
        with self._lock, self._forgetting_if_lost(study_id):
            self._persist(lambda: self._backend.set_trial_user_attr(trial_id, key, value))
            trial = self._replace(trial_id)
            trial.user_attrs = trial.user_attrs | {key: json.loads(json.dumps(value))}

    def _replace(self, trial_id: int) -> FrozenTrial:
        """Put a copy, to be changed, into a trial's place; samplers may hold the old one."""
        study_id, index = self._places[trial_id]
        trial = self._trials[study_id][index] = copy.copy(self._trials[study_id][index])
        return trial

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        """Return the id of the trial with a number.

        Raises:
            KeyError: if there is none.
        """
        trials = self._loaded(study_id)
        if trial_number >= len(trials):
            raise KeyError(f"the study {study_id} has no trial {trial_number}")
        return trials[trial_number]._trial_id
