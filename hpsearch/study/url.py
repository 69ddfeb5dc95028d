"""Database URLs and the token for Prometheus: what is accepted, and how secrets are kept.

URLs are shown without their password; a token stands in a private file or in the environment.
"""

import os
import re
import stat
from pathlib import Path
from typing import Final

from hpsearch.errors import DiskError, StorageError, UsageError
from hpsearch.files import open_file
from hpsearch.study.options import PrometheusOptions

FROM_ENVIRONMENT: Final = "env:"  # before the name of an environment variable that holds a secret

DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")

_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///(?P<file>[^?]*)")
# Greedy up to the last @, so that a password with an unescaped @ is hidden as a whole.
_USER_AND_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)(?P<password>.*)(?P<after>@)", re.DOTALL)
_PASSWORD_OPTION = re.compile(
    r"(?P<before>[?&](?:\w*password|passwd|pwd)=)(?P<password>[^&]*)", re.IGNORECASE
)
_PORT = re.compile(r"(\[[^]]*\]|[^:]*)(:\d+)?")  # of a host or an IPv6 address in brackets


def password(url: str) -> str | None:
    for pattern in (_USER_AND_PASSWORD, _PASSWORD_OPTION):
        match = pattern.search(url)
        if match and match["password"]:
            return match["password"]
    return None


def hide_password(url: str) -> str:
    url = _USER_AND_PASSWORD.sub(r"\g<before>***\g<after>", url)
    return _PASSWORD_OPTION.sub(r"\g<before>***", url)


def sqlite_file(url: str) -> str | None:
    """Return the path of a SQLite file, empty if it is kept in memory; None for a server."""
    if url.partition("://")[0].partition("+")[0] != "sqlite":
        return None
    match = _SQLITE_FILE.match(url)
    path = match["file"] if match else ""
    return "" if path == ":memory:" else path


def url_problem(url: str) -> str | None:
    """Return why a URL names no database that can hold a study."""
    scheme, separator, rest = url.partition("://")
    place, file = rest.partition("?")[0], sqlite_file(url)
    is_server, rule = file is None, None
    if not separator or scheme.partition("+")[0] not in DATABASES:
        rule = f"be a database URL such as sqlite:///runs/studies.db ({', '.join(DATABASES)})"
    elif is_server and place.count("@") > 1:
        rule = "write an @ in a name or password as %40"
    elif is_server and not _PORT.fullmatch(place.rpartition("@")[2].partition("/")[0]):
        rule = "have a number for a port"
    elif file == "":
        rule = (
            "name a file that outlives the process, such as sqlite:///runs/studies.db (three "
            "slashes, four for an absolute path)"
        )
    return None if rule is None else f"must {rule}, but is {hide_password(url)!r}"


def storage_url(name: str, storage: str) -> str:
    """Return a study's database URL; StorageError if its environment variable is unset or wrong."""
    if not storage.startswith(FROM_ENVIRONMENT):
        return storage
    variable = storage.removeprefix(FROM_ENVIRONMENT)
    url = os.environ.get(variable)
    if not url:
        raise StorageError(
            f"the database URL of study {name} stands in the environment variable "
            f"{variable}, which is not set; "
            f"export {variable}=postgresql+psycopg://user:password@host/name"
        )
    problem = url_problem(url)
    if problem:
        raise StorageError(f"the environment variable {variable} {problem}")
    return url


MAX_LENGTH: Final = 1024  # characters of a token


def read_token(options: PrometheusOptions, folder: Path) -> str | None:
    """Return the token, None where the metrics are for this machine alone and need none.

    Its file is named from ``folder``, that of the study file. A UsageError if a token is needed and
    there is none that a header can hold, a CorruptError or DiskError if its file cannot be read.
    """
    source = options.token
    if source is None:
        if options.is_local:
            return None
        raise UsageError(
            f"prometheus.host {options.host} is reached from other machines, so prometheus.token "
            "must name a file with a token, or env: and a variable; write one of these, or leave "
            "host out"
        )
    if source.startswith(FROM_ENVIRONMENT):
        variable = source.removeprefix(FROM_ENVIRONMENT)
        if not os.environ.get(variable):
            raise UsageError(
                f"prometheus.token names the environment variable {variable}, which is not set; "
                f"export {variable}=$(openssl rand -hex 32)"
            )
        token, place = os.environ[variable], f"the environment variable {variable}"
    else:
        token, place = _read_private(folder / source), str(folder / source)
    token = token.strip()
    if not (token.isascii() and token.isprintable() and 0 < len(token) <= MAX_LENGTH) or (
        " " in token
    ):
        raise UsageError(
            f"the token in {place} must be 1 to {MAX_LENGTH} letters, digits or signs without "
            f"spaces, but has {len(token)} characters that are not all such; write one by: "
            "openssl rand -hex 32"
        )
    return token


def _read_private(path: Path) -> str:
    """Return the beginning of a file, which only its owner may read."""
    try:
        with open_file(path) as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            text = file.read(2 * MAX_LENGTH).decode("latin-1")
    except OSError as error:
        raise DiskError(
            f"the token {path} cannot be read ({error.strerror}); write it, or give "
            "prometheus.token another path"
        ) from error
    if mode & 0o077:
        raise UsageError(
            f"the token {path} must be readable by its owner alone, but its mode is {mode:04o}; "
            f"run: chmod 600 {path}"
        )
    return text
