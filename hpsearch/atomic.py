"""Files that are whole or absent: written under a temporary name, flushed, renamed."""

import json
import os
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from hpsearch.errors import CorruptError, DiskError


def write_text(path: Path, text: str) -> None:
    """Replace the file at ``path`` by ``text``; raises as `write_bytes` does."""
    write_bytes(path, text.encode())


def write_bytes(path: Path, data: bytes) -> None:
    """Replace the file at ``path`` by ``data``.

    Raises:
        DiskError: if the disk is full or not writable; the old file stays.
    """
    temporary = path.with_name(f".{path.name}-{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        flush(path.parent)
    except OSError as error:
        raise DiskError(
            f"{path} cannot be written ({error.strerror}); free some space or make the folder "
            "writable, then run the same command again"
        ) from error
    finally:
        with suppress(OSError):  # where nothing can be written, nothing can be removed either
            temporary.unlink()


def write_json(path: Path, data: Any) -> None:
    """Replace the file at ``path`` by ``data`` as JSON; raises as `write_text` does."""
    write_text(path, json.dumps(data, indent=1) + "\n")


def read_json(path: Path) -> Any:
    """Return what the JSON file at ``path`` holds, None if there is no file.

    Raises:
        CorruptError: if the file is not JSON.
        DiskError: if it cannot be read.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(path, error) from error
    except ValueError as error:
        raise CorruptError(
            f"{path} is no JSON ({error}); it was not written by hpsearch"
        ) from error


def unreadable(path: Path, error: OSError) -> DiskError:
    """Return the error of a file that is there and cannot be read."""
    return DiskError(
        f"{path} cannot be read ({error.strerror}); check the file system and the permissions"
    )


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
