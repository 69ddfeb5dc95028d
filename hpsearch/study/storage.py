"""Optuna's studies in SQL behind a mirror in memory, for one writing process.

Optuna's own cache reads every unfinished trial again whenever a trial is asked for, which takes 20
seconds when 8,000 are running. Here every trial is read once; each write goes to the database first
and then that one trial is read back. This is right as long as no other process writes trials of the
study, which the driver's lease ensures. Any number of processes may read the database with plain
Optuna, such as its dashboard.

A write whose connection was lost may have arrived. It is repeated: parameters, attributes and the
values of learning curves end up the same, and whether a trial was created or told is looked up. If
the database stays away, the trials are read anew once it is back.
"""

import copy
import gc
import itertools
import threading
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState

from hpsearch.errors import StorageError, StorageUnavailableError
from hpsearch.study.engine import create_directory, engine_options, persist, show_lost_connections
from hpsearch.study.url import hide_password

if TYPE_CHECKING:
    from optuna.study._frozen import FrozenStudy


T = TypeVar("T")


def open_storage(url: str) -> "MirroredStorage":
    """Return the storage at a database URL; its tables and SQLite's directory are created.

    Raises:
        StorageError: if the database cannot be reached or used.
        DiskError: if it cannot be written.
    """
    create_directory(url)
    return MirroredStorage(url, persist(url, lambda: _connect(url), creates=True))


class MirroredStorage(BaseStorage):
    """An `RDBStorage` and a copy of its trials; the only writer of the studies it is asked for."""

    def __init__(self, url: str, backend: RDBStorage) -> None:
        self.url = url
        self._backend = backend
        self._trials: dict[int, list[FrozenTrial]] = {}
        """by study, in the order of their numbers; a study is absent until it is asked for"""
        self._places: dict[int, tuple[int, int]] = {}
        """study and index in its list, by trial"""
        self._directions: dict[int, list[StudyDirection]] = {}
        self._lock = threading.RLock()

    def close(self) -> None:
        """Close all connections."""
        self._backend.remove_session()
        self._backend.engine.dispose()

    def remove_session(self) -> None:
        """Close the connection of this thread."""
        self._backend.remove_session()

    # Studies: few, and read from the database each time, except for what samplers ask often.

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Create a study and return its id."""
        return self._persist(lambda: self._backend.create_new_study(directions, study_name))

    def delete_study(self, study_id: int) -> None:
        """Delete a study and its trials."""
        with self._lock:
            self._persist(lambda: self._backend.delete_study(study_id))
            self._directions.pop(study_id, None)
            for trial in self._trials.pop(study_id, []):
                del self._places[trial._trial_id]

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set an attribute of a study for users."""
        self._persist(lambda: self._backend.set_study_user_attr(study_id, key, value))

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        """Set an attribute of a study for Optuna."""
        self._persist(lambda: self._backend.set_study_system_attr(study_id, key, value))

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the id of a study."""
        return self._persist(lambda: self._backend.get_study_id_from_name(study_name))

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name of a study."""
        return self._persist(lambda: self._backend.get_study_name_from_id(study_id))

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the direction of each objective."""
        if study_id not in self._directions:
            self._directions[study_id] = self._persist(
                lambda: self._backend.get_study_directions(study_id)
            )
        return list(self._directions[study_id])

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the attributes of a study for users."""
        return self._persist(lambda: self._backend.get_study_user_attrs(study_id))

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return the attributes of a study for Optuna."""
        return self._persist(lambda: self._backend.get_study_system_attrs(study_id))

    def get_all_studies(self) -> "list[FrozenStudy]":
        """Return all studies."""
        return self._persist(self._backend.get_all_studies)

    # Trials: written through, then read back.

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Create a trial and return its id."""
        with self._lock, self._forgetting_if_lost(study_id):
            number = len(self._loaded(study_id))
            attempts = itertools.count()

            def create() -> int:
                arrived = self._find(study_id, number) if next(attempts) else None
                if arrived is not None:
                    return arrived
                return self._backend.create_new_trial(study_id, template_trial)

            trial_id = self._persist(create)
            self._add(study_id, trial_id)
            return trial_id

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Set a parameter of a running trial."""
        self._write(
            trial_id,
            lambda: self._backend.set_trial_param(
                trial_id, param_name, param_value_internal, distribution
            ),
        )

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Set state and values of an unfinished trial; return whether the state has changed."""
        with self._lock:
            known = self.get_trial(trial_id)
            try:
                changed = self._write(
                    trial_id, lambda: self._backend.set_trial_state_values(trial_id, state, values)
                )
                # What was waiting a moment ago has begun: only this process writes, so it was this
                # very change, which had arrived when the connection was lost and was then repeated.
                return changed or (known.state, state) == (TrialState.WAITING, TrialState.RUNNING)
            except UpdateFinishedTrialError:
                # The same with a trial that has ended.
                if known.state.is_finished() or not _agrees(self._reread(trial_id), state, values):
                    raise
                return True

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """Set what a running trial has reported at a step."""
        self._write(
            trial_id,
            lambda: self._backend.set_trial_intermediate_value(trial_id, step, intermediate_value),
        )

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of an unfinished trial for users."""
        self._write(trial_id, lambda: self._backend.set_trial_user_attr(trial_id, key, value))

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Set an attribute of an unfinished trial for Optuna."""
        self._write(trial_id, lambda: self._backend.set_trial_system_attr(trial_id, key, value))

    def hide_system_attrs(self, trial_id: int, keys: Collection[str]) -> None:
        """Leave attributes out of the mirror until the trial is written the next time."""
        with self._lock:
            study_id, index = self._places[trial_id]
            shown = copy.copy(self._trials[study_id][index])
            kept = {key: value for key, value in shown.system_attrs.items() if key not in keys}
            shown.system_attrs = kept
            self._trials[study_id][index] = shown

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial."""
        with self._lock:
            if trial_id in self._places:
                study_id, index = self._places[trial_id]
                return self._trials[study_id][index]
        return self._persist(lambda: self._backend.get_trial(trial_id))

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials of a study, those in certain states alone if given."""
        with self._lock:
            trials = self._loaded(study_id)
            chosen = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(chosen) if deepcopy else chosen

    def _persist(self, operation: Callable[[], T]) -> T:
        return persist(self.url, operation)

    def _write(self, trial_id: int, operation: Callable[[], T]) -> T:
        study_id, _ = self._places.get(trial_id, (None, 0))
        with self._lock, self._forgetting_if_lost(study_id):
            result = self._persist(operation)
            self._reread(trial_id)
            return result

    @contextmanager
    def _forgetting_if_lost(self, study_id: int | None) -> Iterator[None]:
        """Forget the trials of a study if the database goes away: a change may have arrived."""
        try:
            yield
        except StorageUnavailableError:
            for trial in self._trials.pop(study_id, []) if study_id is not None else ():
                del self._places[trial._trial_id]
            raise

    def _reread(self, trial_id: int) -> FrozenTrial:
        """Read a trial back; the old copy is left as it is, because samplers may hold it."""
        trial = self._persist(lambda: self._backend.get_trial(trial_id))
        if trial_id in self._places:
            study_id, index = self._places[trial_id]
            self._trials[study_id][index] = trial
        return trial

    def _add(self, study_id: int, trial_id: int) -> None:
        trial = self._persist(lambda: self._backend.get_trial(trial_id))
        if trial.number != len(self._trials[study_id]):
            # A creation whose answer was lost has left a trial of which the mirror knows nothing.
            self._load(study_id)
            return
        self._places[trial_id] = (study_id, trial.number)
        self._trials[study_id].append(trial)

    def _find(self, study_id: int, number: int) -> int | None:
        """Return the id of a trial in the database, None if there is none of this number."""
        try:
            return self._backend.get_trial_id_from_study_id_trial_number(study_id, number)
        except KeyError:
            return None

    def _loaded(self, study_id: int) -> list[FrozenTrial]:
        if study_id not in self._trials:
            self._load(study_id)
        return self._trials[study_id]

    def _load(self, study_id: int) -> None:
        trials = self._persist(lambda: self._backend.get_all_trials(study_id, deepcopy=False))
        self._trials[study_id] = trials
        for index, trial in enumerate(trials):
            self._places[trial._trial_id] = (study_id, index)
        # A collection would look through a million objects that are here to stay, amid an ask.
        gc.freeze()


def _connect(url: str) -> RDBStorage:
    # Optuna fills in {SCHEMA_VERSION}; other braces in a URL are meant as they are.
    template = url.replace("{", "{{").replace("}", "}}")
    try:
        backend = RDBStorage(template, engine_options(url))
    except RuntimeError as error:
        raise StorageError(
            f"the tables in {hide_password(url)} are of another version of Optuna; "
            f"run: optuna storage upgrade --storage URL"
        ) from error
    show_lost_connections(backend.engine)
    return backend


def _agrees(trial: FrozenTrial, state: TrialState, values: Sequence[float] | None) -> bool:
    return trial.state == state and (values is None or list(values) == trial.values)
