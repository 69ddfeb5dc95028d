"""Where the trials come from: the copy, which a driver keeps up to date, or else we do."""

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from hpsearch.errors import CorruptError, DiskError
from hpsearch.report.following import Followed
from hpsearch.report.view import StudyView
from hpsearch.study.copy.head import Head
from hpsearch.study.copy.reader import PATIENCE, Mark, News, read_mark, read_news
from hpsearch.study.copy.rows import read_trials, trials_of
from hpsearch.study.copy.writer import CopyWriter
from hpsearch.study.engine import persist
from hpsearch.study.storage import open_storage

BEHIND_SECONDS: Final = 120.0
"""for which a driver may leave the copy as it is; one that ticks now and then keeps none"""


class Source:
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
        """Bring the copy up to date if nobody else does; return what has changed in it.

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
