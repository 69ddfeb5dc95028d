"""A study as Optuna's dashboard asks for it, and the copy that its trials come from.

Where the trials come from: the copy, which a driver keeps up to date, or else we do.
"""

import copy
import math
import threading
import time
from collections.abc import Callable, Container, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from optuna.distributions import BaseDistribution
from optuna.storages import BaseStorage
from optuna.study import StudyDirection
from optuna.study._frozen import FrozenStudy
from optuna.trial import FrozenTrial, TrialState

from hpsearch.errors import CorruptError, DiskError, UsageError
from hpsearch.study.copy.file import Head
from hpsearch.study.copy.reader import PATIENCE, Mark, News, read_mark, read_news
from hpsearch.study.copy.rows import read_trials, trials_of
from hpsearch.study.copy.writer import CopyWriter
from hpsearch.study.engine import persist
from hpsearch.study.storage import open_storage
from hpsearch.study.view import Followed, StudyView

NOTE: Final = "note_"
"""in the names of the attributes that are notes"""
NOTE_OF_STUDY: Final = "dashboard:note_ver"
"""the attribute that a study with a note has"""
Attrs = Mapping[str, Any]
WriteNote = Callable[[str, Any], None]


class ReadOnlyStorage(BaseStorage):
    """One study for reading; notes are written where they are kept, if at all."""

    def __init__(self, head: Head, write_note: WriteNote | None) -> None:
        """Begin without trials.

        Args:
            head: the study.
            write_note: keeps a note, by its attribute's name; None if nothing is to be changed.
        """
        self._head = head
        self._write_note = write_note
        self._stored: list[FrozenTrial] = []
        self._trials: list[FrozenTrial] = []
        self._places: dict[int, int] = {}
        self._kept: Attrs = {}
        self._added: Attrs = {}
        self._user_attrs: Attrs = {}
        self._files: Mapping[int, Attrs] = {}
        self._remark = ""
        self._lock = threading.RLock()
        self.changed_at = time.monotonic()
        """when something was new"""

    # What is shown, replaced as a whole: who reads meanwhile sees what was before, or what is now.

    def take(self, news: News) -> None:
        """Show what has changed."""
        if not (news.trials or news.is_anew):
            return
        with self._lock:
            self.changed_at = time.monotonic()
            trials = [] if news.is_anew else list(self._stored)
            for trial in news.trials:
                if trial.number == len(trials):
                    trials.append(trial)
                else:
                    trials[trial.number] = trial
            self._stored = trials
            # Our own figure has the curves; a browser takes minutes to draw thousands of them.
            self._trials = [_without_curve(trial) for trial in trials]
            self._places = {trial._trial_id: trial.number for trial in trials}

    def keep(self, system_attrs: Attrs) -> None:
        """Show the attributes that the study's own database holds: names of objectives, notes."""
        with self._lock:
            if self._kept != system_attrs:
                self._kept, self.changed_at = dict(system_attrs), time.monotonic()

    def add(
        self, *, system_attrs: Attrs, user_attrs: Attrs, of_trials: Mapping[int, Attrs]
    ) -> None:
        """Show attributes beside those, and system attributes of trials by their numbers."""
        with self._lock:
            self.changed_at = time.monotonic()
            self._added, self._user_attrs, self._files = system_attrs, user_attrs, of_trials

    def remark(self, text: str) -> None:
        """Show a sentence as the study's note where it has none of its own; it is kept nowhere."""
        with self._lock:
            if self._remark != text:
                self._remark, self.changed_at = text, time.monotonic()

    # As the dashboard asks for it.

    def get_study_id_from_name(self, study_name: str) -> int:
        """Return the id of the study."""
        if study_name != self._head.name:
            raise KeyError(f"no study {study_name!r} is shown; shown: {self._head.name!r}")
        return self._head.study_id

    def get_study_name_from_id(self, study_id: int) -> str:
        """Return the name of the study."""
        self._check(study_id)
        return self._head.name

    def get_study_directions(self, study_id: int) -> list[StudyDirection]:
        """Return the direction of each objective."""
        self._check(study_id)
        return list(self._head.directions)

    def get_study_user_attrs(self, study_id: int) -> dict[str, Any]:
        """Return what we say of the study."""
        self._check(study_id)
        return dict(self._user_attrs)

    def get_study_system_attrs(self, study_id: int) -> dict[str, Any]:
        """Return names of objectives, notes, figures and files."""
        self._check(study_id)
        with self._lock:
            shown = {**self._kept, **self._added}
        has_note = NOTE_OF_STUDY in shown or not self._remark
        return shown if has_note else {**shown, **_as_note(self._remark)}

    def get_all_studies(self) -> list[FrozenStudy]:
        """Return the study."""
        study_id = self._head.study_id
        return [
            FrozenStudy(
                study_name=self._head.name,
                direction=None,
                directions=list(self._head.directions),
                user_attrs=self.get_study_user_attrs(study_id),
                system_attrs=self.get_study_system_attrs(study_id),
                study_id=study_id,
            )
        ]

    def get_trial(self, trial_id: int) -> FrozenTrial:
        """Return a trial."""
        with self._lock:
            return self._with_files(self._trials[self._places[trial_id]])

    def get_all_trials(
        self,
        study_id: int,
        deepcopy: bool = True,
        states: Container[TrialState] | None = None,
    ) -> list[FrozenTrial]:
        """Return the trials, those in certain states alone if given."""
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
        """Keep a note; nothing else is changed."""
        self._check(study_id)
        if self._write_note is None or NOTE not in key:
            _refuse()
        self._write_note(key, value)
        with self._lock:
            self.changed_at = time.monotonic()
            self._kept = {**self._kept, key: value}

    def create_new_study(
        self, directions: Sequence[StudyDirection], study_name: str | None = None
    ) -> int:
        """Refuse."""
        _refuse()

    def delete_study(self, study_id: int) -> None:
        """Refuse."""
        _refuse()

    def set_study_user_attr(self, study_id: int, key: str, value: Any) -> None:
        """Refuse."""
        _refuse()

    def create_new_trial(self, study_id: int, template_trial: FrozenTrial | None = None) -> int:
        """Refuse."""
        _refuse()

    def set_trial_param(
        self,
        trial_id: int,
        param_name: str,
        param_value_internal: float,
        distribution: BaseDistribution,
    ) -> None:
        """Refuse."""
        _refuse()

    def set_trial_state_values(
        self, trial_id: int, state: TrialState, values: Sequence[float] | None = None
    ) -> bool:
        """Refuse."""
        _refuse()

    def set_trial_intermediate_value(
        self, trial_id: int, step: int, intermediate_value: float
    ) -> None:
        """Refuse."""
        _refuse()

    def set_trial_user_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Refuse."""
        _refuse()

    def set_trial_system_attr(self, trial_id: int, key: str, value: Any) -> None:
        """Refuse."""
        _refuse()


def _as_note(text: str) -> Attrs:
    """Return a note as the dashboard stores it, of the version before the first written."""
    return {NOTE_OF_STUDY: 0, "dashboard:note_str:0": text}


def _without_curve(trial: FrozenTrial) -> FrozenTrial:
    if not trial.intermediate_values:
        return trial
    shown = copy.copy(trial)
    shown.intermediate_values = {}
    return shown


def _refuse() -> NoReturn:
    raise UsageError("the dashboard shows a copy of the study, which is not to be changed")


BEHIND_SECONDS: Final = 120.0
"""for which a driver may leave the copy as it is; one that ticks now and then keeps none"""


class TrialSource:
    """One study, looked at again and again; only what is new is read."""

    def __init__(self, name_or_file: str, runs: Path) -> None:
        """Open a started study.

        Raises:
            UsageError: if there is no such study.
            StorageError: if its database cannot be used.
        """
        self._followed = Followed(name_or_file, runs)
        spec = self.view.study.spec
        self._storage = open_storage(self._followed.database.url)
        study_id = self._storage.get_study_id_from_name(spec.name)
        self.head = Head(
            study_id,
            spec.name,
            tuple(self._storage.get_study_directions(study_id)),
            tuple(objective.metric for objective in spec.objectives),
        )
        self._writer = CopyWriter(self._path, self.head, patience=PATIENCE)
        self._seen: Mark | None = None
        self._behind: tuple[int, float] | None = None
        """an event that the copy lacks, and since when we know of it"""

    @property
    def view(self) -> StudyView:
        """Return the last look at the study."""
        return self._followed.view

    def close(self) -> None:
        """Close all connections."""
        self._storage.close()
        self._followed.close()

    def news(self) -> News:
        """Bring the copy up to date if no driver does; return what has changed in it.

        Raises:
            StorageUnavailableError: if the database or the copy cannot be read now.
            DiskError: if the copy cannot be written.
        """
        self._followed.look()
        if self._must_copy(read_mark(self._path)):
            self._copy()
        try:
            news = read_news(self._path, self._seen)
        except CorruptError:  # nothing is lost with it
            self._path.unlink(missing_ok=True)
            self._copy()
            news = read_news(self._path, self._seen)
        self._seen = news.mark
        return news

    def system_attrs(self) -> Mapping[str, Any]:
        """Return what the study's own database holds for Optuna: names of objectives, notes."""
        return self._storage.get_study_system_attrs(self.head.study_id)

    def write_note(self, key: str, value: Any) -> None:
        """Keep a note in the study's own database, which no driver reads."""
        self._storage.set_study_system_attr(self.head.study_id, key, value)

    @property
    def _path(self) -> Path:
        return self.view.folder.dashboard

    def _must_copy(self, mark: Mark | None) -> bool:
        """Return whether it is for us to copy what has changed."""
        event = self.view.state.last_event
        if mark is not None and mark.is_whole and mark.event >= event:
            self._behind = None
            return False
        if mark is None or not self.view.is_driven:
            return True
        now = time.monotonic()
        if self._behind is None or self._behind[0] <= mark.event:
            self._behind = (event, now)
        return now - self._behind[1] > BEHIND_SECONDS

    def _copy(self) -> None:
        event = self.view.state.last_event
        trials = persist(self._followed.database.url, self._read)
        if (
            not self._writer.refresh(trials, event, seconds=math.inf)
            and read_mark(self._path) is None
        ):
            raise DiskError(
                f"the copy {self._path}, from which the dashboard reads, cannot be written; free "
                "some space or make the folder writable"
            )

    def _read(self) -> list[Any]:
        with self._followed.database.engine.connect() as connection:
            return list(read_trials(connection, trials_of(self.head.study_id)))
