"""A file with a line of JSON for every step at which something was looked at."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch.atomic import unreadable, write_text


@dataclass(frozen=True)
class Curve:
    """Rows that each have a ``step``, in the order in which they were made."""

    path: Path

    def append(self, row: dict[str, Any]) -> None:
        """Add one line."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())  # a checkpoint that comes after the line must not outlive it

    def read(self) -> Iterator[dict[str, Any]]:
        """Yield the rows; a line cut off by a crash, or damaged, is left out.

        Raises:
            DiskError: if the file cannot be read.
        """
        try:
            lines = self.path.read_text(encoding="utf-8", errors="replace").split("\n")
        except FileNotFoundError:
            return
        except OSError as error:
            raise unreadable(self.path, error) from error
        for line in lines[:-1]:
            row = _row(line)
            if row is not None:
                yield row

    def forget_after(self, step: int) -> None:
        """Drop the rows of later steps, which an attempt going on from ``step`` makes again."""
        kept = [row for row in self.read() if row["step"] <= step]
        if self.path.exists():
            write_text(self.path, "".join(json.dumps(row) + "\n" for row in kept))


def _row(line: str) -> dict[str, Any] | None:
    """Return a row that says of which step it is, None for any other line."""
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) and type(row.get("step")) is int else None
