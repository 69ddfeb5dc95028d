"""Tells what is new in a copy: only trials that have changed are read."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from optuna.trial import FrozenTrial
from sqlalchemy import select
from sqlalchemy.exc import DatabaseError, NoResultFound, OperationalError

from hpsearch.errors import CorruptError, StorageUnavailableError
from hpsearch.study.copy.file import COPIED, COPY, FORMAT, connected
from hpsearch.study.copy.rows import read_trials

PATIENCE: Final = 10.0
"""seconds to wait for a writer"""


@dataclass(frozen=True)
class Mark:
    """How far a copy is."""

    made: int
    """tells its file from all others"""
    serial: int
    """of its last change"""
    event: int
    """of the study, the last one that is told in it"""
    is_whole: bool
    """whether all trials are as of that event"""


@dataclass(frozen=True)
class News:
    """What has changed in a copy."""

    mark: Mark
    is_anew: bool
    """whether the file is another one than before, of which all trials are given"""
    trials: Sequence[FrozenTrial]
    """that have changed, by number"""


def read_mark(path: Path) -> Mark | None:
    """Return how far a copy is, None if there is none that can be read."""
    try:
        with connected(path, PATIENCE) as connection:
            mark = connection.execute(select(COPY)).one()
    except (DatabaseError, NoResultFound):
        return None
    if mark.format != FORMAT:
        return None
    return Mark(mark.made, mark.serial, mark.event, mark.is_whole)


def read_news(path: Path, since: Mark | None) -> News:
    """Return what has changed since a mark; everything if there is none.

    Raises:
        StorageUnavailableError: if there is no copy, or it is held.
        CorruptError: if it is damaged.
    """
    try:
        with connected(path, PATIENCE) as connection:
            connection.exec_driver_sql("BEGIN")  # all questions see the same moment
            now = connection.execute(select(COPY)).one()
            mark = Mark(now.made, now.serial, now.event, now.is_whole)
            is_anew = since is None or since.made != mark.made
            serial = -1 if since is None or is_anew else since.serial
            chosen = select(COPIED.c.trial_id).where(COPIED.c.serial > serial)
            trials = read_trials(connection, chosen) if mark.serial != serial else []
            return News(mark, is_anew, trials)
    except OperationalError as error:
        raise StorageUnavailableError(
            f"the copy {path} is not there or is held ({error.orig}); try again in a moment"
        ) from error
    except (DatabaseError, NoResultFound) as error:
        raise CorruptError(
            f"the copy {path} is damaged ({error}); remove it, and it is made anew"
        ) from error
