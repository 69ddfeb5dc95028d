"""A file with a line of JSON for every step at which something was looked at."""

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from hpsearch.atomic import flush, make_folder, write_text
from hpsearch.bounded import parse_json, read_lines
from hpsearch.cluster.messages import MAX_STEP


@dataclass(frozen=True)
class Curve:
    """Rows that each have a ``step``, in the order in which they were made."""

    path: Path

    def append(self, row: dict[str, Any]) -> None:
        """Add one line; what a crash left of the one before it stays a line of its own."""
        make_folder(self.path.parent)
        is_new = not self.path.exists()
        line = json.dumps(row).encode() + b"\n"
        with self.path.open("ab+") as file:
            file.write(line if _ends_whole(file) else b"\n" + line)
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that comes after the line must not outlive it
        if is_new:
            flush(self.path.parent)  # nor outlive the file's name

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the rows; a line cut off by a crash, or damaged, is left out.

        Raises:
            CorruptError: if it is no regular file.
            DiskError: if the file cannot be read.
        """
        with suppress(FileNotFoundError):
            yield from (row for line in read_lines(self.path) if (row := _row(line)) is not None)

    def forget_after(self, step: int) -> None:
        """Drop the rows of later steps, which an attempt going on from ``step`` makes again."""
        kept = [row for row in self.read() if row["step"] <= step]
        if self.path.exists():
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))


def _ends_whole(file: BinaryIO) -> bool:
    """Return whether a file is empty or ends with a whole line."""
    if not file.seek(0, os.SEEK_END):
        return True
    file.seek(-1, os.SEEK_END)
    return file.read(1) == b"\n"


def _row(line: bytes) -> dict[str, Any] | None:
    """Return a row that says of which step it is, None for any other line."""
    try:
        row = parse_json(line)
    except ValueError:
        return None
    step = row.get("step") if isinstance(row, dict) else None
    return row if type(step) is int and 0 <= step <= MAX_STEP else None
