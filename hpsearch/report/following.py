"""A study that is looked at again and again; only what is new is read."""

from dataclasses import replace
from pathlib import Path

from hpsearch.report.view import StudyView, holds, open_view
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import EventLog
from hpsearch.study.leases import Leases
from hpsearch.study.spec import storage_url


class Followed:
    """A started study.

    Attributes:
        view: the last look at it.
        database: that holds it.
    """

    def __init__(self, name_or_file: str, runs: Path) -> None:
        """Look at it for the first time.

        Raises:
            UsageError: if there is no such study.
            StorageError: if its database cannot be used.
        """
        self.view: StudyView = open_view(name_or_file, runs)
        spec = self.view.study.spec
        self.database = Database.open(storage_url(spec.name, spec.storage))
        record = StudyRecords(self.database).get(spec.name)
        assert record is not None, "open_view has found it"
        self._id = record.id

    def look(self) -> None:
        """Take in what has happened since the last look.

        Raises:
            StorageUnavailableError: if the database cannot be read now.
        """
        state = self.view.state
        is_driven = holds(Leases(self.database).current(self._id))
        state.apply(EventLog(self.database).read(self._id, after_id=state.last_event))
        self.view = replace(self.view, is_driven=is_driven)

    def close(self) -> None:
        """Close the connection."""
        self.database.close()
