"""What lies in a study's folder and should not: requests nobody takes, files that are damaged."""

import time
from collections.abc import Iterator
from pathlib import Path

from hpsearch.bounded import read_json
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.cluster.trial_dir import TrialDir
from hpsearch.errors import CorruptError, DiskError
from hpsearch.report.doctor.finding import Finding
from hpsearch.study.requests import waiting

OLD_SECONDS = 600.0
"""after which a driver that runs has taken a request"""


def check_requests(folder: StudyDir, now: float | None = None) -> Iterator[Finding]:
    """Look for requests that wait for long, and for files that are no requests."""
    requests = waiting(folder)
    unread = len(list(folder.requests.glob("*.json*"))) - len(requests)
    if unread > 0:
        said = f"{unread} files in {folder.requests} are no requests and are not heard; remove them"
        yield Finding("requests", "warning", said)
    verbs = ", ".join(request.verb for request in requests)
    moment = time.time() if now is None else now
    if any(moment - request.at > OLD_SECONDS for request in requests):
        said = f"{verbs} wait for a driver; start one with: hpsearch run {folder.root.name}"
        yield Finding("requests", "warning", said)
    elif unread <= 0:
        yield Finding("requests", "ok", f"{verbs or 'none'} waiting in {folder.requests}")


def check_files(folder: StudyDir) -> Iterator[Finding]:
    """Look for damaged files that the driver or a job would stumble upon."""
    damaged = [path for path in _messages(folder) if not _is_readable(path)]
    for path in damaged:
        said = f"{path} is damaged; remove it, or restore it from a copy"
        yield Finding("files", "warning", said)
    if not damaged:
        yield Finding("files", "ok", f"none is damaged in {folder.root}")


def _messages(folder: StudyDir) -> Iterator[Path]:
    yield from (folder.spec, folder.driver)
    for trial in sorted(folder.trials.glob("*")):
        yield from sorted(trial.glob("*.json"))
        for attempt in TrialDir(trial).attempts:
            yield from sorted(attempt.root.glob("*.json"))


def _is_readable(path: Path) -> bool:
    try:
        read_json(path)
    except (CorruptError, DiskError):
        return False
    return True
