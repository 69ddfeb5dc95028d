"""The one place that connects to databases, retries what passes by itself, and names the rest."""

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from hpsearch.errors import DiskError, HpsearchError, StorageError
from hpsearch.study.url import hide_password, password, sqlite_file

T = TypeVar("T")

PATIENCE = 30.0
"""seconds for which an operation is repeated"""
BUSY_TIMEOUT = 10.0
"""seconds for which SQLite waits for another process to finish writing"""
CONNECT_TIMEOUT = 10
"""seconds for which a server may keep a connection waiting"""

_SERVER_POOL = {"pool_pre_ping": True, "pool_size": 1, "max_overflow": 2}
# The drivers do not agree on the name of the option.
_TIMEOUT_OPTION = {
    "psycopg": "connect_timeout",
    "psycopg2": "connect_timeout",
    "pg8000": "timeout",
    "mysqldb": "connect_timeout",
    "pymysql": "connect_timeout",
    "mysqlconnector": "connection_timeout",
}

_TRANSIENT = (
    "database is locked",
    "database table is locked",
    "deadlock",
    "could not serialize access",
    "lock wait timeout",
    "database system is starting up",
    "database system is shutting down",
    "too many connections",
    "too many clients",
    "remaining connection slots",
    "already exists",  # another process creates the tables at the same time
)


@dataclass(frozen=True)
class _Cause:
    """Words in a driver's message, and the error that a user gets for them."""

    words: tuple[str, ...]
    error: type[HpsearchError]
    sentence: str


_CAUSES = (
    _Cause(
        ("database or disk is full", "no space left", "disk full", "could not extend file"),
        DiskError,
        "the disk of the database {url} is full; free some space and run the command again",
    ),
    _Cause(
        ("readonly database", "read-only"),
        DiskError,
        "the database {url} can be read but not written; check the permissions of its file, "
        "its directory or its role",
    ),
    _Cause(
        ("disk i/o error",),
        DiskError,
        "the disk or network file system of the database {url} failed; check it, or keep the "
        "database on a local disk or a server",
    ),
    _Cause(
        ("file is not a database", "malformed"),
        StorageError,
        "the file of {url} is no intact SQLite database; restore it from a copy, or give storage "
        "another file",
    ),
    _Cause(
        ("unable to open database file",),
        StorageError,
        "the database file of {url} cannot be opened; check that it is a file and its permissions",
    ),
    _Cause(
        ("no such table", "doesn't exist", "undefinedtable", "unknown table"),
        StorageError,
        "the database {url} holds no study of hpsearch; check the URL, or create the study first",
    ),
    _Cause(
        (
            "access denied",
            "authentication failed",
            "insufficientprivilege",
            "no password supplied",
            "no pg_hba.conf entry",
            "permission denied",
        ),
        StorageError,
        "the database {url} does not permit this user ({detail}); check user, password and rights",
    ),
    _Cause(
        ("database is locked", "lock wait timeout"),
        StorageError,
        "the database {url} was locked by another process for {patience:.0f} seconds; end that "
        "process, or use a server instead of a file on a network file system",
    ),
)
_OTHER = _Cause(
    (), StorageError, "the database {url} cannot be used ({detail}); check the URL and the server"
)


def engine_options(url: str) -> dict[str, Any]:
    """Return what SQLAlchemy's `create_engine` needs: few connections, checked before use."""
    scheme = url.partition("://")[0]
    if sqlite_file(url) is not None:
        return {"connect_args": {"timeout": BUSY_TIMEOUT}}
    try:
        driver = sqlalchemy.make_url(url).get_driver_name()
    except SQLAlchemyError:
        driver = scheme  # named by `connecting`, which meets the same fault
    option = _TIMEOUT_OPTION.get(driver)
    return _SERVER_POOL | ({"connect_args": {option: CONNECT_TIMEOUT}} if option else {})


def create_directory(url: str) -> None:
    """Create the directory of a SQLite file.

    Raises:
        DiskError: if that is not possible.
    """
    file = sqlite_file(url)
    if file:
        try:
            Path(file).parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise DiskError(
                f"the directory of the database {hide_password(url)} cannot be created "
                f"({error.strerror}); give storage another path"
            ) from error


def persist(
    url: str, operation: Callable[[], T], *, patience: float = PATIENCE, creates: bool = False
) -> T:
    """Return what the operation returns; repeat it while its failure may pass by itself.

    An operation is repeated only if it leaves nothing behind when it fails, or the same when it is
    done twice. A violated constraint is not translated, because it answers a question; except when
    the operation ``creates`` tables, which means that another process does so at the same time.

    Raises:
        StorageError: if the database cannot be reached or used.
        DiskError: if it cannot be written.
    """
    end = time.monotonic() + patience
    for pause in _pauses():
        try:
            return operation()
        except HpsearchError:
            raise
        except Exception as error:
            fault = _fault_of(error)
            violated = isinstance(fault, IntegrityError)
            if fault is None or (violated and not creates):
                raise
            if not (violated or _is_transient(fault)) or time.monotonic() + pause > end:
                raise _translate(fault, url, patience) from error
        time.sleep(pause)
    raise AssertionError("the pauses never end")


def _pauses() -> Iterator[float]:
    pause = 0.02
    while True:
        # Spread, so that two processes that collided do not collide again.
        yield pause * random.uniform(0.5, 1.5)
        pause = min(2 * pause, 2.0)


def _fault_of(error: BaseException | None) -> Exception | None:
    """Return the database's own error, which Optuna wraps in others."""
    fault = None
    while error is not None:
        if isinstance(error, SQLAlchemyError | ImportError):
            fault = error
        error = error.__cause__
    return fault


def _is_transient(fault: Exception) -> bool:
    if not isinstance(fault, DBAPIError):
        return False
    return fault.connection_invalidated or any(word in _text(fault) for word in _TRANSIENT)


def _translate(fault: Exception, url: str, patience: float) -> HpsearchError:
    if isinstance(fault, ImportError):
        return StorageError(
            f"the driver of the database {hide_password(url)} is not installed "
            f"({fault.name or fault}); pip install psycopg[binary] for PostgreSQL, "
            f"PyMySQL for MySQL, and name it: postgresql+psycopg://, mysql+pymysql://"
        )
    if isinstance(fault, ArgumentError):  # also an unknown dialect
        return StorageError(
            f"{hide_password(url)!r} is no database URL that SQLAlchemy knows; write "
            f"sqlite:///file.db, postgresql+psycopg://user@host/name or mysql+pymysql://..."
        )
    text = _text(fault)
    cause = next((cause for cause in _CAUSES if any(word in text for word in cause.words)), _OTHER)
    sentence = cause.sentence.format(
        url=hide_password(url), detail=_detail(fault, url), patience=patience
    )
    return cause.error(sentence)


def _text(fault: Exception) -> str:
    original = fault.orig if isinstance(fault, DBAPIError) else fault
    return f"{type(original).__name__} {original}".lower()


def _detail(fault: Exception, url: str) -> str:
    """Return the first line of the driver's message, which may quote the URL."""
    original = fault.orig if isinstance(fault, DBAPIError) else fault
    line = str(original).strip().partition("\n")[0]
    secret = password(url)
    return line.replace(secret, "***") if secret else line
