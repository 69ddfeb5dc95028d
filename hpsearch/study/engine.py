"""Connects to databases: retries temporary failures, and gives each error a sentence.

A server that is away, or a lock, is waited for with growing pauses, for PATIENCE seconds; then it
is a `StorageUnavailableError`, which `recorder.Outage` waits out. All other errors are not retried.
"""

import random
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote

import sqlalchemy
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import ArgumentError, DBAPIError, IntegrityError, SQLAlchemyError

from hpsearch.errors import DiskError, HpsearchError, StorageError, StorageUnavailableError
from hpsearch.study.url import hide_password, password, sqlite_file

_AWAY = re.compile(
    "connection refused|connection reset|connection timed out|timeout expired|broken pipe"
    "|no route to host|network is unreachable|server closed the connection"
    "|the connection is lost|lost connection|terminating connection|connection was killed"
    # Starting up, shutting down, in recovery, not yet accepting connections.
    "|database system is|server shutdown in progress|server has gone away"
    "|can't connect to mysql server|could not translate host name|failed to resolve host"
    "|name or service not known|temporary failure in name resolution"
    "|too many connections|too many clients|remaining connection slots"
)
_BUSY = re.compile(
    "database is locked|database table is locked|deadlock|could not serialize access"
    "|lock wait timeout|already exists"  # another process creates the tables at the same time
)

_CAUSES: dict[str, tuple[type[HpsearchError], str]] = {
    "database or disk is full|no space left|disk full|could not extend file": (
        DiskError,
        "the disk of the database {url} is full; free some space and run the command again",
    ),
    "readonly database|read-only": (
        DiskError,
        "the database {url} can be read but not written; check the permissions of its file, "
        "its directory or its role",
    ),
    "disk i/o error": (
        DiskError,
        "the disk or network file system of the database {url} failed; check it, or keep the "
        "database on a local disk or a server",
    ),
    "file is not a database|malformed": (
        StorageError,
        "the file of {url} is no intact SQLite database; restore it from a copy, or give storage "
        "another file",
    ),
    "unable to open database file": (
        StorageError,
        "the database file of {url} cannot be opened; check that it is a file and its permissions",
    ),
    "no such table|doesn't exist|undefinedtable|unknown table": (
        StorageError,
        "the database {url} holds no study of hpsearch; check the URL, or create the study first",
    ),
    "access denied|authentication failed|insufficientprivilege|no password supplied"
    "|no pg_hba.conf entry|permission denied": (
        StorageError,
        "the database {url} does not permit this user ({detail}); check user, password and rights",
    ),
    " does not exist|unknown database": (
        StorageError,
        "the server of {url} has no such database or user ({detail}); create it first, or check "
        "the URL",
    ),
    "database is locked|lock wait timeout": (
        StorageUnavailableError,
        "the database {url} was locked by another process for {patience:.0f} seconds; end that "
        "process, or use a server instead of a file on a network file system",
    ),
    "": (
        StorageError,
        "the database {url} cannot be used ({detail}); check the URL and the server",
    ),
}
"""by a pattern of a driver's message: the error that a user gets for it, and its sentence"""


def is_away(fault: Exception) -> bool:
    if not isinstance(fault, DBAPIError):
        return False
    return fault.connection_invalidated or _AWAY.search(_text(fault)) is not None


def _passes(fault: Exception) -> bool:
    is_busy = isinstance(fault, DBAPIError) and _BUSY.search(_text(fault)) is not None
    return is_busy or is_away(fault)


def _translated(fault: Exception, url: str, patience: float) -> HpsearchError:
    """Return what a user gets for an error that lasted for ``patience`` seconds."""
    shown = hide_password(url)
    if isinstance(fault, ImportError):
        return StorageError(
            f"the driver of the database {shown} is not installed "
            f"({fault.name or fault}); pip install 'hpsearch[postgresql]' and name it "
            f"postgresql+psycopg://, or pip install 'hpsearch[mysql]' and name it mysql+pymysql://"
        )
    if isinstance(fault, ArgumentError):  # also an unknown dialect
        return StorageError(
            f"{shown!r} is no database URL that SQLAlchemy knows; write "
            f"sqlite:///file.db, postgresql+psycopg://user@host/name or mysql+pymysql://..."
        )
    # The first line of the driver's message, without the password that it may quote.
    detail = str(_original(fault)).strip().partition("\n")[0]
    secret = password(url)
    for written in (secret, unquote(secret)) if secret else ():
        detail = detail.replace(written, "***")
    if is_away(fault):
        return StorageUnavailableError(
            f"the database {shown} cannot be used now ({detail}); check the URL and the server, "
            "then run the same command again"
        )
    text = _text(fault)
    causes = (cause for pattern, cause in _CAUSES.items() if re.search(pattern, text))
    error, sentence = next(causes)
    return error(sentence.format(url=shown, detail=detail, patience=patience))


def _text(fault: Exception) -> str:
    original = _original(fault)
    return f"{type(original).__name__} {original}".lower()


def _original(fault: Exception) -> BaseException | None:
    return fault.orig if isinstance(fault, DBAPIError) else fault


T = TypeVar("T")

PATIENCE = 30.0  # seconds for which an operation is repeated
FIRST_PATIENCE = 5.0  # seconds for which the first connection is tried, since its URL may be wrong
BUSY_TIMEOUT = 10.0  # seconds for which SQLite waits for another process to finish writing
CONNECT_TIMEOUT = 10  # seconds for which a server may keep a connection waiting
SILENCE = 60  # seconds after which a server that acknowledges nothing counts as gone

_SERVER_POOL = {"pool_pre_ping": True, "pool_size": 1, "max_overflow": 2}
# A network that drops everything ends no connection; without these, a question waits for hours.
_LIBPQ = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
    "tcp_user_timeout": SILENCE * 1000,
}
_MYSQL = {"connect_timeout": CONNECT_TIMEOUT, "read_timeout": SILENCE, "write_timeout": SILENCE}
# The drivers do not agree on the names of the options.
_TIMEOUTS: dict[str, dict[str, int]] = {
    **dict.fromkeys(("psycopg", "psycopg2"), _LIBPQ),
    **dict.fromkeys(("mysqldb", "pymysql"), _MYSQL),
    "pg8000": {"timeout": CONNECT_TIMEOUT},
    "mysqlconnector": {"connection_timeout": CONNECT_TIMEOUT},
}


def engine_options(url: str) -> dict[str, Any]:
    """Return what SQLAlchemy's `create_engine` needs: few connections, checked before use."""
    if sqlite_file(url) is not None:
        return {"connect_args": {"timeout": BUSY_TIMEOUT}}
    try:
        timeouts = _TIMEOUTS.get(sqlalchemy.make_url(url).get_driver_name())
    except SQLAlchemyError:  # `create_engine` meets the same fault, and explains it
        timeouts = None
    return _SERVER_POOL | ({"connect_args": dict(timeouts)} if timeouts else {})


def create_directory(url: str) -> None:
    """Create the directory of a SQLite file; a DiskError if that is not possible."""
    if file := sqlite_file(url):
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
    Other failures are raised as `HpsearchError`s with a sentence for users.
    """
    end, pause = time.monotonic() + patience, 0.02
    while True:
        # Spread, so that two processes that collided do not collide again.
        wait = pause * random.uniform(0.5, 1.5)
        try:
            return operation()
        except HpsearchError:
            raise
        except Exception as error:
            fault = _fault_of(error)
            violated = isinstance(fault, IntegrityError)
            if fault is None or (violated and not creates):
                raise
            if not (violated or _passes(fault)) or time.monotonic() + wait > end:
                raise _translated(fault, url, patience) from error
        time.sleep(wait)
        pause = min(2 * pause, 2.0)


def show_lost_connections(engine: Engine) -> None:
    """Let a lost connection reach `persist`: libraries would repeat what may have arrived."""

    def show(context: ExceptionContext) -> None:
        fault = context.sqlalchemy_exception
        if fault is not None and is_away(fault) and not context.is_pre_ping:
            raise _LostConnectionError(fault)

    event.listen(engine, "handle_error", show)


class _LostConnectionError(Exception):
    def __init__(self, fault: Exception) -> None:
        super().__init__(fault)
        self.fault = fault


def _fault_of(error: BaseException | None) -> Exception | None:
    """Return the database's own error, which Optuna wraps in others."""
    fault = None
    while error is not None:
        if isinstance(error, _LostConnectionError):
            return error.fault
        if isinstance(error, SQLAlchemyError | ImportError):
            fault = error
        error = error.__cause__
    return fault
