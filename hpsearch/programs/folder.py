"""The folder of a program: its parameters, what it has measured, and what it keeps.

A trial that has ended keeps it as a checkpoint, in the form of `trainers/checkpoint.py` but with
the program's own files in place of tensors. A child begins with a copy.
"""

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from hpsearch.errors import shown
from hpsearch.files import MAX_LINE, flush, open_file, parse_json, row_of_step, write_bytes
from hpsearch.programs.config import ProgramConfig
from hpsearch.trainers.checkpoint_name import (
    MANIFEST,
    PREFIX,
    PROGRAM_FILES,
    STATE,
    name_of,
    plain_files,
    sha256_of,
    verify,
)

PARAMETERS = "config.json"
METRICS = "metrics.jsonl"
SHOWN_LINE = 80  # characters of a line in a message


class MetricsRow(NamedTuple):
    """What a program measured at a step."""

    step: int
    values: Mapping[str, float]


def row_of(line: bytes) -> MetricsRow | None:
    """Return the row of a line such as {"step": 3, "loss": 0.2}; None if it is none.

    What is no number stays out of the values.
    """
    data = row_of_step(line)
    if data is None or data["step"] == 0:
        return None
    values = {}
    for name, value in data.items():
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool):
            with suppress(OverflowError):  # a whole number that no float holds
                values[name] = float(value)
    return MetricsRow(data["step"], values)


def fault_of(line: bytes) -> str:
    """Return what is wrong with a line of which `row_of` makes no row."""
    text = line.decode("utf-8", errors="replace")
    cut = text if len(text) <= SHOWN_LINE else f"{text[:SHOWN_LINE]}..."
    return f"{cut!r} {_fault_of(line)}"


def _fault_of(line: bytes) -> str:
    try:
        data = parse_json(line)
    except ValueError as error:
        return f"is no JSON ({error})"
    if not isinstance(data, dict):
        return "is no mapping of names to values"
    if "step" not in data:
        return "has no step"
    return f"has the step {shown(data['step'])}, which is no whole number from 1 to 2**53"


class Tail:
    """Reads the lines that a program adds to a file."""

    def __init__(self, path: Path, skipped: int = 0) -> None:
        """Take a file, of which so many bytes at the beginning are not wanted."""
        self._path = path
        self._place = skipped  # of the first byte that was not read
        self._rest = b""  # of a line that was not whole

    def read(self, *, is_over: bool = False) -> Iterator[bytes]:
        """Yield the lines since the last call; the last one need not be whole if ``is_over``.

        A file that became shorter is read from its beginning. Raises CorruptError if it is no
        regular file, OSError if it cannot be read.
        """
        try:
            with open_file(self._path) as file:
                if os.fstat(file.fileno()).st_size < self._place:
                    self._place, self._rest = 0, b""
                file.seek(self._place)
                new = file.read()
                self._place = file.tell()
        except FileNotFoundError:
            return
        *lines, rest = (self._rest + new).split(b"\n")
        self._rest = b"" if is_over else rest[-MAX_LINE:]
        yield from lines
        if is_over and rest:
            yield rest


def prepare(work: Path, config: ProgramConfig, parent: Path | None, checkpoints: Path) -> None:
    """Make the folder of an attempt: the one before's, a copy of the parent's, or a new one.

    Raises CorruptError if the parent's is damaged, OSError if the disk refuses.
    """
    _recover(work, checkpoints)
    if not work.exists() and parent is not None:
        verify(parent)
        copy = work.with_name(f".{work.name}-{uuid4().hex}")
        shutil.copytree(parent / PROGRAM_FILES, copy, symlinks=True, ignore=_special)
        copy.rename(work)
    work.mkdir(parents=True, exist_ok=True)
    write_bytes(work / PARAMETERS, json.dumps(config.told(), indent=1).encode() + b"\n")


def keep(
    work: Path, checkpoints: Path, step: int, config: Mapping[str, Any], parents: tuple[str, ...]
) -> Path:
    """Let the folder of a program that has ended become its checkpoint of a step; return that."""
    target = checkpoints / name_of(step)
    if target.exists():  # damaged: a whole one would have ended the trial
        shutil.rmtree(target)
    temporary = checkpoints / f".{target.name}-{uuid4().hex}"
    temporary.mkdir(parents=True)
    work.rename(temporary / PROGRAM_FILES)
    state = {"step": step, "config": config, "parents": parents, "kind": "final"}
    write_bytes(temporary / STATE, json.dumps(state, indent=1).encode())
    files = plain_files(temporary)
    manifest = {str(path.relative_to(temporary)): sha256_of(path) for path in files}
    write_bytes(temporary / MANIFEST, json.dumps(manifest, indent=1).encode())
    folders = [path for path in temporary.rglob("*") if path.is_dir() and not path.is_symlink()]
    for path in (*plain_files(temporary), *folders, temporary):
        flush(path)
    temporary.rename(target)
    flush(checkpoints)
    return target


def _special(folder: str, names: list[str]) -> list[str]:
    """Return which of some names are pipes, sockets or devices, which no child needs."""
    paths = [Path(folder) / name for name in names]
    return [
        path.name for path in paths if not (path.is_symlink() or path.is_file() or path.is_dir())
    ]


def _recover(work: Path, checkpoints: Path) -> None:
    """Take back the folder of an attempt that was killed while it kept it; remove leftovers."""
    for leftover in checkpoints.glob(f".{PREFIX}*"):
        if not work.exists():
            with suppress(FileNotFoundError):
                (leftover / PROGRAM_FILES).rename(work)
        shutil.rmtree(leftover, ignore_errors=True)
    for half in work.parent.glob(f".{work.name}-*"):
        shutil.rmtree(half, ignore_errors=True)


def finite(values: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in values.items() if isfinite(value)}
