"""What users ask of a study's driver, through files: only the driver writes SQL.

A request lies in the study's folder until the driver has recorded it, however long that takes.
"""

import time
from dataclasses import asdict, dataclass, field
from typing import Literal
from uuid import uuid4

from hpsearch.atomic import read_json, write_json
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import NonNegative, read

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
    """Return the requests that the driver has not taken, the oldest first.

    A file that is no request, or another one's, is not heard and stays, for whoever wonders.
    """
    found = []
    for path in folder.requests.glob("*.json"):
        try:
            request = read(Request, read_json(path), source=str(path))
        except (ConfigError, CorruptError, DiskError):
            continue
        if folder.request(request.id) == path:
            found.append(request)
    return sorted(found, key=lambda request: (request.at, request.id))


def forget(folder: StudyDir, request: Request) -> None:
    """Remove a request that has been recorded."""
    folder.request(request.id).unlink(missing_ok=True)
