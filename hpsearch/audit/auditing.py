"""One audit: find the study, compare database and files, and look again at what was in flight."""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.audit.books import Books, read_books
from hpsearch.audit.descent import check_descent
from hpsearch.audit.disk import Disk, read_disk
from hpsearch.audit.finding import Fault, Finding, Open
from hpsearch.audit.ledger import Ledger, read_ledger
from hpsearch.audit.study import check_jobs, check_snapshots, check_study
from hpsearch.audit.trials import check_trials
from hpsearch.errors import CorruptError, StorageError, UsageError
from hpsearch.files import contents, parse_json
from hpsearch.study.url import sqlite_file, storage_url

LOOKS = 3
"""at a study that moves; what is no fault of its own is not there in all of them"""
PAUSE_SECONDS = 1.0
"""between two looks; a driver needs less for what it does in several steps"""


@dataclass(frozen=True)
class AuditedPlace:
    name: str
    folder: Path
    url: str
    """of the database"""


def locate(name_or_file: str, runs: Path) -> AuditedPlace:
    """Return where the study of a file, or of a name under ``runs``, is.

    Raises:
        UsageError: if no such study was started.
        ConfigError: if the study file is wrong.
        CorruptError: if what the folder says of its study is damaged.
        StorageError: if the database is not where it should be.
    """
    name: Any = name_or_file
    if Path(name_or_file).suffix in (".yaml", ".yml"):
        content: Any = yaml_file.load(Path(name_or_file))
        name = content.get("name") if isinstance(content, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"{name_or_file} names no study; give a study file, or a name")
    folder = (runs / name).absolute()
    url = storage_url(name, _storage(name, folder, runs))
    file = sqlite_file(url)
    if file and not Path(file).exists():
        raise StorageError(
            f"the database of the study {name} is not at {Path(file).absolute()}; run the command "
            "in the folder in which the study was started, or restore the file"
        )
    return AuditedPlace(name, folder, url)


def _storage(name: str, folder: Path, runs: Path) -> str:
    note = folder / "study.json"
    try:
        storage = parse_json(contents(note))["storage"]
        if not isinstance(storage, str):
            raise TypeError("storage is no text")
    except OSError as error:
        names = ", ".join(sorted(path.parent.name for path in runs.glob("*/study.json")))
        started = f"there are: {names}" if names else f"there are none under {runs}"
        raise UsageError(
            f"no study {name!r} that was started ({note}: {error.strerror}); {started}"
        ) from error
    except (CorruptError, ValueError, LookupError, TypeError) as error:
        raise CorruptError(
            f"{note} is damaged; run the study file again, which writes it anew"
        ) from error
    return storage


@dataclass(frozen=True)
class AuditReport:
    study: str
    faults: tuple[Fault, ...]
    in_flight: tuple[Open, ...]
    num_trials: int
    num_events: int
    num_checkpoints: int
    """whose files were compared with their manifests"""


def audit(place: AuditedPlace, *, deep: bool) -> AuditReport:
    """Return what is wrong with a study; nothing is written.

    A driver may run: the database is read as of one moment, the files after it, so a file may be
    newer than an event. Of a study that moves, a fault counts that is there in all of some looks.

    Raises:
        StorageError: if the database cannot be reached or read.
        CorruptError: if it does not hold the study.
    """
    books, ledger, disk, findings = _look(place, deep=deep)
    for _ in range(LOOKS - 1):
        before = {(fault.check, fault.trial) for fault in findings if isinstance(fault, Fault)}
        if ledger.rests or not before:
            break
        time.sleep(PAUSE_SECONDS)
        books, ledger, disk, findings = _look(place, deep=deep)
        findings = [
            finding
            for finding in findings
            if isinstance(finding, Open) or (finding.check, finding.trial) in before
        ]
    return AuditReport(
        study=place.name,
        faults=tuple(dict.fromkeys(finding for finding in findings if isinstance(finding, Fault))),
        in_flight=tuple(finding for finding in findings if isinstance(finding, Open)),
        num_trials=len(ledger.trials),
        num_events=len(books.events),
        num_checkpoints=sum(
            bool(checkpoint.state) or checkpoint.problem is not None
            for files in disk.trials.values()
            for checkpoint in files.checkpoints.values()
        ),
    )


def _look(place: AuditedPlace, *, deep: bool) -> tuple[Books, Ledger, Disk, list[Finding]]:
    books = read_books(place.name, place.url)
    disk = read_disk(place.folder, pointed_to=_pointed_to(books), deep=deep)
    ledger = read_ledger(books.events)
    return books, ledger, disk, find_faults(books, ledger, disk)


def _pointed_to(books: Books) -> Mapping[int, list[int]]:
    steps: dict[int, list[int]] = {}
    for node in books.nodes:
        steps.setdefault(node.trial, []).append(node.step)
    return steps


def find_faults(books: Books, ledger: Ledger, disk: Disk) -> list[Finding]:
    return [
        *check_study(books, ledger, disk),
        *check_trials(books, ledger, disk),
        *check_jobs(ledger, disk),
        *check_descent(books, ledger, disk),
        *check_snapshots(books, ledger),
    ]
