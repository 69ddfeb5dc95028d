"""Between Optuna's dashboard and the browser: what is refused, kept and added.

Nothing may be changed but notes. Of ten thousand trials, Optuna's dashboard makes thirty megabytes
anew every ten seconds; they are kept, and packed to a tenth. Files of a study are offered as
artifacts; the verdict stands above every page, and the chart of importances shows ours.
"""

import gzip
import html
import json
import mimetypes
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final
from uuid import NAMESPACE_URL, uuid5
from wsgiref.util import setup_testing_defaults

from optuna.artifacts.exceptions import ArtifactNotFound

from hpsearch.dashboard.server import Body, Headers, answer, answer_json, refuse
from hpsearch.errors import CorruptError, UsageError
from hpsearch.files import open_file
from hpsearch.study.view import StudyView

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


READING: Final = ("GET", "HEAD")
NOTE: Final = re.compile(r"/api/studies/\d+(/\d+)?/note/?")  # of the study, or of a trial
READ_ONLY: Final = (
    "this dashboard is read-only, so nothing was changed; hpsearch dashboard STUDY --write lets "
    "notes be written and the study be steered"
)
NOTES_ALONE: Final = (
    "nothing was changed: the dashboard writes notes alone, because only the driver changes a "
    "study and its trials; the buttons above each page ask it to, as hpsearch pause, stop, cancel, "
    "retry and enqueue do"
)


class ReadOnly:
    """A WSGI application in front of Optuna's dashboard that lets nothing be changed but notes."""

    def __init__(self, inner: "WSGIApplication", *, writes: bool) -> None:
        self._inner = inner
        self._writes = writes  # whether notes may be written

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        method, path = environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")
        is_note = method == "PUT" and NOTE.fullmatch(path) is not None
        if method in READING or (self._writes and is_note):
            return self._inner(environ, start_response)
        return refuse(start_response, NOTES_ALONE if self._writes else READ_ONLY)


STUDY: Final = re.compile(r"/api/studies/\d+/?")  # all that is known of a study
OK: Final = "200 OK"
PACKING: Final = 1  # gzip's least effort
SHARE: Final = 0.1  # of the time that may go into answering anew
MEMORY_SECONDS: Final = 10.0  # for which Optuna's dashboard remembers trials itself
MAX_REMEMBERED: Final = 8


@dataclass(frozen=True)
class CachedAnswer:
    made_at: float  # by the clock, when it began to be made
    seconds: float  # that this took
    status: str
    headers: Headers
    packed: bytes


@dataclass
class ResponseCache:
    inner: "WSGIApplication"
    changed_at: Callable[[], float]  # tells when what the dashboard shows has last changed
    clock: Callable[[], float] = time.monotonic
    _known: dict[str, CachedAnswer] = field(default_factory=dict, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        if environ["REQUEST_METHOD"] not in READING:
            answered = self.inner(environ, start_response)
            with self._lock:
                self._known = {}  # a note that was written is shown at once
            return answered
        is_study = environ["REQUEST_METHOD"] == "GET" and STUDY.fullmatch(environ["PATH_INFO"])
        if not is_study or "gzip" not in environ.get("HTTP_ACCEPT_ENCODING", ""):
            return self.inner(environ, start_response)
        kept = self._answer(environ)
        start_response(kept.status, kept.headers)
        return [kept.packed]

    def prepare(self, path: str) -> None:
        environ: dict[str, Any] = {"PATH_INFO": path, "QUERY_STRING": ""}
        setup_testing_defaults(environ)
        self._answer(environ)

    def _answer(self, environ: "WSGIEnvironment") -> CachedAnswer:
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

    def _holds(self, known: CachedAnswer) -> bool:
        is_new = self.clock() - known.made_at < known.seconds / SHARE
        return is_new or self.changed_at() < known.made_at - MEMORY_SECONDS

    def _ask(self, environ: "WSGIEnvironment") -> CachedAnswer:
        began = self.clock()
        status, headers, body = _collected(self.inner, environ)
        packed = gzip.compress(body, compresslevel=PACKING)
        headers += [("Content-Encoding", "gzip"), ("Content-Length", str(len(packed)))]
        return CachedAnswer(began, self.clock() - began, status, headers, packed)


def _collected(inner: "WSGIApplication", environ: "WSGIEnvironment") -> tuple[str, Headers, bytes]:
    """Return an answer's status, its headers without the length, and its body."""
    began: list[tuple[str, Headers]] = []

    def start_response(status: str, headers: Headers, _: Any = None) -> Callable[[bytes], object]:
        began.append((status, headers))
        return lambda body: None

    body = b"".join(inner(environ, start_response))
    status, headers = began[-1]
    return status, [header for header in headers if header[0].lower() != "content-length"], body


PAGE: Final = re.compile(r"/dashboard(/.*)?")
KEPT_BY_BROWSERS: Final = ("etag", "last-modified", "cache-control")
IMPORTANCES: Final = re.compile(r"/api/studies/\d+/param_importances/?")
ABOVE: Final = '<div style="position:relative;z-index:1;margin:64px 0 -64px">{}</div>'
"""between the dashboard's bar, 64 pixels that cover the top, and its menu, which covers the left"""
VERDICT: Final = (
    '<p style="margin:0;padding:10px 16px 10px 84px;font:15px/1.4 sans-serif;background:#fff7e0;'
    'color:#222">{}</p>'
)


@dataclass
class StudyConclusions:
    """A WSGI application that adds to Optuna's dashboard what we conclude."""

    inner: "WSGIApplication"
    verdict: str = ""  # stands above every page
    buttons: str = ""  # HTML that stands above it, where a study may be steered
    importances: Sequence[Sequence[dict[str, object]]] = ()
    """of each objective, as the dashboard draws them: name, importance and distribution"""

    def __call__(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Body:
        path = environ.get("PATH_INFO", "")
        if environ["REQUEST_METHOD"] != "GET":
            return self.inner(environ, start_response)
        if IMPORTANCES.fullmatch(path):
            return answer_json(start_response, OK, {"param_importances": self.importances})
        if PAGE.fullmatch(path):
            # A browser must not go on with a page that it has, as the verdict changes.
            fresh = {key: environ[key] for key in environ if not key.startswith("HTTP_IF_")}
            status, headers, body = _collected(self.inner, fresh)
            headers = [header for header in headers if header[0].lower() not in KEPT_BY_BROWSERS]
            verdict = VERDICT.format(html.escape(self.verdict)) if self.verdict else ""
            if above := self.buttons + verdict:
                body = body.replace(b"<body>", b"<body>" + ABOVE.format(above).encode(), 1)
            uncached = [*headers, ("Cache-Control", "no-store")]
            return answer(start_response, status, uncached, body)
        return self.inner(environ, start_response)


NUM_TRIALS: Final = 20  # whose files are offered: the best ones
PREFIX: Final = "artifacts:"  # as Optuna names the attributes that tell of artifacts
PLAIN: Final = (".yaml", ".jsonl", ".log")  # that a browser shows as text


class OfferedFiles:
    """An artifact store that holds what is offered, and takes nothing."""

    def __init__(self) -> None:
        self._paths: dict[str, Path] = {}  # by the names of files in the dashboard's addresses

    def offer(self, paths: Iterable[Path]) -> dict[str, str]:
        """Offer those files that exist; return the attributes by which the dashboard knows them."""
        files = filter(Path.is_file, paths)
        offered = {str(uuid5(NAMESPACE_URL, path.as_uri())): path for path in files}
        self._paths |= offered
        return {PREFIX + name: json.dumps(_artifact(name, path)) for name, path in offered.items()}

    def open_reader(self, artifact_id: str) -> BinaryIO:
        """Open a file; raises ArtifactNotFound if it is not offered, or gone."""
        try:
            return open_file(self._paths[artifact_id])
        except (KeyError, OSError, CorruptError) as error:
            raise ArtifactNotFound(f"no file {artifact_id} is offered any more") from error

    def write(self, artifact_id: str, content_body: BinaryIO) -> None:
        raise UsageError("the dashboard offers files for reading alone")

    def remove(self, artifact_id: str) -> None:
        raise UsageError("the dashboard offers files for reading alone")


def _artifact(name: str, path: Path) -> dict[str, str | None]:
    kind = "text/plain" if path.suffix in PLAIN else mimetypes.guess_type(path)[0]
    mimetype = kind or "application/octet-stream"
    return {"artifact_id": name, "filename": path.name, "mimetype": mimetype, "encoding": None}


def study_files(view: StudyView) -> list[Path]:
    paths = (view.study.path, view.folder.log, view.folder.confirmation)
    return [path.absolute() for path in paths]


def trial_files(view: StudyView) -> dict[int, list[Path]]:
    best = view.ranked(view.state.trials.values())[:NUM_TRIALS]
    numbers = [*view.state.population.archive[-1:], *(trial.number for trial in best)]
    folders = {number: view.folder.trial(number) for number in numbers}
    return {
        number: [files.config, files.metrics, files.result] for number, files in folders.items()
    }
