"""Answers browsers on a port, each request in a thread of its own."""

import errno
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any, Final
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from hpsearch.errors import UsageError

if TYPE_CHECKING:
    from _typeshed.wsgi import WSGIApplication

LAST_PORT: Final = 65535
NEXT_PORTS: Final = 100
"""that are tried after one that is taken"""


class Server(ThreadingMixIn, WSGIServer):
    """A server for one person, whose slow request keeps no other waiting."""

    daemon_threads = True
    allow_reuse_address = True

    def server_bind(self) -> None:
        """Take the port; the machine's full name, which may take seconds to find, is not asked."""
        self.socket.bind(self.server_address)
        host, port = self.socket.getsockname()[:2]
        self.server_address = (host, port)
        self.server_name, self.server_port = str(host), int(port)
        self.setup_environ()


class QuietHandler(WSGIRequestHandler):
    """Says nothing of each request."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Say nothing."""


def bind(host: str, port: int) -> Server:
    """Return a server on a port, or on the next one that is free; 0 stands for any.

    Raises:
        UsageError: if there is none, or this machine has no such address.
    """
    if port > LAST_PORT:
        raise UsageError(f"a port is 0 to {LAST_PORT}, got {port}; give --port 0 for any")
    last = port if port == 0 else min(port + NEXT_PORTS, LAST_PORT)
    for one in range(port, last + 1):
        try:
            return Server((host, one), QuietHandler)
        except (socket.gaierror, PermissionError, OverflowError) as error:
            raise UsageError(f"{host}:{one} cannot be served ({error}); give another") from error
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise UsageError(
                    f"{host} is no address of this machine ({error.strerror}); leave --host out, "
                    "or give one of its addresses"
                ) from error
    raise UsageError(f"ports {port} to {last} of {host} are taken; give --port 0 for any other")


@contextmanager
def serving(server: Server, application: "WSGIApplication") -> Iterator[None]:
    """Answer requests while the block runs."""
    server.set_app(application)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
