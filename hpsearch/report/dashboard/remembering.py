"""Remembers what the dashboard has answered about the study until something is new, and packs it.

Of ten thousand trials, Optuna's dashboard makes thirty megabytes anew for every browser, every ten
seconds, which takes it seconds. Packed, a tenth of that goes through an ssh tunnel.
"""

import gzip
import re
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from wsgiref.util import setup_testing_defaults

from hpsearch.report.dashboard.read_only import READING

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

STUDY: Final = re.compile(r"/api/studies/\d+/?")
"""where the dashboard asks for all that is known of a study"""
OK: Final = "200 OK"
PACKING: Final = 1
"""gzip's least effort"""
SHARE: Final = 0.1
"""of the time that may go into answering anew: what took long is shown for longer"""
MEMORY_SECONDS: Final = 10.0
"""for which Optuna's dashboard may itself answer with trials that it remembers"""
MAX_REMEMBERED: Final = 8


@dataclass(frozen=True)
class Answer:
    """What was answered."""

    made_at: float
    """by the clock, when it began to be made"""
    seconds: float
    """that this took"""
    status: str
    headers: list[tuple[str, str]]
    packed: bytes


class Remembering:
    """A WSGI application in front of another one."""

    def __init__(
        self,
        inner: "WSGIApplication",
        changed_at: Callable[[], float],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Stand before an application.

        Args:
            inner: the dashboard.
            changed_at: returns when what it shows has last changed, by the clock.
            clock: returns seconds.
        """
        self._inner = inner
        self._changed_at = changed_at
        self._clock = clock
        self._known: dict[str, Answer] = {}
        self._lock = threading.Lock()

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Answer a request."""
        if environ["REQUEST_METHOD"] not in READING:
            answer = self._inner(environ, start_response)
            with self._lock:
                self._known = {}  # a note that was written is shown at once
            return answer
        is_study = environ["REQUEST_METHOD"] == "GET" and STUDY.fullmatch(environ["PATH_INFO"])
        if not is_study or "gzip" not in environ.get("HTTP_ACCEPT_ENCODING", ""):
            return self._inner(environ, start_response)
        found = self._answer(environ)
        start_response(found.status, found.headers)
        return [found.packed]

    def prepare(self, path: str) -> None:
        """Make the answer for whoever will ask first."""
        environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": ""}
        setup_testing_defaults(environ)
        self._answer(environ)

    def _answer(self, environ: "WSGIEnvironment") -> Answer:
        """Return what is remembered, or ask; of those who ask the same at once, one does."""
        with self._lock:
            asked = environ["PATH_INFO"].rstrip("/") + "?" + environ.get("QUERY_STRING", "")
            known = self._known.pop(asked, None)
            if known is None or not self._holds(known):
                known = self._ask(environ)
            if known.status == OK:
                self._known[asked] = known  # the last one, so that the oldest comes first
            if len(self._known) > MAX_REMEMBERED:
                del self._known[next(iter(self._known))]
            return known

    def _holds(self, known: Answer) -> bool:
        """Return whether an answer would be the same now, or was too dear to be made anew."""
        if self._clock() - known.made_at < known.seconds / SHARE:
            return True
        return self._changed_at() < known.made_at - MEMORY_SECONDS

    def _ask(self, environ: "WSGIEnvironment") -> Answer:
        began = self._clock()
        status, headers, packed = _packed(self._inner, environ)
        return Answer(began, self._clock() - began, status, headers, packed)


def _packed(
    inner: "WSGIApplication", environ: "WSGIEnvironment"
) -> tuple[str, list[tuple[str, str]], bytes]:
    """Return the answer of an application: status, headers and body."""
    began: list[tuple[str, list[tuple[str, str]]]] = []

    def start_response(
        status: str, headers: list[tuple[str, str]], exc_info: Any = None
    ) -> Callable[[bytes], object]:
        began.append((status, headers))
        return lambda body: None

    body = b"".join(inner(environ, start_response))
    status, headers = began[-1]
    kept = [one for one in headers if one[0].lower() != "content-length"]
    packed = gzip.compress(body, compresslevel=PACKING)
    length = ("Content-Length", str(len(packed)))
    return status, [*kept, ("Content-Encoding", "gzip"), length], packed
