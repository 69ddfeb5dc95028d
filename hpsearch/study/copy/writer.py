"""Brings a copy up to date: of each trial that has changed, all rows, a hundred trials at a time.

A reader sees every trial as it was at some moment, and never a file that is half filled: a new one
grows under another name. Who writes takes no lock that he would have to wait for, and waits for no
disk: what a loss of power could damage is made anew.

A driver, and a dashboard that looks after a study without a driver, may write the same copy. Each
says up to which event of the study it knows the trials; who knows less than the copy holds writes
nothing.
"""

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final
from uuid import uuid4

from optuna.exceptions import OptunaError
from optuna.storages import RDBStorage
from optuna.storages._rdb.models import StudyDirectionModel, StudyModel, StudySystemAttributeModel
from optuna.trial import FrozenTrial
from sqlalchemy import Connection, Row, delete, func, insert, select, update
from sqlalchemy.exc import DatabaseError, NoResultFound, OperationalError

from hpsearch.study.copy.file import (
    COPIED,
    COPY,
    FORMAT,
    Head,
    abridged,
    connected,
    is_locked,
    own_tables,
)
from hpsearch.study.copy.rows import TRIALS, write_trials

TRIALS_AT_ONCE: Final = 100
"""that one transaction writes; a few hundredths of a second"""
ABANDONED_SECONDS: Final = 3600.0
"""after which a file that a process began to fill is removed"""


class CopyWriter:
    """Writes one copy; remembers what it wrote, so that it writes only what has changed."""

    def __init__(self, path: Path, head: Head, *, patience: float) -> None:
        """Say where the copy lies and what it is of.

        Args:
            path: the file.
            head: the study.
            patience: seconds for which readers may keep a change waiting; then it waits for the
                next call.
        """
        self._path = path
        self._head = head
        self._patience = patience
        self._known: list[FrozenTrial | None] = []
        self._made: int | None = None
        """the file whose content is known"""
        self._growing: Path | None = None
        """a new file that is not whole yet"""
        self._event = -1
        """told by the last call that copied everything"""

    def refresh(self, trials: Sequence[FrozenTrial], event: int, *, seconds: float) -> bool:
        """Copy what has changed, for about so long; return whether all is copied.

        It is not if the time was too short, a reader held the file, or it cannot be written.

        Args:
            trials: all of the study, by number; unchanged ones are the same objects or equal.
            event: the study's last event that they are as new as.
            seconds: after which no more trials are begun; at least a hundred are copied.
        """
        try:
            return self._refresh(trials, event, time.monotonic() + seconds)
        except OperationalError as error:
            if not is_locked(error):
                self._forget()
        except (DatabaseError, OptunaError, OSError):
            self._forget()
        return False

    def _refresh(self, trials: Sequence[FrozenTrial], event: int, deadline: float) -> bool:
        file = self._open(len(trials))
        changed = [at for at, trial in enumerate(trials) if self._differs(at, trial)]
        if not changed and event == self._event and file == self._path:
            return True
        while True:
            part, changed = changed[:TRIALS_AT_ONCE], changed[TRIALS_AT_ONCE:]
            if not self._write(file, [trials[at] for at in part], event, is_last=not changed):
                return False
            if not changed:
                break
            if time.monotonic() >= deadline:
                return False
        self._publish(file)
        self._event = event
        return True

    def _differs(self, at: int, trial: FrozenTrial) -> bool:
        known = self._known[at] if at < len(self._known) else None
        return known is not trial and known != trial

    def _forget(self) -> None:
        """Begin anew with the next call: the file is damaged, gone or full."""
        if self._growing is not None:
            with suppress(OSError):
                self._growing.unlink()
        self._known, self._made, self._growing, self._event = [], None, None, -1

    def _open(self, num_trials: int) -> Path:
        """Return the file to write, a new one if there is none that can be gone on with."""
        if self._growing is not None and self._growing.exists():
            return self._growing
        made = self._usable(num_trials)
        if made is not None and made == self._made:
            return self._path
        self._forget()
        if made is not None:
            self._made = made
            return self._path
        self._growing = self._begin()
        return self._growing

    def _usable(self, num_trials: int) -> int | None:
        """Return when the copy that is there was made, None if it cannot be gone on with."""
        if not self._path.exists():
            return None
        try:
            with connected(self._path, self._patience) as connection:
                mark = connection.execute(select(COPY)).one()
                held = connection.scalar(select(func.count()).select_from(TRIALS)) or 0
        except OperationalError as error:
            if is_locked(error):
                raise
            return None
        except (DatabaseError, NoResultFound):
            return None
        fits = mark.format == FORMAT and mark.study_id == self._head.study_id
        return int(mark.made) if fits and held <= num_trials else None

    def _begin(self) -> Path:
        """Make an empty copy under another name."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        _remove_abandoned(self._path)
        file = self._path.with_name(f".{self._path.stem}-{uuid4().hex}.db")
        _create_tables(file)
        self._made = time.time_ns()
        with connected(file, self._patience) as connection:
            _write_head(connection, self._head)
            row = {"format": FORMAT, "made": self._made, "study_id": self._head.study_id}
            connection.execute(insert(COPY), row | {"serial": 0, "event": -1, "is_whole": False})
        return file

    def _write(
        self, file: Path, trials: Sequence[FrozenTrial], event: int, *, is_last: bool
    ) -> bool:
        """Write some trials in one transaction; return False if another process knows more."""
        with connected(file, self._patience) as connection:
            # The first statement writes, so that no other process does from here on.
            connection.execute(update(COPY).values(serial=COPY.c.serial + 1))
            mark = connection.execute(select(COPY)).one()
            if mark.event > event or mark.made != self._made:
                connection.rollback()
                self._forget()
                return False
            write_trials(connection, self._head.study_id, [abridged(trial) for trial in trials])
            _mark(connection, trials, mark)
            connection.execute(update(COPY).values(event=event, is_whole=is_last))
        for trial in trials:
            self._known += [None] * (trial.number + 1 - len(self._known))
            self._known[trial.number] = trial
        return True

    def _publish(self, file: Path) -> None:
        if self._growing is not None:
            file.replace(self._path)
            self._growing = None


def _create_tables(file: Path) -> None:
    storage = RDBStorage(f"sqlite:///{file}".replace("{", "{{").replace("}", "}}"))
    try:
        own_tables().create_all(storage.engine)
    finally:
        storage.remove_session()
        storage.engine.dispose()


def _write_head(connection: Connection, head: Head) -> None:
    key = {"study_id": head.study_id}
    connection.execute(insert(StudyModel), key | {"study_name": head.name})
    connection.execute(
        insert(StudyDirectionModel),
        [
            key | {"direction": direction, "objective": at}
            for at, direction in enumerate(head.directions)
        ],
    )
    names = {"key": "study:metric_names", "value_json": json.dumps(head.metrics)}
    connection.execute(insert(StudySystemAttributeModel), key | names)


def _mark(connection: Connection, trials: Sequence[FrozenTrial], mark: Row[Any]) -> None:
    """Note with which change of the file the trials changed."""
    if trials:
        ids = [trial._trial_id for trial in trials]
        connection.execute(delete(COPIED).where(COPIED.c.trial_id.in_(ids)))
        rows = [{"trial_id": identifier, "serial": mark.serial} for identifier in ids]
        connection.execute(insert(COPIED), rows)


def _remove_abandoned(path: Path) -> None:
    """Remove what writers left that died while they filled a new file."""
    for left in path.parent.glob(f".{path.stem}-*"):
        with suppress(OSError):
            if time.time() - left.stat().st_mtime > ABANDONED_SECONDS:
                left.unlink()
