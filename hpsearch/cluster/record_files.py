"""Files of JSON records, files with a record on each line, and folders as tables of files."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar

from hpsearch import files
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.schema import field_hints, read

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Read = TypeVar("Read")
T = TypeVar("T", bound="DataclassInstance")


def read_record(kind: type[Read], path: Path) -> Read | None:
    """Return the record that a file holds, a dataclass of ``kind``; None if there is no file.

    Raises CorruptError if the file holds something else, DiskError if it cannot be read.
    """
    data = files.read_json(path, files.MAX_RECORD)
    try:
        return None if data is None else read(kind, data, source=str(path))
    except ConfigError as error:
        problems = "; ".join(error.problems)
        raise CorruptError(
            f"{path} is damaged ({problems}); only hpsearch writes it, so restore it from a copy"
        ) from error


class Stamp(NamedTuple):
    inode: int
    size: int
    written: int  # nanoseconds since the epoch, by the file system
    written_at: float  # the same in seconds


@dataclass(frozen=True)
class RecordFile(Generic[T]):
    """A file that holds one record, written whole or not at all."""

    kind: type[T]
    path: Path

    def write(self, record: T) -> None:
        files.write_bytes(self.path, line_of(record))

    def replace(self, record: T) -> None:
        """Write a heartbeat, without waiting for the disk: a loss of power ends the job too."""
        files.write_bytes(self.path, line_of(record), is_flushed=False)

    def read(self) -> T | None:
        return read_record(self.kind, self.path)

    def try_read(self) -> T | None:
        """Return the record, None also if the file is damaged or cannot be read now."""
        with suppress(CorruptError, DiskError):
            return self.read()
        return None

    def stamp(self) -> Stamp | None:
        """Return a stamp, which differs once the file was replaced; None without a file.

        The file is opened for it: a file system that machines share may otherwise answer from what
        it knew a minute ago.
        """
        with suppress(CorruptError, OSError), files.open_file(self.path) as file:
            status = os.fstat(file.fileno())
            return Stamp(status.st_ino, status.st_size, status.st_mtime_ns, status.st_mtime)
        return None

    def age(self, now: float) -> float | None:
        """Return the seconds since the file was written, by its file system; None without it."""
        with suppress(OSError):
            return max(0.0, now - self.path.stat().st_mtime)
        return None

    def required(self) -> T:
        """As `read_record`, but a missing file is a CorruptError."""
        record = self.read()
        if record is None:
            raise CorruptError(
                f"{self.path} is missing or empty; only hpsearch writes it, so restore it from a "
                "copy"
            )
        return record


def line_of(record: "DataclassInstance") -> bytes:
    """Return a record as JSON on one line: with indents, Python writes it ten times as slowly."""
    return json.dumps(record, default=_plain).encode() + b"\n"


def _plain(record: "DataclassInstance") -> dict[str, Any]:
    """Return a record's fields; `asdict` would copy all values, and take several times as long."""
    values = vars(record)
    return {name: values[name] for name in field_hints(type(record))}


PLAYED = "played"
"""last key of a trainer's line: the games of its evaluation, which are long and seldom read"""


@dataclass(frozen=True)
class CurveFile:
    """A file with a line of JSON for each evaluation; each row has a ``step``."""

    path: Path

    def append(self, row: dict[str, Any]) -> None:
        """Add one line; the rest of a line that a crash cut off stays a line by itself."""
        files.make_folder(self.path.parent)
        is_new = not self.path.exists()
        line = json.dumps(row).encode() + b"\n"
        with self.path.open("ab+") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - 1))
            is_whole = file.read(1) in (b"", b"\n")
            file.write(line if is_whole else b"\n" + line)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that comes after the line must not outlive it
        if is_new:
            files.flush(self.path.parent)  # nor outlive the file's name

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the rows without what was PLAYED.

        A line cut off by a crash, or damaged, is left out. Raises CorruptError if it is no regular
        file, DiskError if it cannot be read.
        """
        with suppress(FileNotFoundError):
            rows = map(files.row_of_step, map(_without_games, files.read_lines(self.path)))
            yield from (row for row in rows if row is not None)


def _without_games(line: bytes) -> bytes:
    row, has_games, _ = line.partition(b', "%s": {' % PLAYED.encode())
    # Only a whole line of a trainer ends so; a program's metric may be called the same.
    return row + b"}" if has_games and line.endswith(b"}}}}") else line


@dataclass(frozen=True)
class Folder:
    """A folder; its class lists as `Place` and `Record` what lies in it."""

    root: Path


class Place:
    """A path in a folder: ``log = Place("driver.log")`` makes ``folder.log`` that path."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __set_name__(self, owner: type, attribute: str) -> None:
        self._attribute = attribute

    def __get__(self, folder: Folder, owner: object) -> Path:
        path = folder.root / self._name
        vars(folder)[self._attribute] = path  # found there from now on
        return path


class Record(Generic[T]):
    def __init__(self, kind: type[T], name: str) -> None:
        self._kind = kind
        self._name = name

    def __get__(self, folder: Folder, owner: object) -> RecordFile[T]:
        return RecordFile(self._kind, folder.root / self._name)
