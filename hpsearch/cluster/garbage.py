"""What a study leaves on disk that is not needed any more, and how it is removed.

Nothing of a trial or a job that has not ended is garbage. A folder gets a hidden name before it is
removed: a removal that is cut off leaves nothing that looks whole, and the next one ends it.
"""

import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

from hpsearch.cluster.study_dir import JobDir, StudyDir, TrialDir, pinned
from hpsearch.errors import DiskError
from hpsearch.files import contents
from hpsearch.trainers import checkpoint
from hpsearch.trainers.checkpoint import read_best

CHECKPOINTS, PICKLES, TEMPORARY = "checkpoints", "pickles", "temporary"
CODE, TRACES = "code", "traces"
KINDS = (CHECKPOINTS, PICKLES, TEMPORARY, CODE, TRACES)

STALE_SECONDS = 3600.0
"""after which the writer of a file under a temporary name is taken to have been killed"""
_TRASH = ".garbage-"
_HALF_WRITTEN = re.compile(r"\..+[-_][0-9a-f]{32}(\.sh)?")
"""names under which files and folders are written before they are renamed"""


@dataclass(frozen=True)
class EndedTrials:
    finished: tuple[int, ...]  # trials whose newest and best checkpoints are wanted
    given_up: tuple[int, ...]  # trials that were pruned or failed: no trial goes on from them
    matches: tuple[int, ...]
    """that were judged: the best responses that trained in them are no longer needed"""
    jobs: tuple[str, ...]
    live_ids: frozenset[str | None]
    """the executor's ids of all other jobs, None for one that it has not confirmed"""
    is_driven: bool  # whether a driver may submit jobs now

    def live_arrays(self) -> set[str]:
        """Return the scheduler's ids of the arrays, or single jobs, that may still run."""
        return {re.split("[_:]", job_id)[0] for job_id in self.live_ids if job_id is not None}


@dataclass(frozen=True)
class Garbage:
    kind: str  # one of KINDS
    path: Path
    size: int  # bytes of its files


def find_garbage(study: StudyDir, ended: EndedTrials, *, now: float, traces: bool) -> list[Garbage]:
    """Return what may be removed; what was recorded for people to look at only with ``traces``."""
    garbage = {
        CHECKPOINTS: _checkpoints(study, ended),
        PICKLES: _pickles(study, ended),
        TEMPORARY: _temporary(study, ended, now),
        CODE: _code(study, ended),
        TRACES: _traces(study, ended) if traces else (),
    }
    return [Garbage(kind, path, _size(path)) for kind, paths in garbage.items() for path in paths]


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it, if it is there, or raise DiskError."""
    try:
        if path.is_dir() and not path.is_symlink():
            trash = path.with_name(f"{_TRASH}{uuid4().hex}")
            path.rename(trash)
            shutil.rmtree(trash)
        else:
            path.unlink()
    except FileNotFoundError:
        return
    except OSError as error:
        raise DiskError(
            f"{path} cannot be removed ({error.strerror}); check the permissions of its folder, "
            "then run the same command again"
        ) from error


def _checkpoints(study: StudyDir, ended: EndedTrials) -> Iterator[Path]:
    held = frozenset[Path]().union(*pinned(study).values())
    for number in ended.finished:
        trial = study.trial(number)
        newest = next(checkpoint.valid_steps(trial.checkpoints), None)
        if newest is not None:  # else what is damaged is all there is
            yield from _others(trial, held | {checkpoint.path_of(trial.checkpoints, newest)})
    for number in ended.given_up:
        yield from _others(study.trial(number), held)
        if study.trial(number).program.exists():
            yield study.trial(number).program
    for number in ended.matches:
        yield from (path for path in study.match(number).responses if path not in held)


def _others(trial: TrialDir, wanted: frozenset[Path]) -> Iterator[Path]:
    best = read_best(trial.checkpoints)
    if best is not None:
        wanted = wanted | {checkpoint.path_of(trial.checkpoints, best.step)}
    for path in _entries(trial.checkpoints):
        if path.is_dir() and not path.name.startswith(".") and path not in wanted:
            yield path


def _pickles(study: StudyDir, ended: EndedTrials) -> Iterator[Path]:
    """Yield submitit's pickles; those of a whole array lie in the folder of its first job."""
    if None in ended.live_ids:  # an array that the executor has not confirmed reads its pickles too
        return
    live = ended.live_arrays()
    for name in ended.jobs:
        for path in study.job(name).pickles:
            if re.split("[_.]", path.name)[0] not in live:
                yield path


def _temporary(study: StudyDir, ended: EndedTrials, now: float) -> Iterator[Path]:
    folders: list[Path] = []
    for trial in map(study.trial, (*ended.finished, *ended.given_up)):
        folders += (trial.root, trial.checkpoints, *(attempt.root for attempt in trial.attempts))
    jobs = [study.job(name) for name in ended.jobs]
    yield from (job.weights for job in jobs if job.weights.exists())  # of a job that was killed
    folders += (*(job.root for job in jobs), study.code)
    for folder in folders:
        for path in _entries(folder):
            half_written = _HALF_WRITTEN.fullmatch(path.name) is not None
            if path.name.startswith(_TRASH) or (half_written and _is_stale(path, now)):
                yield path


def _code(study: StudyDir, ended: EndedTrials) -> Iterator[Path]:
    """Yield the copies of the code that no job imports, the newest, for the next driver, aside."""
    copies = [path for path in _entries(study.code) if not path.name.startswith(".")]
    scripts = [script for folder in _entries(study.jobs) for script in JobDir(folder).scripts]
    live = ended.live_arrays()
    of_live = {path.name.partition("_")[0]: path for path in scripts}
    if ended.is_driven or None in ended.live_ids or not live <= of_live.keys():
        return  # it is not known which copy is imported next
    used = b"".join(contents(of_live[array]) for array in live).decode(errors="replace")
    newest = max(copies, key=lambda path: path.lstat().st_ctime, default=None)
    for path in copies:
        if path.name not in used and path != newest:
            yield path


def _traces(study: StudyDir, ended: EndedTrials) -> Iterator[Path]:
    trials = (study.trial(number).tensorboard for number in (*ended.finished, *ended.given_up))
    jobs = (study.job(name).traces for name in ended.jobs)
    yield from (path for path in (study.tensorboard, *trials, *jobs) if path.exists())


def _entries(folder: Path) -> list[Path]:
    return sorted(folder.iterdir()) if folder.is_dir() else []


def _is_stale(path: Path, now: float) -> bool:
    try:
        # Not its mtime, which copying and renaming keep.
        return now - path.lstat().st_ctime > STALE_SECONDS
    except FileNotFoundError:  # renamed meanwhile by its writer
        return False


def _size(path: Path) -> int:
    total = 0
    for place in (path, *path.rglob("*")):
        with suppress(FileNotFoundError):
            total += 0 if place.is_dir() else place.lstat().st_size
    return total
