"""What may be changed through Optuna's dashboard: nothing but notes."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hpsearch.report.web.guard import refuse

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment


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


class ReadOnly:
    """A WSGI application in front of Optuna's dashboard that lets nothing be changed but notes."""

    def __init__(self, inner: "WSGIApplication", *, writes: bool) -> None:
        """Guard the dashboard; ``writes`` says whether notes may be written."""
        self._inner = inner
        self._writes = writes

    def __call__(
        self, environ: "WSGIEnvironment", start_response: "StartResponse"
    ) -> Iterable[bytes]:
        """Answer a request, or let it through."""
        if not self._may(environ["REQUEST_METHOD"], environ.get("PATH_INFO", "")):
            return refuse(start_response, NOTES_ALONE if self._writes else READ_ONLY)
        return self._inner(environ, start_response)

    def _may(self, method: str, path: str) -> bool:
        if method in READING:
            return True
        return self._writes and method == "PUT" and NOTE.fullmatch(path) is not None
