"""JSON files that hold one record each."""

from pathlib import Path
from typing import TypeVar

from hpsearch.bounded import MAX_RECORD, read_json
from hpsearch.errors import ConfigError, CorruptError
from hpsearch.schema import read

T = TypeVar("T")


def read_record(kind: type[T], path: Path) -> T | None:
    """Return the record that a file holds, a dataclass of ``kind``; None if there is no file.

    Raises:
        CorruptError: if the file holds something else.
        DiskError: if it cannot be read.
    """
    data = read_json(path, MAX_RECORD)
    try:
        return None if data is None else read(kind, data, source=str(path))
    except ConfigError as error:
        problems = "; ".join(error.problems)
        raise CorruptError(
            f"{path} is damaged ({problems}); only hpsearch writes it, so restore it from a copy"
        ) from error


def required_record(kind: type[T], path: Path) -> T:
    """Return the record that a file holds.

    Raises:
        CorruptError: if the file holds something else, or is missing.
        DiskError: if it cannot be read.
    """
    found = read_record(kind, path)
    if found is None:
        raise CorruptError(
            f"{path} is missing or empty; only hpsearch writes it, so restore it from a copy"
        )
    return found
