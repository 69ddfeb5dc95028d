"""Checks of a study: its database, its driver, and what should not lie in its folder."""

import os
import statistics
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from sqlalchemy import inspect, text
from sqlalchemy.orm import Session

from hpsearch.cluster.study_dir import StudyDir, TrialDir
from hpsearch.doctor.finding import Finding, error, ok, skipped, warning
from hpsearch.doctor.machine import Mounts, file_system_of, nearest
from hpsearch.errors import CorruptError, DiskError
from hpsearch.files import read_json
from hpsearch.study.database import VERSION_TABLE, Database, StudyRecords, migrations_config
from hpsearch.study.events import Lease, Leases
from hpsearch.study.options import LocalOptions
from hpsearch.study.requests import is_dead, waiting
from hpsearch.study.spec import Study
from hpsearch.study.stored_spec import spec_hash
from hpsearch.study.url import hide_password, sqlite_file, storage_url, url_problem

SLOW_SECONDS = 0.2  # a query that takes longer is slow: a driver makes one at each event


def check_database(study: Study, folder: StudyDir, mounts: Mounts) -> Iterator[Finding]:
    """Look at URL, file system, reachability, speed, tables and lease; writes nothing."""
    url = storage_url(study.spec.name, study.spec.storage)
    if (problem := url_problem(url)) is not None:
        yield error(f"storage {problem}")
        return
    if file := sqlite_file(url):
        is_cluster = not isinstance(study.executor, LocalOptions)
        yield check_sqlite_place(Path(file), mounts, is_cluster=is_cluster)
        if not os.path.exists(file):
            yield _missing(Path(file), folder)
            return
    with closing(Database.open(url)) as database:
        yield _latency(database, url)
        version = _version(database)
        yield check_schema(version, newest_version())
        if version is not None:
            yield from _record_findings(database, study, time.time())


def check_sqlite_place(file: Path, mounts: Mounts, *, is_cluster: bool) -> Finding:
    """Look whether the locks that SQLite lives by can be trusted where its file lies."""
    file_system = file_system_of(file, mounts)
    if file_system is None:
        return skipped(f"{file} is on a file system that is not known", "SQLite")
    if not file_system.is_network:
        return ok(f"{file} is on {file_system.type}, a local one", "SQLite")
    note = f"{file} is on {file_system.type}, a network file system"
    server = "give storage a server, such as postgresql+psycopg://..., or a file on a local disk"
    if is_cluster:
        danger = "the driver may run on several hosts, which can damage a SQLite file"
        return error(f"{note}, and {danger}; {server}", "SQLite")
    limit = "which works as long as one machine alone uses it"
    return warning(f"{note}, {limit}; to be sure, {server}", "SQLite")


def check_schema(version: str | None, newest: str) -> Finding:
    name = "tables"
    if version is None:
        return ok("there are none yet; the first run makes them", name)
    if version == newest:
        return ok(f"version {version}, the newest", name)
    if version < newest:
        return warning(f"version {version}; the next run brings them to {newest}", name)
    note = f"version {version} was made by a newer hpsearch than this ({newest})"
    return error(f"{note}; update hpsearch", name)


def check_lease(lease: Lease | None, now: float) -> Finding:
    if lease is None or lease.expires_at <= now:
        return ok("no driver has the study now", "driver")
    note = f"drives the study, its lease ends in {lease.expires_at - now:.0f} s"
    if is_dead(lease.holder):
        note = "drove the study and is dead; the next run takes over at once"
    return ok(f"{lease.holder} {note}", "driver")


def newest_version() -> str:
    from alembic.script import ScriptDirectory

    head = ScriptDirectory.from_config(migrations_config()).get_current_head()
    assert head is not None
    return head


def _missing(file: Path, folder: StudyDir) -> Finding:
    if folder.spec.exists():
        note = f"{file} is gone, but the study was started"
        return error(f"{note}; restore it, or run this where it began")
    place = nearest(file.parent)
    if not os.access(place, os.W_OK | os.X_OK):
        note = f"{file} cannot be made, since {place} is not writable"
        return error(f"{note}; give storage another path")
    return ok(f"{file} is not there yet; the first run makes it")


def _latency(database: Database, url: str) -> Finding:
    answers = []
    for _ in range(5):
        began = time.monotonic()
        database.transaction(lambda session: session.execute(text("SELECT 1")))
        answers.append(time.monotonic() - began)
    seconds = statistics.median(answers)
    note = f"{hide_password(url)} answers in {seconds * 1000:.1f} ms"
    if seconds <= SLOW_SECONDS:
        return ok(note)
    remedy = "run the driver nearer to it, since it waits for an answer at each event"
    return warning(f"{note}, which is slow; {remedy}")


def _version(database: Database) -> str | None:
    def read(session: Session) -> str | None:
        if not inspect(session.connection()).has_table(VERSION_TABLE):
            return None
        return session.execute(text(f"SELECT version_num FROM {VERSION_TABLE}")).scalar()

    return database.transaction(read)


def _record_findings(database: Database, study: Study, now: float) -> Iterator[Finding]:
    record = StudyRecords(database).get(study.spec.name)
    if record is None:
        yield ok("the study has not been started", "driver")
        return
    if record.spec_hash != spec_hash(study):
        note = f"the database holds a study {study.spec.name} that searches something else"
        yield error(f"{note}; give this one another name, or restore its file", "search")
    yield check_lease(Leases(database).current(record.id), now)


OLD_SECONDS = 600.0  # after which a driver that runs has taken a request


def check_requests(folder: StudyDir, now: float | None = None) -> Iterator[Finding]:
    pattern = "[!.]*.json*"  # a dot begins what is still being written
    before = set(folder.requests.glob(pattern))
    requests = waiting(folder)
    # Meanwhile a driver may take some, and users may leave others.
    there = before.intersection(folder.requests.glob(pattern))
    unread = there - {folder.request(request.id) for request in requests}
    if unread:
        note = f"{len(unread)} files in {folder.requests} are no requests and are not heard"
        yield warning(f"{note}; remove them")
    verbs = ", ".join(request.verb for request in requests)
    moment = time.time() if now is None else now
    if any(moment - request.at > OLD_SECONDS for request in requests):
        start = f"start one with: hpsearch run {folder.root.name}"
        yield warning(f"{verbs} wait for a driver; {start}")
    elif not unread:
        yield ok(f"{verbs or 'none'} waiting in {folder.requests}")


def check_files(folder: StudyDir) -> Iterator[Finding]:
    are_whole = True
    for path in _messages(folder):
        try:
            read_json(path)
        except (CorruptError, DiskError):
            are_whole = False
            yield warning(f"{path} is damaged; remove it, or restore it from a copy")
    if are_whole:
        yield ok(f"none is damaged in {folder.root}")


def _messages(folder: StudyDir) -> Iterator[Path]:
    yield from (folder.spec, folder.driver)
    for trial in sorted(folder.trials.glob("*")):
        yield from sorted(trial.glob("*.json"))
        for attempt in TrialDir(trial).attempts:
            yield from sorted(attempt.root.glob("*.json"))
