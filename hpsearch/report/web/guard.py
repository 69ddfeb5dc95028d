"""Who may look: before a request reaches a page.

On a login node, every user reaches every port of the loopback interface, and what a study writes
is its owner's alone. So the address that is printed holds a token, for which the browser gets a
cookie.
"""

import hmac
import json
from collections.abc import Iterable
from http.cookies import CookieError, SimpleCookie
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

    Answer = Iterable[bytes]

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
            return refuse(start_response, NO_TOKEN)
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


def refuse(start_response: "StartResponse", reason: str) -> "Answer":
    """Answer that something is forbidden, and why."""
    body = json.dumps({"reason": reason}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("403 Forbidden", headers)
    return [body]
