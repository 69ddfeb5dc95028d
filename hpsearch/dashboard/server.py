"""Answers browsers on a port, each request in a thread, and decides who may look.

On a login node, every user reaches every port of the loopback interface, and what a study writes
is its owner's alone. So the address that is printed holds a token, for which the browser gets a
cookie. And only names under which a page is served are answered: a page elsewhere may let its own
name lead to this machine (DNS rebinding), and the browser then takes ours for a part of it.
"""

import errno
import hmac
import json
import re
import socket
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from ipaddress import ip_address
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, quote
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from hpsearch.errors import UsageError

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


Body = Iterable[bytes]
Headers = list[tuple[str, str]]
LAST_PORT: Final = 65535
NEXT_PORTS: Final = 100  # that are tried after one that is taken


class Server(ThreadingMixIn, WSGIServer):
    """A server for one person, whose slow request keeps no other waiting."""

    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, host: str, port: int) -> None:
        known = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # Of a name with addresses of both kinds, such as localhost, the older kind is served.
        self.address_family = min(family for family, *_ in known)
        super().__init__((host, port), QuietHandler)

    def server_bind(self) -> None:
        """Take the port; the machine's full name, which may take seconds to find, is not asked."""
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()[:2]
        self.server_address = (host, port)
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()


class QuietHandler(WSGIRequestHandler):
    def log_message(self, format: str, *arguments: Any) -> None:
        pass


def bind(host: str, port: int) -> Server:
    """Return a server on a port (0: any), or on the next free one; UsageError if there is none."""
    if port > LAST_PORT:
        raise UsageError(f"a port is 0 to {LAST_PORT}, got {port}; give --port 0 for any")
    last = port if port == 0 else min(port + NEXT_PORTS, LAST_PORT)
    for candidate in range(port, last + 1):
        try:
            return Server(host, candidate)
        except (socket.gaierror, PermissionError, UnicodeError) as error:
            raise UsageError(
                f"{host}:{candidate} cannot be served ({error}); give another"
            ) from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UsageError(
                    f"{host} is no address of this machine ({error.strerror}); leave --host out, "
                    "or give one of its addresses"
                ) from error
    raise UsageError(f"ports {port} to {last} of {host} are taken; give --port 0 for any other")


@contextmanager
def serving(server: Server, application: "WSGIApplication") -> Iterator[None]:
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


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

    said: str  # name or address that the user gave
    bound: str  # address that is listened on

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
        self._inner = inner
        self._token = token
        self._cookie = cookie  # its name; cookies know no ports, so each dashboard has another
        self._names = names

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        if not self._names.contain(environ.get("HTTP_HOST", "")):
            return refuse(start_response, WRONG_NAME)
        query = parse_qs(environ.get("QUERY_STRING", ""))
        if self._is_token(query.get("token", [""])[0]):
            return self._welcome(environ, start_response)
        if not self._has_cookie(environ):
            return refuse(start_response, NO_TOKEN)
        return self._inner(environ, start_response)

    def _has_cookie(self, environ: "WSGIEnvironment") -> bool:
        # By hand: SimpleCookie gives up at the first cookie, of any program here, that it dislikes.
        cookies = [part.partition("=") for part in environ.get("HTTP_COOKIE", "").split(";")]
        said = [value.strip() for name, _, value in cookies if name.strip() == self._cookie]
        return any(map(self._is_token, said))

    def _is_token(self, said: str) -> bool:
        return hmac.compare_digest(said.encode(), self._token.encode())

    def _welcome(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        """Give the browser its cookie, and let it ask again without the token in the address."""
        cookie = f"{self._cookie}={self._token}; Path=/; HttpOnly; SameSite=Strict"
        # The path was decoded: /\host would lead elsewhere, and an end of a line end the header.
        path = "/" + quote(environ.get("PATH_INFO", "").lstrip("/"), encoding="latin-1")
        start_response("303 See Other", [("Location", path), ("Set-Cookie", cookie)])
        return []


def _is_address(name: str) -> bool:
    with suppress(ValueError):
        ip_address(name)
        return True
    return False


def refuse(start_response: "StartResponse", reason: str) -> Body:
    return answer_json(start_response, "403 Forbidden", {"reason": reason})


def answer_json(start_response: "StartResponse", status: str, data: object) -> Body:
    headers = [("Content-Type", "application/json")]
    return answer(start_response, status, headers, json.dumps(data).encode())


def answer(start_response: "StartResponse", status: str, headers: Headers, body: bytes) -> Body:
    start_response(status, [*headers, ("Content-Length", str(len(body)))])
    return [body]
