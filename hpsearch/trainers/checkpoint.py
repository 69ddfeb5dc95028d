"""Checkpoints: a folder of tensors (safetensors) and plain data (JSON), never pickle.

A folder is written under a temporary name, flushed to disk, and renamed; its manifest, written
last, holds the sha256 of every other file, so a folder is whole or it is recognised as damaged.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from uuid import uuid4

import safetensors
from safetensors.torch import load_file, save_file
from torch import Tensor

from hpsearch.errors import CorruptError

TENSORS = "tensors.safetensors"
STATE = "state.json"
MANIFEST = "manifest.json"
_PREFIX = "step-"


@dataclass(frozen=True)
class Checkpoint:
    """What one member needs to go on."""

    step: int
    tensors: dict[str, Tensor]
    """the member's row of the trainer's state"""
    config: dict[str, Any]
    """the member's complete trainer configuration"""
    parents: tuple[str, ...]
    """sha256 of the checkpoints that this one descends from"""


def save(folder: Path, checkpoint: Checkpoint) -> Path:
    """Write a checkpoint below ``folder`` and return its path.

    A whole checkpoint of the same step is kept as it is, a damaged one replaced.

    Raises:
        OSError: if the disk is full or not writable; what was there before stays.
    """
    target = path_of(folder, checkpoint.step)
    if target.exists():
        if _is_whole(target):
            return target
        shutil.rmtree(target)
    temporary = folder / f".{target.name}-{uuid4().hex}"
    temporary.mkdir(parents=True)
    try:
        write_tensors(temporary / TENSORS, checkpoint.tensors)
        plain = {
            "step": checkpoint.step,
            "config": checkpoint.config,
            "parents": list(checkpoint.parents),
        }
        _write(temporary / STATE, plain)
        _flush(temporary / TENSORS)
        _write(temporary / MANIFEST, {n: _sha256(temporary / n) for n in (TENSORS, STATE)})
        temporary.rename(target)
        _flush(folder)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return target


def load(path: Path) -> Checkpoint:
    """Return the checkpoint at ``path``.

    Raises:
        CorruptError: if a file is missing or differs from the manifest.
    """
    verify(path)
    try:
        plain = json.loads((path / STATE).read_text())
        tensors = load_file(path / TENSORS)
    except (safetensors.SafetensorError, ValueError) as error:
        raise CorruptError(f"the checkpoint {path} cannot be read: {error}") from error
    return Checkpoint(plain["step"], tensors, plain["config"], tuple(plain["parents"]))


def verify(path: Path) -> None:
    """Check every file of the checkpoint against its manifest.

    Raises:
        CorruptError: naming the first file that is missing or differs.
        OSError: if a file cannot be read, which says nothing about what it holds.
    """
    try:
        manifest = json.loads((path / MANIFEST).read_text())
        for name in (TENSORS, STATE):
            if manifest[name] != _sha256(path / name):
                raise CorruptError(
                    f"the checkpoint {path} is damaged: {name} differs from its manifest; "
                    "remove the folder to go on from an older one"
                )
    except (FileNotFoundError, ValueError, KeyError, TypeError) as error:
        raise CorruptError(
            f"the checkpoint {path} is damaged: {error}; "
            "remove the folder to go on from an older one"
        ) from error


def valid_steps(folder: Path) -> Iterator[int]:
    """Return the steps of the whole checkpoints below ``folder``, newest first."""
    return (step for step in _steps(folder) if _is_whole(path_of(folder, step)))


def damaged_steps(folder: Path) -> Iterator[int]:
    """Return the steps of the checkpoints below ``folder`` that are not whole, newest first."""
    return (step for step in _steps(folder) if not _is_whole(path_of(folder, step)))


def path_of(folder: Path, step: int) -> Path:
    """Return where the checkpoint of ``step`` lies below ``folder``."""
    return folder / f"{_PREFIX}{step:09d}"


def keep_last(folder: Path, count: int) -> None:
    """Remove all checkpoints but the ``count`` newest whole ones (and newer damaged ones)."""
    whole = list(islice(valid_steps(folder), count))
    if len(whole) == count:
        for step in _steps(folder):
            if step < whole[-1]:
                shutil.rmtree(path_of(folder, step))


def _is_whole(path: Path) -> bool:
    try:
        verify(path)
    except CorruptError:
        return False
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes have left half-written; nobody else may be writing."""
    for path in folder.glob(f".{_PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def _steps(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    names = (path.name.removeprefix(_PREFIX) for path in folder.glob(f"{_PREFIX}*"))
    return sorted((int(name) for name in names if name.isdigit()), reverse=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors as a safetensors file.

    Raises:
        OSError: if the disk is full or not writable.
    """
    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except safetensors.SafetensorError as error:  # of its own kind even where the disk is full
        raise OSError(f"{path} cannot be written: {error}") from error


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
