"""One audit: looks at database and files, and looks again at what may only have been in flight."""

import time
from collections.abc import Mapping
from dataclasses import dataclass

from hpsearch.audit.books import Books, read_books
from hpsearch.audit.descent import check_descent
from hpsearch.audit.disk import Disk, read_disk
from hpsearch.audit.finding import AuditedPlace, Fault, Finding, Open
from hpsearch.audit.jobs import check_jobs, check_study
from hpsearch.audit.ledger import Ledger, read_ledger
from hpsearch.audit.snapshots import check_snapshots
from hpsearch.audit.trials import check_trials

LOOKS = 3
"""at a study that moves; what is no fault of its own is not there in all of them"""
PAUSE_SECONDS = 1.0
"""between two looks; a driver needs less for what it does in several steps"""


@dataclass(frozen=True)
class AuditReport:
    """What an audit has come to."""

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
        if ledger.rests or not any(isinstance(finding, Fault) for finding in findings):
            break
        time.sleep(PAUSE_SECONDS)
        before = {
            (finding.check, finding.trial) for finding in findings if isinstance(finding, Fault)
        }
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


def find_faults(books: Books, ledger: Ledger, disk: Disk) -> list[Finding]:
    """Return all that the checks find."""
    return [
        *check_study(books, ledger, disk),
        *check_trials(books, ledger, disk),
        *check_jobs(ledger, disk),
        *check_descent(books, ledger, disk),
        *check_snapshots(books, ledger),
    ]


def _pointed_to(books: Books) -> Mapping[int, list[int]]:
    steps: dict[int, list[int]] = {}
    for node in books.nodes:
        steps.setdefault(node.trial, []).append(node.step)
    return steps
