"""Names of checkpoint folders and of their files, and the hashes of both; needs no torch."""

import hashlib
from collections.abc import Iterable
from pathlib import Path

from hpsearch.errors import CorruptError
from hpsearch.files import MAX_FILE, MAX_RECORD, contents, open_file, parse_json, unreadable

PREFIX = "step-"
MANIFEST = "manifest.json"
STATE = "state.json"
TENSORS = "tensors.safetensors"
PROGRAM_FILES = "program"  # folder that stands in place of tensors where a program was the trial


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


def needed(listed: Iterable[str]) -> tuple[str, ...]:
    """Return the files that a checkpoint must have: those that its manifest lists, and its state.

    Also tensors, unless it is a program's.
    """
    names = [*listed]
    is_program = any(str(name).startswith(f"{PROGRAM_FILES}/") for name in names)
    return tuple(dict.fromkeys((STATE, *(() if is_program else (TENSORS,)), *names)))


def verify(path: Path) -> None:
    """Check every file of the checkpoint against its manifest.

    Raises CorruptError naming the first file that is missing or differs, OSError if a file cannot
    be read, which says nothing about what it holds.
    """
    try:
        manifest = parse_json(contents(path / MANIFEST))
        for name in needed(manifest):
            limit = MAX_FILE if name == STATE else None
            if manifest[name] != sha256_of(path / name, limit):
                raise _damaged(path, f"{name} differs from its manifest")
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise _damaged(path, str(error)) from error


def _damaged(path: Path, why: str) -> CorruptError:
    return CorruptError(
        f"the checkpoint {path} is damaged: {why}; remove the folder to go on from an older one"
    )


def plain_files(folder: Path) -> list[Path]:
    """Return the regular files in and below a folder, without links, by name."""
    every = sorted(folder.rglob("*"))
    return [path for path in every if path.is_file() and not path.is_symlink()]


def sha256_of(path: Path, limit: int | None = None) -> str:
    with open_file(path, limit) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
