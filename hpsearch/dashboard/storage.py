"""Gives Optuna's dashboard a study, whose trials are read from the database."""

import copy
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, NoReturn

from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from hpsearch.errors import UsageError
from hpsearch.study.engine import persist
from hpsearch.study.rows import read_trials, trial_ids
from hpsearch.study.storage import open_storage
from hpsearch.study.view import Followed, StudyView

NOTE: Final = "note_"  # in the names of the attributes that are notes
NOTE_OF_STUDY: Final = "dashboard:note_ver"  # the attribute that a study with a note has
Attrs = Mapping[str, Any]


class Head(NamedTuple):
    study_id: int
    name: str
    directions: tuple[StudyDirection, ...]


def _refuse(*_: Any, **__: Any) -> NoReturn:
    raise UsageError("the dashboard shows a copy of the study, which is not to be changed")


class ReadOnlyStorage(BaseStorage):
    """One study for reading; notes are written where they are kept, if at all."""

    def __init__(self, head: Head, write_note: Callable[[str, Any], None] | None) -> None:
        """Begin without trials; ``write_note`` keeps a note, by its attribute's name, if it may."""
        self._head = head
        self._write_note = write_note
        self._trials: list[FrozenTrial] = []
        self._places: dict[int, int] = {}
        self._kept: Attrs = {}
        self._added: Attrs = {}
        self._user_attrs: Attrs = {}
        self._files: Mapping[int, Attrs] = {}
        self._remark = ""
        self._lock = threading.RLock()
        self.changed_at = time.monotonic()  # when something was new

    # What is shown, replaced as a whole: who reads meanwhile sees what was before, or what is now.

    def take(self, changed: Sequence[FrozenTrial]) -> None:
        """Show trials by their numbers, of which some may be as they were."""
        with self._lock:
            before = self._trials
            shown = [
                trial
                for trial in map(_shown, changed)
                if trial not in before[trial.number : trial.number + 1]
            ]
            if not shown:
                return
            self.changed_at = time.monotonic()
            trials = list(before)
            for trial in shown:
                trials[trial.number : trial.number + 1] = [trial]
            self._trials = trials
            self._places = {trial._trial_id: trial.number for trial in trials}

    def keep(self, system_attrs: Attrs) -> None:
        """Show the attributes that the study's own database holds: names of objectives, notes."""
        with self._lock:
            if self._kept != system_attrs:
                self._kept, self.changed_at = dict(system_attrs), time.monotonic()

    def add(
        self, remark: str, *, system_attrs: Attrs, user_attrs: Attrs, of_trials: Mapping[int, Attrs]
    ) -> None:
        """Show attributes beside those, also of trials; ``remark`` where there is no note."""
        with self._lock:
            self._remark, self.changed_at = remark, time.monotonic()
            self._added, self._user_attrs, self._files = system_attrs, user_attrs, of_trials

    # As the dashboard asks for it.

    def get_study_id_from_name(self, study_name: str) -> int:
        if study_name != self._head.name:
            raise KeyError(f"no study {study_name!r} is shown; shown: {self._head.name!r}")
        return self._head.study_id

    def get_study_name_from_id(self, study_id: int) -> str:
        self._check(study_id)
        return self._head.name

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        self._check(study_id)
        return list(self._head.directions)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        self._check(study_id)
        return dict(self._user_attrs)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        self._check(study_id)
        with self._lock:
            shown = {**self._kept, **self._added}
        if self._remark and NOTE_OF_STUDY not in shown:
            # As the dashboard stores a note, of the version before the first that is written.
            shown |= {NOTE_OF_STUDY: 0, "dashboard:note_str:0": self._remark}
        return shown

    def get_all_studies(self) -> list[FrozenStudy]:
        study_id, name, directions = self._head
        user_attrs = self.get_study_user_attrs(study_id)
        system_attrs = self.get_study_system_attrs(study_id)
        shown = list(directions)
        return [FrozenStudy(name, None, user_attrs, system_attrs, study_id, directions=shown)]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        with self._lock:
            return self._with_files(self._trials[self._places[trial_id]])

    def get_all_trials(
        self, study_id: int, deepcopy: bool = True, states: Container[TrialState] | None = None
    ) -> list[FrozenTrial]:
        self._check(study_id)
        with self._lock:
            trials = [self._with_files(trial) for trial in self._trials]
        chosen = [trial for trial in trials if states is None or trial.state in states]
        return copy.deepcopy(chosen) if deepcopy else chosen

    def _with_files(self, trial: FrozenTrial) -> FrozenTrial:
        files = self._files.get(trial.number)
        if files is None:
            return trial
        shown = copy.copy(trial)
        shown._system_attrs = {**trial._system_attrs, **files}
        return shown

    def _check(self, study_id: int) -> None:
        if study_id != self._head.study_id:
            raise KeyError(f"no study {study_id} is shown; shown: {self._head.study_id}")

    # What would change something. The guard has refused it before it comes here.

    def set_study_system_attr(self, study_id: int, key: str, value: Any) -> None:
        self._check(study_id)
        if self._write_note is None or NOTE not in key:
            _refuse()
        self._write_note(key, value)
        with self._lock:
            self.changed_at = time.monotonic()
            self._kept = {**self._kept, key: value}

    create_new_study = delete_study = set_study_user_attr = create_new_trial = _refuse
    set_trial_param = set_trial_state_values = set_trial_intermediate_value = _refuse
    set_trial_user_attr = set_trial_system_attr = _refuse


def _shown(trial: FrozenTrial) -> FrozenTrial:
    """Return a trial with the one system attribute that the dashboard draws."""
    shown = copy.copy(trial)
    violated = list(trial.constraints.values())
    shown._system_attrs = {"constraints": violated} if violated else {}
    return shown


class TrialSource:
    """One study, looked at again and again; only what may have changed is read."""

    def __init__(self, name_or_file: str, runs: Path) -> None:
        """Open a started study; UsageError if there is none, StorageError if its database fails."""
        self._followed = Followed(name_or_file, runs)
        name = self.view.name
        self._storage = open_storage(self._followed.database.url)
        study_id = self._storage.get_study_id_from_name(name)
        self.head = Head(study_id, name, tuple(self._storage.get_study_directions(study_id)))
        self._ended: set[int] = set()  # ids of trials that were read and change no more
        self._event = -1  # the last that had happened before the trials were read

    @property
    def view(self) -> StudyView:
        return self._followed.view

    def close(self) -> None:
        self._storage.close()
        self._followed.close()

    def changed(self) -> list[FrozenTrial]:
        """Return new trials and those not ended before; raises StorageUnavailableError."""
        self._followed.look()
        event = self.view.state.last_event
        if event == self._event:
            return []
        trials = persist(self._followed.database.url, self._read)
        self._event = event
        self._ended.update(trial._trial_id for trial in trials if trial.state.is_finished())
        return trials

    def system_attrs(self) -> Mapping[str, Any]:
        """Return what the study's own database holds for Optuna: names of objectives, notes."""
        return self._storage.get_study_system_attrs(self.head.study_id)

    def write_note(self, key: str, value: Any) -> None:
        self._storage.set_study_system_attr(self.head.study_id, key, value)

    def _read(self) -> list[FrozenTrial]:
        engine = self._followed.database.engine
        every = trial_ids(engine, self.head.study_id)
        ids = [trial_id for trial_id in every if trial_id not in self._ended]
        return read_trials(engine, ids, with_curves=False)
