"""Names of checkpoint folders, and the hash that identifies a checkpoint; needs no torch."""

import hashlib
from pathlib import Path

from hpsearch.files import MAX_RECORD, contents, unreadable

PREFIX = "step-"
MANIFEST = "manifest.json"
STATE = "state.json"


def name_of(step: int) -> str:
    return f"{PREFIX}{step:09d}"


def step_of(path: str) -> int:
    """Return the step of the checkpoint at a path; a ValueError if it has no such name."""
    name = path.rstrip("/").rpartition("/")[2]
    if not (name.startswith(PREFIX) and name.removeprefix(PREFIX).isdecimal()):
        raise ValueError(f"a checkpoint's folder is called {PREFIX}<number>, but this is {path!r}")
    return int(name.removeprefix(PREFIX))


def manifest_sha256(path: Path) -> str | None:
    """Return the sha256 of a checkpoint's manifest, which holds those of its files; None if absent.

    Raises CorruptError if it is no regular file, or too large, DiskError if it cannot be read.
    """
    manifest = path / MANIFEST
    try:
        return hashlib.sha256(contents(manifest, MAX_RECORD)).hexdigest()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unreadable(manifest, error) from error
