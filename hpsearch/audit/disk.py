"""What the files of a study say: read whole, one after another, and judged by nothing here."""

import hashlib
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.audit.finding import MALFORMED, DamagedError, shown
from hpsearch.cluster.match_dir import MatchDir
from hpsearch.cluster.record_files import CurveFile
from hpsearch.errors import ConfigError, CorruptError, DiskError
from hpsearch.files import contents, open_file, parse_json

_NUMBERED = re.compile(r"(attempt|next|step)-(\d+)(\.json)?")


@dataclass(frozen=True)
class StudyFile:
    """A file that holds a mapping of plain data."""

    path: str
    """from the study's folder"""
    data: dict[str, Any] | None = None
    problem: str | None = None
    """why it cannot be read"""

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
    path: str
    """from the study's folder"""
    sha256: str | None = None
    """of its manifest, by which others know it; None if there is none"""
    state: Mapping[str, Any] | None = None
    """step and parents, None if it was not examined or is damaged"""
    problem: str | None = None
    """in what it differs from its manifest; None also where that was not examined"""


@dataclass(frozen=True)
class TrialFiles:
    path: str
    """from the study's folder"""
    config: StudyFile
    lineage: StudyFile
    birth: StudyFile
    exchanges: StudyFile
    control: StudyFile
    result: StudyFile
    best: StudyFile
    """which checkpoint is the best"""
    attempts: Mapping[int, StudyFile]
    """results of attempts, by number"""
    curve: tuple[Mapping[str, Any], ...]
    """whole lines of the learning curve"""
    checkpoints: Mapping[int, CheckpointFiles]
    """by step"""

    def attempt(self, number: int) -> StudyFile:
        """Return the result of an attempt, missing where there is none."""
        missing = StudyFile(f"{self.path}/attempt-{number}/result.json")
        return self.attempts.get(number, missing)


@dataclass(frozen=True)
class Disk:
    root: Path
    trials: Mapping[int, TrialFiles]
    jobs: Mapping[str, Mapping[int, StudyFile]]
    """what each job was given: at first, by 0, and later, counted from 1"""
    matches: Mapping[int, tuple[StudyFile, StudyFile]]
    """plan, and games with the shapes of the arrays by name"""
    requests: tuple[StudyFile, ...]
    pins: tuple[StudyFile, ...]
    confirmation: StudyFile

    def trial(self, number: int) -> TrialFiles:
        """Return the files of a trial, all missing where it has no folder."""
        known = self.trials.get(number)
        return known or _trial(self.root, number, (), deep=False)

    def assignment(self, job: str, place: int) -> StudyFile:
        """Return the file by which a job was given something, missing where there is none."""
        name = "job.json" if place == 0 else f"next-{place}.json"
        return self.jobs.get(job, {}).get(place, StudyFile(f"jobs/{job}/{name}"))

    def match(self, number: int) -> tuple[StudyFile, StudyFile]:
        """Return plan and games of a match, missing where it has no folder."""
        return self.matches.get(number) or _match(self.root, number)

    def holds(self, place: str) -> bool:
        """Return whether a checkpoint is there, named from the study's folder or absolute."""
        return (self.root / place / "manifest.json").exists()


def read_disk(root: Path, *, pointed_to: Mapping[int, Collection[int]], deep: bool) -> Disk:
    """Return what lies in the folder of a study.

    Of each trial the newest and the best checkpoint are compared with their manifests, and those of
    the steps ``pointed_to``; if ``deep``, all others too.
    """

    def numbers(kind: str) -> list[int]:
        return [int(name) for name in _names(root / kind) if name.isdecimal()]

    def files(kind: str) -> tuple[StudyFile, ...]:
        return tuple(_json(root, f"{kind}/{name}") for name in _names(root / kind))

    return Disk(
        root=root,
        trials={
            number: _trial(root, number, pointed_to.get(number, ()), deep=deep)
            for number in numbers("trials")
        },
        jobs={name: _job(root, name) for name in _names(root / "jobs")},
        matches={number: _match(root, number) for number in numbers("matches")},
        requests=files("requests"),
        pins=files("pins"),
        confirmation=_json(root, "confirmation.json"),
    )


def _trial(root: Path, number: int, pointed_to: Collection[int], *, deep: bool) -> TrialFiles:
    own = f"trials/{number}"
    best = _json(root, f"{own}/checkpoints/best.json")
    steps = dict(_numbered(root / own / "checkpoints", "step"))
    step = best.get("step")  # what is no number names none, and may have no hash
    chosen = {max(steps, default=-1), *pointed_to, step if type(step) is int else -1}
    return TrialFiles(
        path=own,
        config=_yaml(root, f"{own}/config.yaml"),
        lineage=_json(root, f"{own}/lineage.json"),
        birth=_json(root, f"{own}/birth.json"),
        exchanges=_json(root, f"{own}/exchanges.json"),
        control=_json(root, f"{own}/control.json"),
        result=_json(root, f"{own}/result.json"),
        best=best,
        attempts={
            attempt: _json(root, f"{own}/{name}/result.json")
            for attempt, name in _numbered(root / own, "attempt")
        },
        curve=_curve(root / own / "metrics.jsonl"),
        checkpoints={
            step: _checkpoint(root, f"{own}/checkpoints/{name}", whole=deep or step in chosen)
            for step, name in steps.items()
        },
    )


def _curve(path: Path) -> tuple[Mapping[str, Any], ...]:
    try:
        return tuple(CurveFile(path).read())
    except (CorruptError, DiskError):
        return ()


def _checkpoint(root: Path, path: str, *, whole: bool) -> CheckpointFiles:
    try:
        manifest = contents(root / path / "manifest.json")
    except (CorruptError, OSError) as error:
        # An older one that nothing needs may be what a job was removing when it was killed.
        why = error.strerror if isinstance(error, OSError) else "no regular file, or too large"
        return CheckpointFiles(
            path, problem=f"its manifest cannot be read ({why})" if whole else None
        )
    state, problem = _examined(root / path, manifest) if whole else (None, None)
    return CheckpointFiles(path, hashlib.sha256(manifest).hexdigest(), state, problem)


def _examined(folder: Path, manifest: bytes) -> tuple[dict[str, Any] | None, str | None]:
    """Return a checkpoint's state, or in what it differs from its manifest."""
    try:
        listed = parse_json(manifest)
        for name in ("tensors.safetensors", "state.json"):
            with open_file(folder / name) as file:
                if hashlib.file_digest(file, "sha256").hexdigest() != listed[name]:
                    return None, f"{name} differs from its manifest"
        state = parse_json(contents(folder / "state.json"))
        return {key: state[key] for key in ("step", "parents")}, None
    except OSError as error:
        return None, f"a file of it cannot be read ({error.strerror})"
    except (CorruptError, ValueError, LookupError, TypeError) as error:
        return None, f"it is damaged ({type(error).__name__})"


def _job(root: Path, name: str) -> dict[int, StudyFile]:
    later = _numbered(root / "jobs" / name, "next")
    more = {count: _json(root, f"jobs/{name}/{file}") for count, file in later}
    return {**more, 0: _json(root, f"jobs/{name}/job.json")}


def _match(root: Path, number: int) -> tuple[StudyFile, StudyFile]:
    own = f"matches/{number}"
    return _json(root, f"{own}/plan.json"), _shapes(root, own)


def _shapes(root: Path, match: str) -> StudyFile:
    path = f"{match}/games.npz"
    try:
        games = MatchDir(root / match).read_games()
    except (CorruptError, DiskError):
        return StudyFile(path, problem="cannot be read")
    arrays = {} if games is None else {"moves": games.moves, "finished": games.finished}
    return StudyFile(path, {name: list(it.shape) for name, it in arrays.items()} or None)


def _json(root: Path, path: str) -> StudyFile:
    try:
        data = parse_json(contents(root / path))
    except FileNotFoundError:
        return StudyFile(path)
    except OSError as error:
        return StudyFile(path, problem=f"cannot be read ({error.strerror})")
    except CorruptError:
        return StudyFile(path, problem="is too large, or no regular file")
    except ValueError:
        return StudyFile(path, problem="is no JSON")
    return _mapping(path, data)


def _yaml(root: Path, path: str) -> StudyFile:
    if not (root / path).exists():
        return StudyFile(path)
    try:
        return _mapping(path, yaml_file.load(root / path))
    except (ConfigError, *MALFORMED):
        return StudyFile(path, problem="cannot be read as YAML")


def _mapping(path: str, data: Any) -> StudyFile:
    is_mapping = isinstance(data, dict)
    return StudyFile(path, data) if is_mapping else StudyFile(path, problem="holds no mapping")


def _numbered(folder: Path, kind: str) -> Iterator[tuple[int, str]]:
    for name in _names(folder):
        match = _NUMBERED.fullmatch(name)
        if match and match[1] == kind:
            yield int(match[2]), name


def _names(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))
    except (OSError, ValueError):
        return []
