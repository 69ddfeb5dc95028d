"""What the errors of database drivers mean: away, busy, or wrong, and the sentence for each."""

from dataclasses import dataclass
from urllib.parse import unquote

from sqlalchemy.exc import ArgumentError, DBAPIError

from hpsearch.errors import DiskError, HpsearchError, StorageError, StorageUnavailableError
from hpsearch.study.url import hide_password, password

_AWAY = (
    "connection refused",
    "connection reset",
    "connection timed out",
    "connection timeout expired",
    "timeout expired",
    "no route to host",
    "network is unreachable",
    "broken pipe",
    "server closed the connection",
    "the connection is lost",
    "terminating connection",
    "database system is",  # starting up, shutting down, in recovery, not yet accepting connections
    "could not translate host name",
    "failed to resolve host",
    "name or service not known",
    "temporary failure in name resolution",
    "can't connect to mysql server",
    "server has gone away",
    "lost connection",
    "server shutdown in progress",
    "connection was killed",
    "too many connections",
    "too many clients",
    "remaining connection slots",
)
_BUSY = (
    "database is locked",
    "database table is locked",
    "deadlock",
    "could not serialize access",
    "lock wait timeout",
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
        (" does not exist", "unknown database"),
        StorageError,
        "the server of {url} has no such database or user ({detail}); create it first, or check "
        "the URL",
    ),
    _Cause(
        ("database is locked", "lock wait timeout"),
        StorageUnavailableError,
        "the database {url} was locked by another process for {patience:.0f} seconds; end that "
        "process, or use a server instead of a file on a network file system",
    ),
)
_UNAVAILABLE = _Cause(
    _AWAY,
    StorageUnavailableError,
    "the database {url} cannot be used now ({detail}); check the URL and the server, then run the "
    "same command again",
)
_OTHER = _Cause(
    (), StorageError, "the database {url} cannot be used ({detail}); check the URL and the server"
)


def is_away(fault: Exception) -> bool:
    """Return whether an error of the database means that its server is away or the line cut."""
    if not isinstance(fault, DBAPIError):
        return False
    return fault.connection_invalidated or any(word in _text(fault) for word in _AWAY)


def passes(fault: Exception) -> bool:
    """Return whether an error may pass by itself."""
    busy = isinstance(fault, DBAPIError) and any(word in _text(fault) for word in _BUSY)
    return busy or is_away(fault)


def translate(fault: Exception, url: str, patience: float) -> HpsearchError:
    """Return what a user gets for an error that lasted for ``patience`` seconds."""
    if isinstance(fault, ImportError):
        return StorageError(
            f"the driver of the database {hide_password(url)} is not installed "
            f"({fault.name or fault}); pip install 'hpsearch[postgresql]' and name it "
            f"postgresql+psycopg://, or pip install 'hpsearch[mysql]' and name it mysql+pymysql://"
        )
    if isinstance(fault, ArgumentError):  # also an unknown dialect
        return StorageError(
            f"{hide_password(url)!r} is no database URL that SQLAlchemy knows; write "
            f"sqlite:///file.db, postgresql+psycopg://user@host/name or mysql+pymysql://..."
        )
    cause = _cause(fault)
    sentence = cause.sentence.format(
        url=hide_password(url), detail=_detail(fault, url), patience=patience
    )
    return cause.error(sentence)


def _cause(fault: Exception) -> _Cause:
    if is_away(fault):
        return _UNAVAILABLE
    text = _text(fault)
    return next((cause for cause in _CAUSES if any(word in text for word in cause.words)), _OTHER)


def _text(fault: Exception) -> str:
    original = fault.orig if isinstance(fault, DBAPIError) else fault
    return f"{type(original).__name__} {original}".lower()


def _detail(fault: Exception, url: str) -> str:
    """Return the first line of the driver's message, which may quote the URL."""
    original = fault.orig if isinstance(fault, DBAPIError) else fault
    line = str(original).strip().partition("\n")[0]
    secret = password(url)
    for written in (secret, unquote(secret)) if secret else ():
        line = line.replace(written, "***")
    return line
