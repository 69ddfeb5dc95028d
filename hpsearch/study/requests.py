"""Files between users and a driver: what users ask for, its process, its notes."""

import fcntl
import os
import re
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import psutil

from hpsearch.cluster.record_files import RecordFile, read_record
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import write_json
from hpsearch.schema import NonNegative

DAMAGED = ".damaged"  # behind the name of a file that was no request

Verb = Literal["pause", "resume", "stop", "cancel", "retry", "enqueue"]


@dataclass(frozen=True)
class Request:
    """What a user asks for, which lies in the study's folder until the driver has recorded it."""

    verb: Verb
    """pause: start nothing new; stop: nor end before what has begun is finished; cancel: end all at
    once; resume: go on; retry: try failed trials again, as new ones; enqueue: try given values"""
    trials: tuple[NonNegative, ...] = ()  # to retry
    kinds: tuple[str, ...] = ()  # of failure to retry, also if the driver has yet to see it
    params: dict[str, Any] = field(default_factory=dict)  # to try, by path; others are suggested
    id: str = field(default_factory=lambda: uuid4().hex)
    at: float = field(default_factory=time.time)  # seconds since the epoch


def leave(folder: StudyDir, request: Request) -> None:
    """Leave a request for the driver; a DiskError if it cannot be written."""
    record = asdict(request)
    for later in ("kinds", "params"):  # keys that older drivers do not know
        if not record[later]:
            del record[later]
    write_json(folder.request(request.id), record)


def waiting(folder: StudyDir) -> list[Request]:
    requests = []
    for path in folder.requests.glob("*.json"):
        with suppress(CorruptError, DiskError):
            if (request := _read(folder, path)) is not None:
                requests.append(request)
    return sorted(requests, key=lambda request: (request.at, request.id))


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
    request = read_record(Request, path)
    if request is not None and folder.request(request.id) != path:
        raise CorruptError(f"{path} holds the request {request.id!r}, which has another file")
    return request


def forget(folder: StudyDir, request: Request) -> None:
    folder.request(request.id).unlink(missing_ok=True)


_NAME = re.compile(r"(?P<host>[^/]*)/(?P<pid>[0-9]{1,10})/(?P<start>[0-9]{1,20}\.[0-9]{2})")
CLOCK_TOLERANCE = 60.0  # seconds by which a process's start may move when the clock is set


def own_name() -> str:
    """Return a name of this process that no later process has: host, process id, start."""
    return name_of(os.getpid())


def name_of(pid: int) -> str:
    """Return such a name of a process of this host; raises psutil.NoSuchProcess."""
    process = psutil.Process(pid)
    return f"{socket.gethostname()}/{process.pid}/{process.create_time():.2f}"


def is_dead(name: str) -> bool:
    """Return whether a process of this host runs no more; of other names nothing is known."""
    match = _NAME.fullmatch(name)
    if match is None or match["host"] != socket.gethostname():
        return False
    try:
        process = psutil.Process(int(match["pid"]))
        is_zombie: bool = process.status() == psutil.STATUS_ZOMBIE
        moved: float = abs(process.create_time() - float(match["start"]))
    except psutil.NoSuchProcess:
        return True
    return is_zombie or moved > CLOCK_TOLERANCE


SILENCE_SECONDS = 600.0
"""for which a driver elsewhere is believed to be there without a sign: one that drives gives it
every five seconds, one that cannot at each attempt to, every five minutes at least"""


@dataclass(frozen=True)
class DriverStart:
    who: str  # process 1234, or job 17 of SLURM, which may wait in the queue for hours
    at: float  # seconds since the epoch
    printed: int = 0  # not used any more
    process: str | None = None
    """name (see `name_of`) of the process that starts the driver again whenever it dies;
    None of a job of SLURM, or if it was started by an older version"""

    @property
    def slurm_job(self) -> str | None:
        kind, _, number = self.who.partition(" ")
        return number if kind == "job" else None


@contextmanager
def driver_start_locked(folder: StudyDir) -> Iterator[None]:
    """Keep other commands from starting a driver meanwhile, where the file system has locks."""
    folder.root.mkdir(parents=True, exist_ok=True)
    with folder.driver_start_lock.open("a") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def note_start(folder: StudyDir, who: str) -> None:
    kind, _, number = who.partition(" ")
    process = None
    with suppress(psutil.NoSuchProcess):
        process = name_of(int(number)) if kind == "process" else None
    start = DriverStart(who, time.time(), process=process)
    RecordFile(DriverStart, folder.driver_start).write(start)


def forget_start(folder: StudyDir) -> None:
    """Note that the driver is done, while it holds the study: the next one starts another."""
    with suppress(OSError):
        folder.driver_start.unlink(missing_ok=True)


def awaited_driver(folder: StudyDir, now: float) -> DriverStart | None:
    """Return the driver that was started, if it may drive; of a SLURM job the scheduler knows."""
    start = RecordFile(DriverStart, folder.driver_start).try_read()
    if start is None or start.slurm_job is not None:
        return start
    if start.process is None:
        return None
    if start.process.partition("/")[0] == socket.gethostname():
        return None if is_dead(start.process) else start
    return start if may_be_there(folder, start, now) else None


def may_be_there(folder: StudyDir, start: DriverStart, now: float) -> bool:
    """Return whether a driver may be there that only its files tell of; a job may wait."""
    retry, noted = folder.driver_retry.try_read(), 0.0
    with suppress(OSError):
        noted = folder.driver.stat().st_mtime
    last = max(start.at, noted, 0.0 if retry is None else retry.at)
    waits = start.slurm_job is not None and last == start.at
    return waits or now - last < SILENCE_SECONDS


NOTE_SECONDS = 5.0  # between two notes
WINDOW_SECONDS = 600.0  # over which calls are counted


@dataclass(frozen=True)
class DriverNote:
    at: float  # seconds since the epoch
    host: str
    pid: int
    slurm_job: str | None  # of the driver itself, None if it is none
    tick_seconds: float  # that its last round took
    calls_per_minute: float  # of the scheduler, over the last ten minutes
    refusal: str | None  # why the last submission of jobs failed


class DriverNotes:
    """Writes what a driver notes of itself for `status` into the study's folder."""

    def __init__(self, folder: StudyDir) -> None:
        self._file = RecordFile(DriverNote, folder.driver)
        self._next = 0.0
        self._calls: deque[tuple[float, int]] = deque()

    def write(self, *, tick_seconds: float, num_calls: int, refusal: str | None) -> None:
        """Note how the driver is, now and then; ``num_calls`` of the scheduler, since it began."""
        now = time.monotonic()
        self._calls.append((now, num_calls))
        while now - self._calls[0][0] > WINDOW_SECONDS:
            self._calls.popleft()
        if now < self._next:
            return
        self._next = now + NOTE_SECONDS
        since, before = self._calls[0]
        note = DriverNote(
            at=time.time(),
            host=socket.gethostname(),
            pid=os.getpid(),
            slurm_job=os.environ.get("SLURM_JOB_ID"),
            tick_seconds=tick_seconds,
            # Of less than a minute nothing is said that would hold for one.
            calls_per_minute=(num_calls - before) / max(1.0, (now - since) / 60),
            refusal=refusal,
        )
        with suppress(DiskError):  # a study is not to end for want of a note
            self._file.write(note)


def read_note(folder: StudyDir) -> DriverNote | None:
    return RecordFile(DriverNote, folder.driver).try_read()
