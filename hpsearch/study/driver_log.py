"""The driver's log: a line for everything that happened, for people to read afterwards."""

import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from hpsearch.errors import unwritten
from hpsearch.printable import printable
from hpsearch.study.events import NewEvent


class DriverLog:
    """Appends a line for every event to a file, opened at the first one."""

    def __init__(self, path: Path) -> None:
        """Log to ``path``."""
        self._path = path
        self._file: Any = None

    def __enter__(self) -> Self:
        """Return the log."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()

    def write(self, event: NewEvent) -> None:
        """Log one event.

        Raises:
            DiskError: if the file cannot be written.
        """
        self._append(line(event))

    def note(self, sentence: str) -> None:
        """Log something else that people should know.

        Raises:
            DiskError: if the file cannot be written.
        """
        self._append(line(NewEvent("note", time.time(), data={"message": sentence})))

    def _append(self, text: str) -> None:
        try:
            if self._file is None:
                self._path.parent.mkdir(parents=True, exist_ok=True)
                self._file = self._path.open("a", encoding="utf-8", buffering=1)
            self._file.write(text + "\n")
        except OSError as error:
            raise unwritten(self._path, error) from error


def line(event: NewEvent) -> str:
    """Return an event as one line: when, what, which trial and job, details."""
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(event.at))
    which = [
        f"{name} {value}"
        for name, value in (("trial", event.trial), ("attempt", event.attempt), ("job", event.job))
        if value is not None
    ]
    details = [f"{k}={v}" for k, v in event.data.items() if k in SHOWN and v not in (None, "")]
    return printable(" ".join(" ".join([when, event.kind, *which, *details]).splitlines()))


SHOWN = ("status", "state", "kind", "step", "value", "failure", "message", "id")
