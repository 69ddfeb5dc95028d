"""Which code and versions jobs run: on a cluster a copy, so that editing changes no queued job."""

import hashlib
import os
import platform
import shutil
import subprocess
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from uuid import uuid4

from hpsearch.errors import unwritten
from hpsearch.extensions import packages
from hpsearch.files import write_json
from hpsearch.package import FOLDER, __version__

_CACHES: Final = "__pycache__"
_OF_TOOLS: Final = {".mypy_cache", ".ruff_cache"}
_SETTLED_SECONDS: Final = 30.0
"""numba writes an index, then the program that it names: a pair this old is not half of another"""


def take_snapshot(parent: Path) -> Path:
    """Copy the running package to ``parent``/<hash>/ unless it is there; return the copy."""
    folder = parent / code_hash()
    temporary = folder.with_name(f".{folder.name}-{uuid4().hex}")
    try:
        if folder.exists():
            os.utime(folder)  # the newest is the one that jobs to come run
            return folder
        shutil.copytree(FOLDER, temporary / FOLDER.name, ignore=_left_out)
        for path in temporary.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        write_json(temporary / "code.json", {"hash": folder.name, "commit": str(code_commit())})
        temporary.rename(folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not folder.exists():  # else another driver was faster, or it stays as old as it is
            why = error.strerror or _reason(error)
            raise unwritten(folder, OSError(error.errno, why)) from error
    return folder


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Return what of a folder is not copied.

    What Python and numba have compiled comes along, for which a study's first job would take
    seconds.
    """
    if Path(folder).name != _CACHES:
        return _OF_TOOLS & {*names}
    last = time.time() - _SETTLED_SECONDS

    def is_whole(name: str) -> bool:
        is_program = name.endswith((".nbi", ".nbc"))
        return name.endswith(".pyc") or (is_program and Path(folder, name).stat().st_mtime < last)

    return {name for name in names if not is_whole(name)}


def _reason(error: OSError) -> str:
    """Return why copying failed: shutil collects (source, target, reason) of every file."""
    match error.args:
        case ([(_, _, reason), *_],):
            return str(reason)
    return str(error)


def code_hash() -> str:
    """Return 12 hex digits of the names and contents of the running package's files."""
    total = hashlib.sha256()
    for path in sorted(FOLDER.rglob("*")):
        if path.is_file() and not {_CACHES, *_OF_TOOLS} & {*path.relative_to(FOLDER).parts}:
            total.update(str(path.relative_to(FOLDER)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def code_commit() -> str | None:
    """Return the commit, with a + where the code was edited since; None outside of git."""
    commit = _git("rev-parse", "HEAD")
    return commit and commit + ("+" if _git("status", "--porcelain", ".") else "")


def _git(*arguments: str) -> str | None:
    command = ["git", "-C", str(FOLDER), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


PACKAGES: Final = (
    *("torch", "optuna", "numpy", "numba", "safetensors"),
    *("onnx", "onnxscript", "onnx-ir", "onnxruntime"),
)
"""required and optional packages of hpsearch itself"""


def versions() -> dict[str, str]:
    """Return the versions of what plays, by package; packages that are missing are left out.

    What packages add to hpsearch may play, whether a configuration names it or not.
    """
    by_package = {"hpsearch": __version__, "python": platform.python_version(), **packages()}
    for package in PACKAGES:
        with suppress(PackageNotFoundError):
            by_package[package] = version(package)
    return by_package
