"""A line a look and member, as JSON: what notebooks and the report read."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from hpsearch.atomic import write_bytes
from hpsearch.bounded import parse_json, read_lines
from hpsearch.monitor.look import Look, MemberLook, finite_or_none
from hpsearch.monitor.places import MemberPlace


class TrainingLog:
    """Appends to one file a member; a line is whole, and is there when a look is over."""

    def __init__(self) -> None:
        """Begin without a member."""
        self._files: dict[Path, TextIO] = {}

    def write(self, look: Look) -> None:
        """Append a line for each member; infinite values and NaN become null."""
        for member in look.members:
            file = self._file(member.place)
            file.write(json.dumps(_line(look, member)) + "\n")
            file.flush()
        # Thousands may come and go while a job runs.
        for path in self._files.keys() - {member.place.training_log for member in look.members}:
            self._files.pop(path).close()

    def close(self) -> None:
        """Close the files."""
        for file in self._files.values():
            file.close()

    def _file(self, place: MemberPlace) -> TextIO:
        """Open a member's file, without what earlier attempts wrote of steps made again now."""
        path = place.training_log
        if path not in self._files:
            forget_after(path, place.step)
            path.parent.mkdir(parents=True, exist_ok=True)
            self._files[path] = path.open("a", encoding="utf-8")
        return self._files[path]


def _line(look: Look, member: MemberLook) -> dict[str, Any]:
    line: dict[str, Any] = {
        "step": member.step,
        "at": look.at,
        "scalars": finite_or_none(member.scalars),
        "job": finite_or_none(look.job),
    }
    if member.layers:
        line["layers"] = finite_or_none(member.layers)
    if look.timings:
        line["timings"] = {name: asdict(timing) for name, timing in look.timings.items()}
    return line


def forget_after(path: Path, step: int) -> None:
    """Drop the lines of later steps than ``step``, and a last one that was cut off."""
    if not path.exists():
        return
    kept = [line for line in read_lines(path) if (at := _step(line)) is not None and at <= step]
    if sum(len(line) + 1 for line in kept) != path.stat().st_size:
        write_bytes(path, b"".join(line + b"\n" for line in kept))


def _step(line: bytes) -> int | None:
    """Return the step of a line, None if it is damaged."""
    try:
        step = parse_json(line)["step"]
    except (ValueError, TypeError, KeyError):
        return None
    return step if isinstance(step, int) else None
