"""Files that are whole or absent: written under a temporary name, flushed, renamed.

They are read again by `bounded`.
"""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from hpsearch.errors import unwritten


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``; raises as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file at ``path`` by ``data``.

    Raises:
        DiskError: if the disk is full or not writable, or a folder lies there; the old file stays.
    """
    _replace(path, data, is_flushed=True)


def _replace(path: Path, data: bytes, *, is_flushed: bool) -> None:
    temporary = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        make_folder(path.parent)
        with temporary.open("wb") as file:
            file.write(data)
            if is_flushed:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(path)
        if is_flushed:
            flush(path.parent)
            with suppress(PermissionError):  # a folder that others keep need not be readable
                flush(path.parent.parent)  # a process that made ours may have died before this
    except OSError as error:
        raise unwritten(path, error) from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            temporary.unlink()


def write_json(path: Path, data: Any) -> None:
    """Replace the file at ``path`` by ``data`` as JSON; raises as `write_text` does."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def replace_json(path: Path, data: Any) -> None:
    """Replace the file at ``path`` by ``data`` as JSON, without waiting for the disk.

    A reader sees the old file or the new one; a loss of power may leave either, or a damaged one.

    Raises:
        DiskError: if the disk is full or not writable; the old file stays.
    """
    _replace(path, (json.dumps(data, indent=1) + "\n").encode(), is_flushed=False)


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, so that they survive a loss of power.

    Raises:
        OSError: if that is not possible.
    """
    missing, above = [], folder
    while not above.exists():
        missing.append(above)
        above = above.parent
    folder.mkdir(parents=True, exist_ok=True)
    for made in missing:
        flush(made.parent)


def flush(path: Path) -> None:
    """Make sure that a file, or the names in a folder, survive a loss of power."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def flush_tree(folder: Path) -> None:
    """Make sure that a folder survives a loss of power, with all that lies in it."""
    for path in (*folder.rglob("*"), folder):
        flush(path)
