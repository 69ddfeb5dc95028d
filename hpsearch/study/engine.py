"""The one place that connects to databases and repeats what passes by itself; see `faults`.

What passes by itself is repeated for PATIENCE seconds with growing pauses. A database that is still
away then is a `StorageUnavailableError`, which `outage` waits out; everything else is wrong and
stays wrong until somebody changes it.
"""

import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy
from sqlalchemy import Engine, event
from sqlalchemy.engine import ExceptionContext
from sqlalchemy.exc import IntegrityError, SQLAlchemyError

from hpsearch.errors import DiskError, HpsearchError
from hpsearch.study.faults import is_away, passes, translate
from hpsearch.study.url import hide_password, sqlite_file

T = TypeVar("T")

PATIENCE = 30.0
"""seconds for which an operation is repeated"""
FIRST_PATIENCE = 5.0
"""seconds for which the first connection is tried, since its URL may be wrong"""
BUSY_TIMEOUT = 10.0
"""seconds for which SQLite waits for another process to finish writing"""
CONNECT_TIMEOUT = 10
"""seconds for which a server may keep a connection waiting"""
SILENCE = 60
"""seconds after which a server that acknowledges nothing counts as gone"""

_SERVER_POOL = {"pool_pre_ping": True, "pool_size": 1, "max_overflow": 2}
# A network that drops everything ends no connection; without these, a question waits for hours.
_LIBPQ = {
    "connect_timeout": CONNECT_TIMEOUT,
    "keepalives_idle": 20,
    "keepalives_interval": 10,
    "keepalives_count": 4,
    "tcp_user_timeout": SILENCE * 1000,
}
_MYSQL = {
    "connect_timeout": CONNECT_TIMEOUT,
    "read_timeout": SILENCE,
    "write_timeout": SILENCE,
}
# The drivers do not agree on the names of the options.
_TIMEOUTS: dict[str, dict[str, int]] = {
    "psycopg": _LIBPQ,
    "psycopg2": _LIBPQ,
    "pg8000": {"timeout": CONNECT_TIMEOUT},
    "mysqldb": _MYSQL,
    "pymysql": _MYSQL,
    "mysqlconnector": {"connection_timeout": CONNECT_TIMEOUT},
}


def engine_options(url: str) -> dict[str, Any]:
    """Return what SQLAlchemy's `create_engine` needs: few connections, checked before use."""
    scheme = url.partition("://")[0]
    if sqlite_file(url) is not None:
        return {"connect_args": {"timeout": BUSY_TIMEOUT}}
    try:
        driver = sqlalchemy.make_url(url).get_driver_name()
    except SQLAlchemyError:
        driver = scheme  # named by `connecting`, which meets the same fault
    timeouts = _TIMEOUTS.get(driver)
    return _SERVER_POOL | ({"connect_args": dict(timeouts)} if timeouts else {})


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
        StorageUnavailableError: if the database stayed away or locked.
        StorageError: if it cannot be used.
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
            if not (violated or passes(fault)) or time.monotonic() + pause > end:
                raise translate(fault, url, patience) from error
        time.sleep(pause)
    raise AssertionError("the pauses never end")


def show_lost_connections(engine: Engine) -> None:
    """Let a lost connection reach `persist` past libraries that repeat what failed.

    They would do so without asking whether the first time had arrived.
    """

    def show(context: ExceptionContext) -> None:
        fault = context.sqlalchemy_exception
        if fault is not None and is_away(fault) and not context.is_pre_ping:
            raise _LostConnectionError(fault)

    event.listen(engine, "handle_error", show)


class _LostConnectionError(Exception):
    """Carries SQLAlchemy's error past handlers of SQLAlchemy's errors."""

    def __init__(self, fault: Exception) -> None:
        super().__init__(fault)
        self.fault = fault


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
        if isinstance(error, _LostConnectionError):
            return error.fault
        if isinstance(error, SQLAlchemyError | ImportError):
            fault = error
        error = error.__cause__
    return fault
