"""One audit: find the study, compare database and files, and look again at what was in flight."""

import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.audit.books import Books, read_books
from hpsearch.audit.descent import check_descent
from hpsearch.audit.disk import Disk
from hpsearch.audit.finding import Fault, Finding, Open
from hpsearch.audit.ledger import Ledger, read_ledger
from hpsearch.audit.study import check_jobs, check_snapshots, check_study
from hpsearch.audit.trials import check_trials
from hpsearch.errors import UsageError
from hpsearch.study.url import storage_url
from hpsearch.study.view import check_database, read_study_note, started_studies

LOOKS = 3  # at a study that moves; what is no fault of its own is not there in all of them
PAUSE_SECONDS = 1.0  # between two looks; a driver needs less for what it does in several steps


@dataclass(frozen=True)
class AuditReport:
    study: str
    faults: tuple[Fault, ...]
    in_flight: tuple[Open, ...]
    num_trials: int
    num_events: int
    num_checkpoints: int  # whose files were compared with their manifests


def audit(name_or_file: str, runs: Path, *, deep: bool) -> AuditReport:
    """Return what is wrong with a study; nothing is written.

    A driver may run: the database is read as of one moment, the files after it, so a file may be
    newer than an event. Of a study that moves, a fault counts that is there in all of some looks.
    Raises UsageError if no such study was started; ConfigError if the study file is wrong;
    StorageError if the database is not where it should be, or cannot be reached or read;
    CorruptError if it does not hold the study, or what the folder says of it is damaged.
    """
    name, folder, url = _locate(name_or_file, runs)
    books, ledger, disk = _look(name, folder, url, deep=deep)
    findings = find_faults(books, ledger, disk)
    for _ in range(LOOKS - 1):
        before = {(fault.check, fault.trial) for fault in findings if isinstance(fault, Fault)}
        if ledger.rests or not before:
            break
        time.sleep(PAUSE_SECONDS)
        books, ledger, disk = _look(name, folder, url, deep=deep)
        findings = [
            finding
            for finding in find_faults(books, ledger, disk)
            if isinstance(finding, Open) or (finding.check, finding.trial) in before
        ]
    return AuditReport(
        study=name,
        faults=tuple(dict.fromkeys(finding for finding in findings if isinstance(finding, Fault))),
        in_flight=tuple(finding for finding in findings if isinstance(finding, Open)),
        num_trials=len(ledger.trials),
        num_events=len(books.events),
        num_checkpoints=disk.num_compared(),
    )


def _locate(name_or_file: str, runs: Path) -> tuple[str, Path, str]:
    """Return name, folder and database of the study of a file, or of a name under ``runs``."""
    name: Any = name_or_file
    if Path(name_or_file).suffix in (".yaml", ".yml"):
        # Of a study file the name is enough, whatever else is wrong with it by now.
        content: Any = yaml_file.load(Path(name_or_file))
        name = content.get("name") if isinstance(content, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"{name_or_file} names no study; give a study file, or a name")
    folder = (runs / name).absolute()
    note = read_study_note(folder / "study.json")
    if note is None:
        names = ", ".join(started_studies(runs))
        started = f"there are: {names}" if names else f"there are none under {runs}"
        raise UsageError(f"no study {name!r} that was started; {started}")
    url = storage_url(name, note["storage"])
    check_database(name, url)
    return name, folder, url


def _look(name: str, folder: Path, url: str, *, deep: bool) -> tuple[Books, Ledger, Disk]:
    books = read_books(name, url)
    pointed_to = defaultdict[int, list[int]](list)
    for node in books.nodes:
        pointed_to[node.trial].append(node.step)
    disk = Disk(folder, pointed_to=pointed_to, deep=deep)
    return books, read_ledger(books.events), disk


def find_faults(books: Books, ledger: Ledger, disk: Disk) -> list[Finding]:
    return [
        *check_study(books, ledger, disk),
        *check_trials(books, ledger, disk),
        *check_jobs(ledger, disk),
        *check_descent(books, ledger, disk),
        *check_snapshots(books),
    ]
