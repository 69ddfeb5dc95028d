"""What users ask of a study's driver, through files: only the driver writes SQL.

A request lies in the study's folder until the driver has recorded it, however long that takes.
"""

import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Literal
from uuid import uuid4

from hpsearch.atomic import write_json
from hpsearch.cluster.record_file import read_record
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.schema import NonNegative

DAMAGED = ".damaged"
"""behind the name of a file that was no request"""

Verb = Literal["pause", "resume", "stop", "cancel", "retry"]


@dataclass(frozen=True)
class Request:
    """One wish of a user."""

    verb: Verb
    """pause: start nothing new; stop: nor end before what has begun is finished; cancel: end all at
    once; resume: go on; retry: try failed trials again, as new ones"""
    trials: tuple[NonNegative, ...] = ()
    """to retry"""
    id: str = field(default_factory=lambda: uuid4().hex)
    at: float = field(default_factory=time.time)
    """seconds since the epoch"""


def leave(folder: StudyDir, request: Request) -> None:
    """Leave a request for the driver.

    Raises:
        DiskError: if it cannot be written.
    """
    write_json(folder.request(request.id), asdict(request))


def waiting(folder: StudyDir) -> list[Request]:
    """Return the requests that the driver has not taken, the oldest first."""
    found = []
    for path in folder.requests.glob("*.json"):
        with suppress(CorruptError, DiskError):
            found.append(_read(folder, path))
    there = (request for request in found if request is not None)
    return sorted(there, key=lambda request: (request.at, request.id))


def put_aside(folder: StudyDir) -> list[str]:
    """Rename what lies among the requests and is none; return a sentence on each such file."""
    sentences = []
    for path in sorted(folder.requests.glob("*.json")):
        try:
            _read(folder, path)
        except CorruptError as error:
            aside = path.with_name(f"{path.name}{DAMAGED}")
            with suppress(OSError):  # in a folder that cannot be changed it stays, and is not heard
                path.replace(aside)
                sentences.append(f"{error}; it is not heard, and lies in {aside.name} now")
        except DiskError:
            continue  # a file system that is shared may fail for a moment
    return sentences


def _read(folder: StudyDir, path: Path) -> Request | None:
    """Return the request that a file holds, None if it was taken meanwhile.

    Raises:
        CorruptError: if the file holds none, or that of another name.
        DiskError: if it cannot be read.
    """
    request = read_record(Request, path)
    if request is not None and folder.request(request.id) != path:
        raise CorruptError(f"{path} holds the request {request.id!r}, which has another file")
    return request


def forget(folder: StudyDir, request: Request) -> None:
    """Remove a request that has been recorded."""
    folder.request(request.id).unlink(missing_ok=True)
