"""Database URLs: which are accepted, and how they are shown without their password."""

import re

DATABASES = ("sqlite", "postgresql", "mysql", "mariadb")

_SQLITE_FILE = re.compile(r"sqlite(?:\+\w+)?:///(?P<file>[^?]*)")
# Greedy up to the last @, so that a password with an unescaped @ is hidden as a whole.
_USER_AND_PASSWORD = re.compile(r"(?P<before>://[^:/@]*:)(?P<password>.*)(?P<after>@)", re.DOTALL)
_PASSWORD_OPTION = re.compile(
    r"(?P<before>[?&](?:\w*password|passwd|pwd)=)(?P<password>[^&]*)", re.IGNORECASE
)
_PORT = re.compile(r"(\[[^]]*\]|[^:]*)(:\d+)?")
"""of a server's host, which may be an IPv6 address in brackets, and its port"""
_HIDDEN = "***"


def password(url: str) -> str | None:
    """Return the password that stands in a URL."""
    for pattern in (_USER_AND_PASSWORD, _PASSWORD_OPTION):
        match = pattern.search(url)
        if match and match["password"]:
            return match["password"]
    return None


def hide_password(url: str) -> str:
    """Return the URL with *** for its password."""
    url = _USER_AND_PASSWORD.sub(rf"\g<before>{_HIDDEN}\g<after>", url)
    return _PASSWORD_OPTION.sub(rf"\g<before>{_HIDDEN}", url)


def sqlite_file(url: str) -> str | None:
    """Return the path of a SQLite file, empty if it is kept in memory; None for a server."""
    if url.partition("://")[0].partition("+")[0] != "sqlite":
        return None
    match = _SQLITE_FILE.match(url)
    path = match["file"] if match else ""
    return "" if path == ":memory:" else path


def url_problem(url: str) -> str | None:
    """Return why a URL names no database that can hold a study."""
    scheme, separator, _ = url.partition("://")
    if not separator or scheme.partition("+")[0] not in DATABASES:
        return (
            f"must be a database URL such as sqlite:///runs/studies.db "
            f"({', '.join(DATABASES)}), but is {hide_password(url)!r}"
        )
    place = url.partition("://")[2].partition("?")[0]
    if sqlite_file(url) is None and place.count("@") > 1:
        return f"must write an @ in a name or password as %40, but is {hide_password(url)!r}"
    if sqlite_file(url) is None and not _PORT.fullmatch(place.rpartition("@")[2].partition("/")[0]):
        return f"must have a number for a port, but is {hide_password(url)!r}"
    if sqlite_file(url) == "":
        return (
            f"must name a file that outlives the process, such as sqlite:///runs/studies.db "
            f"(three slashes, four for an absolute path), but is {hide_password(url)!r}"
        )
    return None
