"""Optuna's studies in SQL behind a mirror in memory, for one writing process.

Optuna's own cache reads every unfinished trial again whenever one is asked for: 20 seconds with
8,000 running. Here every trial is read once, and each write goes to the database, then into the
mirror: right as long as no other process writes, as the driver's lease ensures. Any may read.

A write whose connection was lost may have arrived, so it is repeated: most end up the same, and
whether a trial was created or told is looked up. If the database stays away, trials are read anew.

New trials stay in memory, unwritten, until all their parameters are suggested, and are then written
together, whole. A driver that dies before leaves nothing: the next one suggests the same. What is
told of many trials at a time is written together as well: a transaction takes milliseconds.
"""

import copy
import itertools
import threading
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Concatenate, ParamSpec, TypeVar

from optuna.distributions import BaseDistribution
from optuna.exceptions import UpdateFinishedTrialError
from optuna.storages import BaseStorage, RDBStorage
from optuna.study import StudyDirection
from optuna.trial import FrozenTrial, TrialState, create_trial
from sqlalchemy import event
from sqlalchemy.orm import Session

from hpsearch.errors import OthersTrialsError, StorageError, StorageUnavailableError
from hpsearch.study.engine import create_directory, engine_options, persist, show_lost_connections
from hpsearch.study.rows import (
    Changes,
    End,
    as_read,
    find_written,
    insert_trials,
    read_trials,
    trial_ids,
    write_changes,
)
from hpsearch.study.url import hide_password

P = ParamSpec("P")
T = TypeVar("T")

UNWRITTEN = -1  # id of the first trial that is not written yet; that of the next one is lower


def open_storage(url: str) -> "MirroredStorage":
    """Return the storage at a URL, with its tables; StorageError or DiskError if that fails."""
    create_directory(url)
    # Optuna fills in {SCHEMA_VERSION}; other braces in a URL are meant as they are.
    template = url.replace("{", "{{").replace("}", "}}")
    try:
        backend = persist(url, lambda: RDBStorage(template, engine_options(url)), creates=True)
    except RuntimeError as error:
        raise StorageError(
            f"the tables in {hide_password(url)} are of another version of Optuna; "
            f"run: optuna storage upgrade --storage URL"
        ) from error
    show_lost_connections(backend.engine)
    return MirroredStorage(url, backend)


def _persisted(
    pick: Callable[[RDBStorage], Callable[P, T]],
) -> Callable[Concatenate["MirroredStorage", P], T]:
    """Return a method that calls one of the database's, and repeats it while that is away."""

    def call(self: "MirroredStorage", /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._persist(lambda: pick(self._backend)(*args, **kwargs))

    return call


def _without_a_fence(session: Session) -> None:
    """Let every transaction pass."""


class MirroredStorage(BaseStorage):
    """An `RDBStorage` and a copy of its trials; the only writer of the studies it is asked for."""

    def __init__(self, url: str, backend: RDBStorage) -> None:
        self.url = url
        self._backend = backend
        self._trials: dict[int, list[FrozenTrial]] = {}  # by study and number, once it is asked for
        self._places: dict[int, tuple[int, int]] = {}  # study and index in its list, by trial
        self._num_in: dict[int, Counter[TrialState]] = {}  # by study
        self._directions: dict[int, list[StudyDirection]] = {}
        self._ranges: dict[str, BaseDistribution] = {}
        """by its text, the same object for all trials that are new, as each takes memory"""
        self._may_wait: set[int] = set()  # studies with a trial that may wait, as Optuna asks
        self._writes_behind = False
        self._unwritten: list[FrozenTrial] = []
        self._changes: Changes | None = None  # of running trials, while they are collected
        self._fence: Callable[[Session], None] = _without_a_fence
        self._lock = threading.RLock()

    def write_behind(self, fence: Callable[[Session], None] | None = None) -> None:
        """From now on hold new trials back until `keep`.

        ``fence``, called in each transaction on a trial, raises if this process may write no more.
        """
        self._writes_behind = True
        if fence is not None:
            self._fence = fence
            sessions = self._backend.scoped_session
            event.listen(sessions, "before_flush", lambda session, *_: fence(session))

    def close(self) -> None:
        self._backend.remove_session()
        self._backend.engine.dispose()

    def remove_session(self) -> None:
        self._backend.remove_session()

    # Studies: few, and read from the database each time, except for what samplers ask often.

    create_new_study = _persisted(lambda backend: backend.create_new_study)
    set_study_user_attr = _persisted(lambda backend: backend.set_study_user_attr)
    set_study_system_attr = _persisted(lambda backend: backend.set_study_system_attr)
    get_study_id_from_name = _persisted(lambda backend: backend.get_study_id_from_name)
    get_study_name_from_id = _persisted(lambda backend: backend.get_study_name_from_id)
    get_study_user_attrs = _persisted(lambda backend: backend.get_study_user_attrs)
    get_study_system_attrs = _persisted(lambda backend: backend.get_study_system_attrs)
    get_all_studies = _persisted(lambda backend: backend.get_all_studies)

    def delete_study(self, study_id: int) -> None:
        with self._lock:
            self._persist(lambda: self._backend.delete_study(study_id))
            self._directions.pop(study_id, None)
            self._forget(study_id)

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        if study_id not in self._directions:
            read = self._backend.get_study_directions
            self._directions[study_id] = self._persist(lambda: read(study_id))
        return list(self._directions[study_id])

    # New trials.

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Write a new trial, or keep one that runs unwritten, after those that are so already."""
        template = template_trial or create_trial(state=TrialState.RUNNING)
        if template.state != TrialState.RUNNING or not self._writes_behind:
            create = self._backend.create_new_trial
            return self._create(study_id, lambda: create(study_id, template_trial))
        trial = copy.copy(template)
        trial.number = len(self._loaded(study_id)) + len(self._unwritten)
        trial.datetime_start = datetime.now()
        trial._trial_id = UNWRITTEN - len(self._unwritten)
        trial.user_attrs = as_read(trial.user_attrs)
        ranges = trial.distributions.items()
        trial.distributions = {name: self._same(distribution) for name, distribution in ranges}
        self._unwritten.append(trial)
        return trial._trial_id

    def discard(self) -> None:
        self._unwritten = []

    def keep(self, study_id: int) -> None:
        """Write the new trials in one transaction."""
        trials, self._unwritten = self._unwritten, []
        if not trials:
            return
        numbers = [trial.number for trial in trials]
        with self._lock, self._forgetting_if_lost(study_id):
            attempts = itertools.count()

            def write() -> list[int]:
                found = find_written(self._backend, study_id, numbers) if next(attempts) else []
                return found or insert_trials(self._backend, study_id, trials, self._fence)

            for trial, trial_id in zip(trials, self._persist(write), strict=True):
                trial._trial_id = trial_id
                self._append(study_id, trial)

    def _create(self, study_id: int, write: Callable[[], int]) -> int:
        with self._lock, self._forgetting_if_lost(study_id):
            number = len(self._loaded(study_id))
            attempts = itertools.count()
            find = self._backend.get_trial_id_from_study_id_trial_number

            def create() -> int:
                if next(attempts):
                    with suppress(KeyError):  # the attempt before has not arrived
                        return find(study_id, number)
                return write()

            trial_id = self._persist(create)
            trial = self._persist(lambda: self._backend.get_trial(trial_id))
            if trial.number == number:
                self._append(study_id, trial)
            else:
                # A creation whose answer was lost has left a trial that is not in the mirror.
                self._forget(study_id)
            return trial_id

    # Changes of trials: written through, or together with others, and made in the mirror too.

    @contextmanager
    def together(self, study_id: int) -> Iterator[None]:
        """Write what becomes of running trials in the block, by one thread, in one transaction.

        If it cannot be written, or the block raises, all trials are read anew.
        """
        assert self._changes is None, "one block within another"
        self._changes = changes = Changes()
        attempts, is_written = itertools.count(), False
        try:
            yield
            if not changes.are_none:
                self._persist(
                    lambda: write_changes(
                        self._backend, changes, self._fence, may_have_arrived=next(attempts) > 0
                    )
                )
            is_written = True
        finally:
            self._changes = None
            if not is_written:
                self._forget(study_id)

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        distribution = self._same(distribution)
        row = (trial_id, param_name, param_value_internal, distribution)
        with self._written(self._backend.set_trial_param, *row) as trial:
            value = distribution.to_external_repr(param_value_internal)
            trial.params = trial.params | {param_name: value}
            trial.distributions = trial.distributions | {param_name: distribution}

    def _same(self, distribution: BaseDistribution) -> BaseDistribution:
        return self._ranges.setdefault(repr(distribution), distribution)

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        row = (trial_id, step, intermediate_value)
        if self._changes is not None:
            self._changes.curves[trial_id, step] = intermediate_value
        with self._written(self._backend.set_trial_intermediate_value, *row) as trial:
            trial.intermediate_values = trial.intermediate_values | {step: intermediate_value}

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._changes is not None:
            self._changes.user_attrs[trial_id, key] = value
        with self._written(self._backend.set_trial_user_attr, trial_id, key, value) as trial:
            trial.user_attrs = trial.user_attrs | {key: as_read(value)}

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        if self._changes is not None:
            self._changes.system_attrs[trial_id, key] = value
        with self._written(self._backend.set_trial_system_attr, trial_id, key, value) as trial:
            trial.system_attrs = trial.system_attrs | {key: as_read(value)}

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        write = self._backend.set_trial_state_values
        study_id, _ = self._places.get(trial_id, (None, 0))
        if self._changes is not None:
            assert state.is_finished(), "trials begin one by one"
            end = self._changes.ends[trial_id] = End(state, values, datetime.now())
            trial = copy.copy(self.get_trial(trial_id))
            trial.state, trial.values, trial.datetime_complete = state, end.values, end.at
            self._put(trial)
            return True
        with self._lock, self._forgetting_if_lost(study_id):
            known = self.get_trial(trial_id)
            try:
                changed = self._persist(lambda: write(trial_id, state, values))
            except UpdateFinishedTrialError:
                # This very change, which had arrived when the connection was lost and was then
                # repeated: only this process writes.
                if known.state.is_finished():
                    raise
                told = self._reread(trial_id)
                if told.state != state or (values is not None and list(values) != told.values):
                    raise
                return True
            self._reread(trial_id)
            # The trial was waiting a moment ago and runs now: this change had arrived, as above.
            return changed or (known.state, state) == (TrialState.WAITING, TrialState.RUNNING)

    def hide_system_attrs(self, trial_id: int, keys: Collection[str]) -> None:
        """Leave attributes out of the mirror until they are set the next time."""
        with self._lock:
            shown = self._replace(trial_id)
            kept = {key: value for key, value in shown.system_attrs.items() if key not in keys}
            shown.system_attrs = kept

    # Reading.

    def get_trial(self, trial_id: int) -> FrozenTrial:
        with self._lock:
            if trial_id <= UNWRITTEN:
                return self._unwritten[UNWRITTEN - trial_id]
            if trial_id in self._places:
                study_id, index = self._places[trial_id]
                return self._trials[study_id][index]
        return self._persist(lambda: self._backend.get_trial(trial_id))

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        """Return the trials of a study, the unwritten ones among those that run."""
        with self._lock:
            trials = self._loaded(study_id)
            waiting_alone = states == (TrialState.WAITING,)
            if waiting_alone and study_id not in self._may_wait:
                return []
            if states is None:
                chosen = trials[:]
            else:
                chosen = [trial for trial in trials if trial.state in states]
            if waiting_alone and not chosen:
                self._may_wait.remove(study_id)
            if states is None or TrialState.RUNNING in states:
                chosen += self._unwritten
        return copy.deepcopy(chosen) if deepcopy else chosen

    def get_n_trials(
        self, study_id: int, state: tuple[TrialState, ...] | TrialState | None = None
    ) -> int:
        """Return how many trials of a study are in some states, or in any, without a look at each.

        The unwritten ones are among those that run.
        """
        with self._lock:
            self._loaded(study_id)
            states = tuple(TrialState) if state is None else state
            states = (states,) if isinstance(states, TrialState) else states
            written = sum(self._num_in[study_id][each] for each in states)
            return written + (TrialState.RUNNING in states) * len(self._unwritten)

    def get_trial_id_from_study_id_trial_number(self, study_id: int, trial_number: int) -> int:
        trials = self._loaded(study_id)
        if trial_number >= len(trials):
            raise KeyError(f"the study {study_id} has no trial {trial_number}")
        return trials[trial_number]._trial_id

    # The database and the mirror.

    def _persist(self, operation: Callable[[], T]) -> T:
        return persist(self.url, operation)

    @contextmanager
    def _written(
        self, write: Callable[..., None], trial_id: int, *values: Any
    ) -> Iterator[FrozenTrial]:
        """Give a trial of the mirror, to be changed as in the database.

        Only here, if it is unwritten or changes are collected. Of a trial that is not in the mirror
        it gives a copy, which is not kept.
        """
        study_id, _ = self._places.get(trial_id, (None, 0))
        with self._lock, self._forgetting_if_lost(study_id):
            if trial_id > UNWRITTEN and self._changes is None:
                self._persist(lambda: write(trial_id, *values))
            yield self._replace(trial_id)

    def _replace(self, trial_id: int) -> FrozenTrial:
        """Put a copy, to be changed, into a trial's place; samplers may hold the old one."""
        trial = copy.copy(self.get_trial(trial_id))
        if trial_id <= UNWRITTEN:
            self._unwritten[UNWRITTEN - trial_id] = trial
        else:
            self._put(trial)
        return trial

    def _reread(self, trial_id: int) -> FrozenTrial:
        """Read a trial back; the old copy is left as it is, because samplers may hold it."""
        trial = self._persist(lambda: self._backend.get_trial(trial_id))
        self._put(trial)
        return trial

    def _put(self, trial: FrozenTrial) -> None:
        """Let a trial of the mirror become this one."""
        if trial._trial_id in self._places:
            study_id, index = self._places[trial._trial_id]
            self._num_in[study_id][self._trials[study_id][index].state] -= 1
            self._trials[study_id][index] = trial
            self._count(study_id, trial)

    def _append(self, study_id: int, trial: FrozenTrial) -> None:
        self._places[trial._trial_id] = (study_id, trial.number)
        self._trials[study_id].append(trial)
        self._count(study_id, trial)

    def _count(self, study_id: int, trial: FrozenTrial) -> None:
        self._num_in[study_id][trial.state] += 1
        if trial.state == TrialState.WAITING:
            self._may_wait.add(study_id)

    @contextmanager
    def _forgetting_if_lost(self, study_id: int | None) -> Iterator[None]:
        """Forget the trials of a study if the database goes away: a change may have arrived."""
        try:
            yield
        except (StorageUnavailableError, OthersTrialsError):
            self._forget(study_id)
            raise

    def _forget(self, study_id: int | None) -> None:
        for trial in self._trials.pop(study_id, []) if study_id is not None else ():
            del self._places[trial._trial_id]

    def _loaded(self, study_id: int) -> list[FrozenTrial]:
        if study_id not in self._trials:
            trials = self._persist(lambda: self._read(study_id))
            self._trials[study_id] = trials
            self._num_in[study_id] = Counter(trial.state for trial in trials)
            self._may_wait.add(study_id)
            for index, trial in enumerate(trials):
                self._places[trial._trial_id] = (study_id, index)
        return self._trials[study_id]

    def _read(self, study_id: int) -> list[FrozenTrial]:
        self._backend.get_study_name_from_id(study_id)  # KeyError if there is none
        engine = self._backend.engine
        return read_trials(engine, trial_ids(engine, study_id), with_curves=True)
