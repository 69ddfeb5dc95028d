"""Checkpoints: a folder of tensors (safetensors) and plain data (JSON), never pickle.

A folder is written under a temporary name, flushed to disk, and renamed; its manifest, written
last, holds the sha256 of every other file, so a folder is whole or it is recognised as damaged.
The best checkpoint of a folder, by a metric, outlives newer ones.

safetensors is imported where files are written and read, so that a machine without it can train.
"""

import json
import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, NamedTuple
from uuid import uuid4

import torch
from torch import Tensor

from hpsearch import files
from hpsearch.errors import ConfigError, ConflictError, CorruptError
from hpsearch.files import flush
from hpsearch.schema import NonNegative, Range, read
from hpsearch.trainers import checkpoint_name
from hpsearch.trainers.checkpoint_name import (
    MANIFEST,
    PREFIX,
    PROGRAM_FILES,
    STATE,
    TENSORS,
    name_of,
    plain_files,
    sha256_of,
    verify,
)
from hpsearch.trainers.ranks import ALONE, Ranks

BORN, PERIODIC, TIMED, BEST = "born", "periodic", "timed", "best"
REQUESTED, PREEMPTED, LENT, FINAL = "requested", "preempted", "lent", "final"
CRASHED = "crashed"
"""why a checkpoint was written"""


@dataclass(frozen=True)
class Checkpoint:
    step: int
    tensors: dict[str, Tensor]  # the member's row of the trainer's state
    config: dict[str, Any]  # the member's complete trainer configuration
    parents: tuple[str, ...]  # sha256 of the checkpoints that this one descends from
    kind: str  # why it was written
    seconds: float = 0.0  # of training that led to it, where they are counted

    def copied(self) -> "Checkpoint":
        """Return the same in memory of its own, on the host."""
        host = torch.device("cpu")
        tensors = {name: tensor.to(host, copy=True) for name, tensor in self.tensors.items()}
        return replace(self, tensors=tensors)


Runs = tuple[tuple[NonNegative, ...], ...]
"""places along an axis: from, to and not with; from, to; and so on"""


@dataclass(frozen=True)
class _State:
    step: NonNegative
    config: dict[str, Any]
    parents: tuple[str, ...]
    kind: str
    seconds: Annotated[float, Range(low=0.0)] = 0.0
    shares: tuple[dict[str, Runs], ...] = ()
    """of each rank that wrote the checkpoint, where what it has of a tensor lies in the whole"""


class CheckpointPart(NamedTuple):
    """What one rank wrote of a checkpoint."""

    file: str
    sha256: str
    runs: dict[str, Runs]
    """of each tensor that is shared out, where this part of it lies in the whole"""


def save(
    folder: Path,
    checkpoint: Checkpoint,
    ranks: Ranks = ALONE,
    places: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write a checkpoint below ``folder`` and return its path.

    A whole checkpoint of the same step is kept as it is, a damaged one replaced. OSError if the
    disk is full or not writable; what was there before stays. Of several ``ranks`` each writes the
    tensors of its own ``checkpoint``: what it has of those whose ``places`` in the whole (int64, of
    the first axis) are named, and the first one all else, and the manifest last.
    """
    is_first = ranks.rank == 0
    temporary: Path | None = None
    with ranks.together():
        temporary = begin(folder, checkpoint.step) if is_first else None
    temporary = ranks.told_by_first(temporary)
    if temporary is None:
        return path_of(folder, checkpoint.step)
    try:
        with ranks.together():
            part = write_part(temporary, checkpoint, ranks, places or {})
        parts = ranks.told_by_all(part)
        with ranks.together():
            if is_first:
                finish(temporary, checkpoint, parts)
    finally:
        if is_first:
            shutil.rmtree(temporary, ignore_errors=True)
    return path_of(folder, checkpoint.step)


# The three steps of saving, of which the middle one is every rank's.


def begin(folder: Path, step: int) -> Path | None:
    """Make and return the unfinished folder of a checkpoint; None if one is there and whole.

    A damaged one is removed.
    """
    target = path_of(folder, step)
    if target.exists():
        if is_whole(target):
            return None
        shutil.rmtree(target)
    temporary = folder / f".{target.name}-{uuid4().hex}"
    temporary.mkdir(parents=True)
    return temporary


def write_part(
    temporary: Path, checkpoint: Checkpoint, ranks: Ranks, places: Mapping[str, Tensor]
) -> CheckpointPart:
    """Write what this rank has of a checkpoint; no rank is called."""
    file = _file_of(ranks.rank)
    write_tensors(temporary / file, checkpoint.tensors)
    flush(temporary / file)
    is_shared = ranks.size > 1
    runs = {name: _runs(of_name) for name, of_name in places.items()} if is_shared else {}
    return CheckpointPart(file, sha256_of(temporary / file), runs)


def finish(temporary: Path, checkpoint: Checkpoint, parts: Sequence[CheckpointPart]) -> None:
    """Write all else of the first rank's ``checkpoint``, the manifest last, and rename the folder.

    ``parts`` are those of all ranks, by rank.
    """
    plain = {key: value for key, value in vars(checkpoint).items() if key != "tensors"}
    if len(parts) > 1:
        plain["shares"] = [part.runs for part in parts]
    _write(temporary / STATE, plain)
    digests = {part.file: part.sha256 for part in parts}
    digests = {TENSORS: digests[TENSORS], STATE: sha256_of(temporary / STATE)} | digests
    _write(temporary / MANIFEST, digests)
    temporary.rename(path_of(temporary.parent, checkpoint.step))
    flush(temporary.parent)


def _file_of(rank: int) -> str:
    return TENSORS if rank == 0 else f"tensors-{rank}.safetensors"


def _runs(places: Tensor) -> Runs:
    """Return ascending runs of ``places`` int64 (n,), which need not be in order among them."""
    ends = (places.diff() != 1).nonzero().flatten() + 1
    return tuple((int(run[0]), int(run[-1]) + 1) for run in places.cpu().tensor_split(ends.cpu()))


def load(path: Path, prefix: str = "") -> Checkpoint:
    """Return the checkpoint at ``path``, of its tensors those whose names begin with ``prefix``.

    Raises CorruptError if a file is missing or differs from the manifest, ConflictError if it is a
    program's.
    """
    from safetensors import SafetensorError, safe_open

    verify(path)
    if (path / PROGRAM_FILES).is_dir():
        raise ConflictError(f"{path} is what a program kept, which is no player: it plays no games")
    try:
        state = _state(path)
        parts = []
        for rank in range(max(1, len(state.shares))):
            with safe_open(path / _file_of(rank), framework="pt") as file:
                every = file.keys()  # no mapping: it has no iterator
                names = [name for name in every if name.startswith(prefix)]
                parts.append({name: file.get_tensor(name) for name in names})
        tensors = parts[0] | _joined(parts, state.shares)
        plain = (state.config, state.parents, state.kind, state.seconds)
        return Checkpoint(state.step, tensors, *plain)
    except SafetensorError as error:
        raise CorruptError(
            f"the checkpoint {path} cannot be read by this version of hpsearch: {error!r}"
        ) from error


def _joined(
    parts: Sequence[Mapping[str, Tensor]], shares: Sequence[Mapping[str, Runs]]
) -> dict[str, Tensor]:
    """Return the tensors of which each rank wrote a part, put together."""
    joined = {}
    for name in shares[0] if shares else ():
        if name in parts[0]:
            runs = [run for share in shares for run in share[name]]
            written = torch.cat([part[name] for part in parts])
            pieces = written.split([stop - start for start, stop in runs])
            order = sorted(range(len(runs)), key=lambda number: runs[number])
            joined[name] = torch.cat([pieces[number] for number in order])
    return joined


def identity(path: Path) -> str:
    """Return the sha256 by which other checkpoints name this one; a CorruptError without one."""
    digest = checkpoint_name.manifest_sha256(path)
    if digest is None:
        raise CorruptError(f"{path} is no whole checkpoint: it has no {MANIFEST}")
    return digest


def parents_below(folder: Path) -> tuple[str, ...]:
    """Return what the newest whole checkpoint below ``folder`` descends from, if there is one."""
    for step in valid_steps(folder):
        return _state(path_of(folder, step)).parents
    return ()


def saved_config(path: Path) -> dict[str, Any]:
    """Return the plain configuration of a checkpoint; a CorruptError if it cannot be read."""
    return _state(path).config


def saved_seconds(path: Path) -> float:
    """Return the seconds of training that led to a checkpoint; a CorruptError as above."""
    return _state(path).seconds


def saved_step(path: Path) -> int:
    """Return the step of a checkpoint, by its name if that tells; a CorruptError if none tells."""
    with suppress(ValueError):
        return checkpoint_name.step_of(str(path))
    return _state(path).step


def valid_steps(folder: Path) -> Iterator[int]:
    """Return the steps of the whole checkpoints below ``folder``, newest first."""
    return (step for step in _steps(folder) if is_whole(path_of(folder, step)))


def damaged_steps(folder: Path) -> Iterator[int]:
    """Return the steps of the checkpoints below ``folder`` that are not whole, newest first."""
    return (step for step in _steps(folder) if not is_whole(path_of(folder, step)))


def newest(path: Path) -> Path | None:
    """Return the checkpoint at ``path``, else the newest whole one of a run's or a trial's folder.

    A folder that is named as a checkpoint is taken for one, whole or not.
    """
    if (path / MANIFEST).exists() or (path.is_dir() and path.name.startswith(PREFIX)):
        return path
    for folder in (path / "checkpoints", path):
        for step in valid_steps(folder):
            return path_of(folder, step)
    return None


def path_of(folder: Path, step: int) -> Path:
    return folder / name_of(step)


def keep_last(folder: Path, count: int, pinned: Collection[int] = ()) -> None:
    """Remove all checkpoints but the ``count`` newest whole ones and those ``pinned`` by step.

    Damaged ones that are newer stay too, as witnesses.
    """
    whole = list(islice(valid_steps(folder), count))
    if len(whole) == count:
        for step in _steps(folder):
            if step < whole[-1] and step not in pinned:
                shutil.rmtree(path_of(folder, step))


def remove_after(folder: Path, step: int) -> None:
    for later in _steps(folder):
        if later > step:
            shutil.rmtree(path_of(folder, later))


def is_whole(path: Path) -> bool:
    """Return whether a checkpoint is whole; files that have not changed are not read again."""
    try:
        is_program = (path / PROGRAM_FILES).is_dir()
        names = (STATE, MANIFEST) if is_program else (TENSORS, STATE, MANIFEST)
        others = plain_files(path) if is_program else sorted(path.glob("tensors-*.safetensors"))
        parts = (*(path / name for name in names), *others)
        stats = [file.stat() for file in parts]
    except OSError as error:
        if files.is_for_good(error):
            return False
        raise
    return _was_whole(path, tuple((stat.st_mtime_ns, stat.st_size, stat.st_ino) for stat in stats))


@lru_cache(maxsize=1024)
def _was_whole(path: Path, stats: tuple[tuple[int, int, int], ...]) -> bool:
    try:
        verify(path)
    except CorruptError:
        return False
    return True


def remove_leftovers(folder: Path) -> None:
    """Remove what killed processes have left half-written; no other process may be writing."""
    for path in folder.glob(f".{PREFIX}*"):
        shutil.rmtree(path, ignore_errors=True)


def _steps(folder: Path) -> list[int]:
    if not folder.is_dir():
        return []
    names = {path.name for path in folder.glob(f"{PREFIX}*") if path.is_dir()}
    numbers = (name.removeprefix(PREFIX) for name in names)
    steps = (int(number) for number in numbers if number.isdecimal())
    return sorted((step for step in steps if name_of(step) in names), reverse=True)


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file; an OSError if the disk is full or not writable."""
    from safetensors import SafetensorError
    from safetensors.torch import save_file

    try:
        save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path)
    except SafetensorError as error:  # not an OSError even where the disk is full
        raise OSError(f"{path} cannot be written: {error}") from error


def _state(path: Path) -> _State:
    """Return what a checkpoint holds beside its tensors; a CorruptError if it cannot be read."""
    try:
        data = files.parse_json(files.contents(path / STATE))
        return read(_State, data, source=str(path / STATE))
    except (FileNotFoundError, ValueError, ConfigError) as error:
        raise CorruptError(
            f"the checkpoint {path} cannot be read by this version of hpsearch: {error}"
        ) from error


def _write(path: Path, data: Mapping[str, Any]) -> None:
    with path.open("w") as file:
        json.dump(data, file, indent=1)
        file.flush()
        os.fsync(file.fileno())


RECORD = "best.json"


@dataclass(frozen=True)
class BestRecord:
    step: NonNegative
    metric: str
    value: float

    def check(self) -> Iterator[str]:
        if "/" not in self.metric:
            yield f"metric must say whose it is, as rho/host/random does, but is {self.metric!r}"

    def is_beaten_by(self, value: float) -> bool:
        """Return whether ``value`` is better: high for hosts, low for agents."""
        return value > self.value if is_maximized(self.metric) else value < self.value


def is_maximized(metric: str) -> bool:
    """Return whether more of a metric is better: rho is high for strong hosts and weak agents."""
    return metric.split("/")[1] == "host"


def read_best(folder: Path) -> BestRecord | None:
    """Return the best checkpoint of ``folder``, None if none is known or it is not whole."""
    try:
        data = files.read_json(folder / RECORD)
        best = None if data is None else read(BestRecord, data, source=str(folder / RECORD))
    except (CorruptError, ConfigError):
        return None
    if best is None or not is_whole(path_of(folder, best.step)):
        return None
    return best


def forget_best(folder: Path) -> None:
    (folder / RECORD).unlink(missing_ok=True)


def forget_after(folder: Path, step: int) -> None:
    """Remove every checkpoint of a later step; the best one, if it is such, is forgotten first."""
    best = read_best(folder)
    if best is not None and best.step > step:
        forget_best(folder)
    remove_after(folder, step)
