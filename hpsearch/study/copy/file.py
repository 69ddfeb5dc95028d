"""Connections to the file of a copy."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy
from sqlalchemy import Connection
from sqlalchemy.exc import OperationalError
from sqlalchemy.pool import NullPool

_COMPILED: Final[dict[Any, Any]] = {}
"""statements as SQL, which a connection need not make anew"""


@contextmanager
def connected(file: Path, patience: float) -> Iterator[Connection]:
    """Give a connection to a SQLite file; what the block does is one transaction.

    It begins with the first statement that writes. What is lost with the power is not waited for.

    Args:
        file: which must be there.
        patience: seconds to wait for others.

    Raises:
        OperationalError: if there is no file, or others hold it for too long.
        DatabaseError: if it is damaged.
    """

    def connect() -> sqlite3.Connection:
        # As a URI, since a plain name would make a file where there is none.
        where = f"{file.absolute().as_uri()}?mode=rw"
        connection = sqlite3.connect(where, uri=True, timeout=patience)
        connection.execute("PRAGMA synchronous=OFF")
        return connection

    engine = sqlalchemy.create_engine("sqlite://", creator=connect, poolclass=NullPool)
    with engine.execution_options(compiled_cache=_COMPILED).begin() as connection:
        yield connection


def is_locked(error: OperationalError) -> bool:
    """Return whether others held the file."""
    return "locked" in str(error.orig)
