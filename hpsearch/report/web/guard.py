"""Who may look: before a request reaches a page.

On a login node, every user reaches every port of the loopback interface, and what a study writes
is its owner's alone. So the address that is printed holds a token, for which the browser gets a
cookie. And only names under which a page is served are answered: a page elsewhere may let its own
name lead to this machine (DNS rebinding), and the browser then takes ours for a part of it.
"""

import hmac
import json
import re
import socket
from collections.abc import Iterable
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from ipaddress import ip_address
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, quote

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


NO_TOKEN: Final = (
    "open the address that hpsearch printed, with its token: on this machine, other "
    "users reach this port too"
)
WRONG_NAME: Final = (
    "this page is not served under the name in the address; open the address that hpsearch "
    "printed, or start it with the name as --host"
)
LOOPBACK: Final = ("127.0.0.1", "localhost", "::1")
EVERY_ADDRESS: Final = ("0.0.0.0", "::")

_HOST = re.compile(r"(?:\[([^\]\[,@\s]+)\]|([^\]\[:,@\s]+))(?::\d+)?")


@dataclass(frozen=True)
class Names:
    """The names under which a page is served: those of the loopback interface always."""

    said: str
    """name or address that the user gave"""
    bound: str
    """address that is listened on"""

    def contain(self, host: str) -> bool:
        """Return whether a page may be asked for by this header ``Host``, whatever its port.

        A tunnel has a port of its own. An address cannot be made to lead elsewhere, so where every
        address of the machine is listened on, any is right.
        """
        parts = _HOST.fullmatch(host)
        if parts is None:
            return False
        name = (parts[1] or parts[2]).lower()
        if name in (*LOOPBACK, self.said.lower(), self.bound):
            return True
        if self.bound not in EVERY_ADDRESS:
            return False
        return name == socket.gethostname().lower() or _is_address(name)


class Guard:
    """A WSGI application in front of another one, which only those see who have the token."""

    def __init__(self, inner: "WSGIApplication", *, token: str, cookie: str, names: Names) -> None:
        """Guard an application.

        Args:
            inner: what is guarded.
            token: that the printed address holds.
            cookie: name of the cookie; cookies know no ports, so it must differ from others'.
            names: under which it is served.
        """
        self._inner = inner
        self._token = token
        self._cookie = cookie
        self._names = names

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Answer a request, or let it through."""
        if not self._names.contain(environ.get("HTTP_HOST", "")):
            return refuse(start_response, WRONG_NAME)
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

    def _welcome(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Give the browser its cookie, and let it ask again without the token in the address."""
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        # The path was decoded: /\host would lead elsewhere, and an end of a line end the header.
        path = "/" + quote(environ.get("PATH_INFO", "").lstrip("/"), encoding="latin-1")
        start_response("303 See Other", [("Location", path), ("Set-Cookie", cookie)])
        return []


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def refuse(start_response: "StartResponse", reason: str) -> Iterable[bytes]:
    """Answer that something is forbidden, and why."""
    body = json.dumps({"reason": reason}).encode()
    headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]
    start_response("403 Forbidden", headers)
    return [body]
