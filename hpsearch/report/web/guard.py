"""Who may look, and what may be changed: before a request reaches a dashboard.

On a login node, every user reaches every port of the loopback interface, and what a study writes
is its owner's alone. So the address that is printed holds a token, for which the browser gets a
cookie.
"""

import hmac
import json
import re
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    Answer = Iterable[bytes]

READING: Final = ("GET", "HEAD")
NOTE: Final = re.compile(r"/api/studies/\d+(/\d+)?/note/?")
"""where the dashboard writes a note: of the study, or of a trial"""
READ_ONLY: Final = (
    "this dashboard is read-only, so nothing was changed; hpsearch dashboard STUDY --write lets "
    "notes be written"
)
NOTES_ALONE: Final = (
    "nothing was changed: the dashboard writes notes alone, because only the driver changes a "
    "study and its trials; see hpsearch pause, stop, cancel and retry"
)
NO_TOKEN: Final = (
    "open the address that hpsearch printed, with its token: on this machine, other "
    "users reach this port too"
)


class Guard:
    """A WSGI application in front of another one, which only those see who have the token."""

    def __init__(self, inner: "WSGIApplication", *, token: str, cookie: str) -> None:
        """Guard an application.

        Args:
            inner: what is guarded.
            token: that the printed address holds.
            cookie: name of the cookie; cookies know no ports, so it must differ from others'.
        """
        self._inner = inner
        self._token = token
        self._cookie = cookie

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "Answer":
        """Answer a request, or let it through."""
        query = parse_qs(environ.get("QUERY_STRING", ""))
        if self._is_token(query.get("token", [""])[0]):
            return self._welcome(environ, start_response)
        if not self._is_token(self._shown(environ)):
            return _refuse(start_response, NO_TOKEN)
        return self._inner(environ, start_response)

    def _shown(self, environ: "WSGIEnvironment") -> str:
        """Return the token that the browser's cookie holds, empty if there is none."""
        try:
            cookies = SimpleCookie(environ.get("HTTP_COOKIE", ""))
        except CookieError:
            return ""
        return cookies[self._cookie].value if self._cookie in cookies else ""

    def _is_token(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), self._token.encode())

    def _welcome(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "Answer":
        """Give the browser its cookie, and let it ask again without the token in the address."""
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        path = "/" + environ.get("PATH_INFO", "").lstrip("/")  # //host would lead elsewhere
        start_response("303 See Other", [("Location", path), ("Set-Cookie", cookie)])
        return []


class ReadOnly:
    """A WSGI application in front of Optuna's dashboard that lets nothing be changed but notes."""

    def __init__(self, inner: "WSGIApplication", *, writes: bool) -> None:
        """Guard the dashboard; ``writes`` says whether notes may be written."""
        self._inner = inner
        self._writes = writes

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> "Answer":
        """Answer a request, or let it through."""
        if not self._may(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")):
            return _refuse(start_response, NOTES_ALONE if self._writes else READ_ONLY)
        return self._inner(environ, start_response)

    def _may(self, method: str, path: str) -> bool:
        if method in READING:
            return True
        return self._writes and method == "PUT" and NOTE.fullmatch(path) is not None


def _refuse(start_response: "StartResponse", reason: str) -> "Answer":
    body = json.dumps({"reason": reason}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("403 Forbidden", headers)
    return [body]
