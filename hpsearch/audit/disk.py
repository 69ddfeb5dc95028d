"""The files of a study as they are: reads each once, and judges none."""

import hashlib
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.audit.finding import MALFORMED, DamagedError, shown
from hpsearch.cluster.record_files import CurveFile
from hpsearch.cluster.study_dir import MatchDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import contents, open_file, parse_json

_NUMBERED = re.compile(r"(attempt|next|step)-(\d+)(\.json)?")


@dataclass(frozen=True)
class StudyFile:
    """A file that holds a mapping of plain data."""

    path: str  # from the study's folder
    data: dict[str, Any] | None = None
    problem: str | None = None  # why it cannot be read

    @property
    def exists(self) -> bool:
        """Whether there is such a file, readable or not."""
        return self.data is not None or self.problem is not None

    @property
    def fault(self) -> str:
        """What is wrong with a file that cannot be read."""
        return f"{self.path} {self.problem or 'is missing'}"

    @property
    def content(self) -> str:
        """The file in a sentence: what it says, or why it says nothing."""
        return self.fault if self.data is None else f"{self.path} says {shown(self.data)}"

    def get(self, key: str) -> Any:
        """Return a value of its mapping, None where it has none or cannot be read."""
        return None if self.data is None else self.data.get(key)

    def whole(self) -> dict[str, Any]:
        """Return what it holds; DamagedError if it cannot be read."""
        if self.data is None:
            raise DamagedError(self.fault)
        return self.data


@dataclass(frozen=True)
class CheckpointFiles:
    path: str  # from the study's folder
    sha256: str | None = None  # of its manifest, by which others know it; None if there is none
    state: Mapping[str, Any] | None = None  # step and parents, where it was compared and whole
    problem: str | None = None  # in what it differs from its manifest, if compared


class Disk:
    """The folder of a study.

    Of each trial the newest and the best checkpoint are compared with their manifests, and those of
    the steps ``pointed_to``; if ``deep``, all others too.
    """

    def __init__(
        self, root: Path, *, pointed_to: Mapping[int, Collection[int]], deep: bool
    ) -> None:
        self.root = root
        self.deep = deep
        self.pointed_to = pointed_to
        self._files: dict[str, StudyFile] = {}
        self._trials: dict[int, TrialFiles] = {}

    def file(self, path: str) -> StudyFile:
        """Return a file of JSON or YAML, by its path from the study's folder."""
        if path not in self._files:
            self._files[path] = (_yaml if path.endswith(".yaml") else _json)(self.root, path)
        return self._files[path]

    def files(self, folder: str) -> list[StudyFile]:
        return [self.file(f"{folder}/{name}") for name in self.names(folder)]

    def names(self, folder: str) -> list[str]:
        try:
            paths = (self.root / folder).iterdir()
            return sorted(path.name for path in paths if not path.name.startswith("."))
        except (OSError, ValueError):
            return []

    def numbers(self, folder: str) -> set[int]:
        """Return the numbers of trials or matches that have a folder."""
        return {int(name) for name in self.names(folder) if name.isdecimal()}

    def numbered(self, folder: str, kind: str) -> dict[int, str]:
        """Return by number the paths of what is called ``kind``-number, such as step-7."""
        matches = map(_NUMBERED.fullmatch, self.names(folder))
        named = [match for match in matches if match is not None and match[1] == kind]
        return {int(match[2]): f"{folder}/{match[0]}" for match in named}

    def trial(self, number: int) -> "TrialFiles":
        return self._trials.setdefault(number, TrialFiles(self, number))

    def assignment(self, job: str, place: int) -> StudyFile:
        """Return the file by which a job was given something: first by 0, later counted from 1."""
        return self.file(f"jobs/{job}/" + ("job.json" if place == 0 else f"next-{place}.json"))

    def games(self, match: int) -> StudyFile:
        """Return the games of a match, as the shapes of the arrays by name."""
        folder = f"matches/{match}"
        path = f"{folder}/games.npz"
        try:
            games = MatchDir(self.root / folder).stored_games()
        except (CorruptError, DiskError):
            return StudyFile(path, problem="cannot be read")
        if games is None:
            return StudyFile(path)
        moves, finished = games
        return StudyFile(path, {"moves": list(moves.shape), "finished": list(finished.shape)})

    def holds(self, place: str) -> bool:
        """Return whether a checkpoint is there, named from the study's folder or absolute."""
        return (self.root / place / "manifest.json").exists()

    def num_compared(self) -> int:
        """Return how many checkpoints were compared with their manifests."""
        every = (saved for trial in self._trials.values() for saved in trial.checkpoints.values())
        return sum(saved.state is not None or saved.problem is not None for saved in every)


class _TrialFile:
    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, files: "TrialFiles", owner: object) -> StudyFile:
        return files.disk.file(f"{files.path}/{self._name}")


class TrialFiles:
    """The files of a trial, all missing where it has no folder."""

    config = _TrialFile("config.yaml")
    lineage = _TrialFile("lineage.json")
    birth = _TrialFile("birth.json")
    exchanges = _TrialFile("exchanges.json")
    control = _TrialFile("control.json")
    result = _TrialFile("result.json")
    best = _TrialFile("checkpoints/best.json")  # which checkpoint is the best

    def __init__(self, disk: Disk, number: int) -> None:
        self.disk = disk
        self.number = number
        self.path = f"trials/{number}"

    def attempt(self, number: int) -> StudyFile:
        return self.disk.file(f"{self.path}/attempt-{number}/result.json")

    def attempts(self) -> dict[int, StudyFile]:
        """Return the results of the attempts that have a folder, by number."""
        return {number: self.attempt(number) for number in self.disk.numbered(self.path, "attempt")}

    def curve(self) -> Iterator[Mapping[str, Any]]:
        try:
            yield from CurveFile(self.disk.root / self.path / "metrics.jsonl").read()
        except (CorruptError, DiskError):
            return

    @cached_property
    def checkpoints(self) -> dict[int, CheckpointFiles]:
        """The checkpoints by step."""
        paths = self.disk.numbered(f"{self.path}/checkpoints", "step")
        best = self.best.get("step")  # what is no number names none, and may have no hash
        chosen = {max(paths, default=-1), *self.disk.pointed_to.get(self.number, ())}
        chosen.add(best if type(best) is int else -1)
        return {
            step: _checkpoint(self.disk.root, path, whole=self.disk.deep or step in chosen)
            for step, path in paths.items()
        }


def _checkpoint(root: Path, path: str, *, whole: bool) -> CheckpointFiles:
    try:
        manifest = contents(root / path / "manifest.json")
    except (CorruptError, OSError) as error:
        # An older one that nothing needs may be what a job was removing when it was killed.
        why = error.strerror if isinstance(error, OSError) else "no regular file, or too large"
        problem = f"its manifest cannot be read ({why})" if whole else None
        return CheckpointFiles(path, problem=problem)
    state, problem = _compared(root / path, manifest) if whole else (None, None)
    return CheckpointFiles(path, hashlib.sha256(manifest).hexdigest(), state, problem)


def _compared(folder: Path, manifest: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return a checkpoint's state, or in what it differs from its manifest."""
    try:
        listed = parse_json(manifest)
        for name in _needed(listed):
            with open_file(folder / name) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != listed[name]:
                    return None, f"{name} differs from its manifest"
        state = parse_json(contents(folder / "state.json"))
        return {key: state[key] for key in ("step", "parents")}, None
    except OSError as error:
        return None, f"a file of it cannot be read ({error.strerror})"
    except (CorruptError, ValueError, LookupError, TypeError) as error:
        return None, f"it is damaged ({type(error).__name__})"


def _needed(listed: Iterable[str]) -> Sequence[str]:
    """Return the files that a checkpoint must have; a program's has no tensors."""
    names = list(listed)
    tensors = (
        [] if any(str(name).startswith("program/") for name in names) else ["tensors.safetensors"]
    )
    return list(dict.fromkeys([*tensors, "state.json", *names]))


def _json(root: Path, path: str) -> StudyFile:
    try:
        return _mapping(path, parse_json(contents(root / path)))
    except FileNotFoundError:
        return StudyFile(path)
    except OSError as error:
        return StudyFile(path, problem=f"cannot be read ({error.strerror})")
    except CorruptError:
        return StudyFile(path, problem="is too large, or no regular file")
    except ValueError:
        return StudyFile(path, problem="is no JSON")


def _yaml(root: Path, path: str) -> StudyFile:
    if not (root / path).exists():
        return StudyFile(path)
    try:
        return _mapping(path, yaml_file.load(root / path))
    except MALFORMED:
        return StudyFile(path, problem="cannot be read as YAML")


def _mapping(path: str, data: Any) -> StudyFile:
    is_mapping = isinstance(data, dict)
    return StudyFile(path, data) if is_mapping else StudyFile(path, problem="holds no mapping")
