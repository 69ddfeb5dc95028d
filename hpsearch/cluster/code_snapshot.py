"""Which code and versions jobs run: a copy, so that editing the code changes no queued job."""

import hashlib
import os
import platform
import shutil
import subprocess
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final
from uuid import uuid4

import hpsearch
from hpsearch.errors import DiskError, remedy
from hpsearch.files import write_json

_IS_LEFT_OUT = {"__pycache__", ".mypy_cache", ".ruff_cache"}


@dataclass(frozen=True)
class CodeSnapshot:
    """A copy of the package, which jobs import."""

    folder: Path
    """what goes into PYTHONPATH"""
    hash: str
    """sha256 of all files, the first 12 digits"""
    commit: str | None
    """of the repository that the code came from, with a + where it had been edited since"""


def take_snapshot(parent: Path) -> CodeSnapshot:
    """Copy the running package to ``parent``/<hash>/ unless it is there, or raise DiskError."""
    package = Path(hpsearch.__file__).parent
    name = _hash(package)
    snapshot = CodeSnapshot(parent / name, name, commit_of(package))
    if snapshot.folder.exists():
        os.utime(snapshot.folder)  # the newest is the one that jobs to come run
    else:
        _copy(package, snapshot)
    return snapshot


def _copy(package: Path, snapshot: CodeSnapshot) -> None:
    temporary = snapshot.folder.with_name(f".{snapshot.hash}-{uuid4().hex}")
    try:
        shutil.copytree(package, temporary / package.name, ignore=_ignored)
        for path in temporary.rglob("*"):
            path.chmod(0o700 if path.is_dir() else 0o600)
        about = {key: str(value) for key, value in asdict(snapshot).items() if key != "folder"}
        write_json(temporary / "code.json", about)
        temporary.rename(snapshot.folder)
    except OSError as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if not snapshot.folder.exists():  # else another driver was faster
            why = error.strerror or _reason(error)
            raise DiskError(
                f"{snapshot.folder} cannot be written ({why}); {remedy(error)}, then run the same "
                "command again"
            ) from error


def _reason(error: OSError) -> str:
    """Return why copying failed: shutil collects (source, target, reason) of every file."""
    match error.args:
        case ([(_, _, reason), *_],):
            return str(reason)
    return str(error)


def _ignored(folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name in _IS_LEFT_OUT]


def _hash(package: Path) -> str:
    total = hashlib.sha256()
    for path in sorted(package.rglob("*")):
        if path.is_file() and not _IS_LEFT_OUT & {*path.relative_to(package).parts}:
            total.update(str(path.relative_to(package)).encode() + b"\0")
            total.update(hashlib.sha256(path.read_bytes()).digest())
    return total.hexdigest()[:12]


def commit_of(package: Path) -> str | None:
    """Return the commit, None where there is no git or no repository."""
    commit = _git(package, "rev-parse", "HEAD")
    return commit and commit + ("+" if _git(package, "status", "--porcelain", ".") else "")


def _git(package: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(package), *arguments], capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip()


PACKAGES: Final = (
    *("torch", "optuna", "numpy", "numba", "safetensors"),
    *("onnx", "onnxscript", "onnx-ir", "onnxruntime"),
)


def versions() -> dict[str, str]:
    """Return the versions of what plays, by package; packages that are missing are left out."""
    by_package = {"hpsearch": hpsearch.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            by_package[package] = version(package)
        except PackageNotFoundError:
            continue
    return by_package


def code_commit() -> str | None:
    """Return the commit of the running code, with a + where it was edited; None outside of git."""
    return commit_of(Path(hpsearch.__file__).parent)
