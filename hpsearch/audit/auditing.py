"""Runs an audit: finds a study, reads it, and checks it; the checks of its trials are elsewhere.

A snapshot must equal what the fold, with which readers continue it, makes of the same events.
"""

import hashlib
import json
import re
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.audit.books import Books, read_books
from hpsearch.audit.descent import HOW_A_PROGRAM_RUNS, check_descent
from hpsearch.audit.disk import Disk, StudyFile
from hpsearch.audit.finding import (
    AuditFinding,
    Fault,
    Findings,
    Open,
    Problems,
    checked,
    shown,
    unlike,
)
from hpsearch.audit.ledger import ENDINGS, RUNNING, VERBS, JobEntry, Ledger, folded, read_ledger
from hpsearch.audit.trials import check_trials
from hpsearch.errors import UsageError
from hpsearch.study import snapshots
from hpsearch.study.snapshots import HEAD, JOB, LINES, MATCH, TRIAL, VERSION
from hpsearch.study.state import StudyState
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
    CorruptError if what the folder says of it is damaged; StorageError and CorruptError as
    `read_books` does.
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


def find_faults(books: Books, ledger: Ledger, disk: Disk) -> list[AuditFinding]:
    return [
        *check_study(books, ledger, disk),
        *check_trials(books, ledger, disk),
        *check_jobs(ledger, disk),
        *check_descent(books, ledger, disk),
        *checked(SNAPSHOTS, None, _snapshots(books)),
    ]


NOT_SEARCHED = (
    *("storage", "budget", "max_failures", "executor", "executors"),
    *("prometheus", "notify", "track"),
)
"""keys of a study that may change while it goes on; known here too, as an audit must not trust what
it looks at"""
STATES = {RUNNING, *VERBS.values(), *ENDINGS}
PUT_ASIDE = ".json.damaged"  # end of the name that the driver gives a file which is no request
_HOLDER = re.compile(r".+/\d+/\d+\.\d+")  # host, process and its start
LONGEST_LEASE = 3600.0  # seconds; a lease is taken for five minutes, and clocks differ

SNAPSHOTS = "snapshots"


def check_jobs(ledger: Ledger, disk: Disk) -> Findings:
    """Yield jobs whose files don't say what their events say."""
    for name in disk.names("jobs"):
        if name not in ledger.jobs:
            yield Fault("jobs", None, f"job {shown(name)} has a folder, but was never announced")
    for job in ledger.jobs.values():
        yield from checked("jobs", None, _files(job, disk))


def _files(job: JobEntry, disk: Disk) -> Problems:
    for place, group in enumerate(job.groups):
        file = disk.assignment(job.name, place)
        if not file.exists:
            # The first is written before the job is submitted, the others soon after they are
            # announced; where a driver died in between, the next one writes them or ends the job.
            if place == 0 and job.id is not None:
                yield f"job {job.name} was submitted, but its job.json is missing"
            elif place < len(job.groups) - 1:
                yield f"job {job.name} has no {file.path}, but was given more"
            elif not job.ended:
                yield Open(None, f"job {job.name} was announced, but {file.path} is not written")
            continue
        if file.problem is not None:
            yield file.fault
            continue
        announced = {"assignments": group, "match": job.matches.get(place)}
        own = {key: file.get(key) for key in announced}
        for message in unlike(file.path, own, announced, f"events announced job {job.name} with"):
            yield Fault("jobs", group[0]["trial"] if group else None, message)
    for place, path in disk.numbered(f"jobs/{job.name}", "next").items():
        is_end = "job_closed" in job.kinds and place == len(job.groups)
        if place >= len(job.groups) and not is_end:
            yield f"job {job.name} has {path}, of which no event tells"


# The study itself.


def check_study(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    yield from ledger.faults
    yield from checked("spec", None, _spec(books))
    yield from checked("lease", None, _lease(books))
    yield from checked("status", None, _status(books, ledger))
    for file in disk.files("requests"):
        yield from checked("requests", None, _request(file, ledger))
    for file in disk.files("pins"):
        yield from checked("pins", None, _pin(file, disk))
    confirmation = disk.file("confirmation.json")
    if confirmation.exists:
        yield from checked("confirmation", None, _confirmation(confirmation, ledger, disk))


def _spec(books: Books) -> Problems:
    whole = json.loads(json.dumps(books.spec))
    if whole["population"] is None:  # as studies were before there were populations
        del whole["population"]
    elif whole["population"]["closing"] is None:  # as populations were before they could close
        del whole["population"]["closing"]
    for key in HOW_A_PROGRAM_RUNS:
        whole["base"].get("program", {}).pop(key, None)
    search = {key: value for key, value in whole.items() if key not in NOT_SEARCHED}
    sha256 = hashlib.sha256(json.dumps(search, sort_keys=True).encode()).hexdigest()
    if sha256 != books.spec_hash:
        yield f"the study's row holds the hash {shown(books.spec_hash)}, but its spec has {sha256}"
    if books.spec["name"] != books.name:
        yield f"the row of {books.name} holds the spec of {shown(books.spec['name'])}"
    goals = tuple(objective["goal"].upper() for objective in books.spec["objectives"])
    if goals != books.directions:
        yield f"the spec says {goals}, Optuna's study {books.directions}"


def _lease(books: Books) -> Problems:
    lease = books.lease
    if lease is None:
        if books.events:
            yield "there are events, but no driver ever held the study"
        return
    is_free = not lease.holder and not lease.expires_at
    is_held = bool(lease.holder) and _HOLDER.fullmatch(lease.holder)
    is_too_long = lease.expires_at - time.time() > LONGEST_LEASE
    if lease.token < 1 or is_too_long or not (is_free or is_held):
        yield f"the lease's row says {shown(lease._asdict())}"


def _status(books: Books, ledger: Ledger) -> Problems:
    if books.state == (ledger.status or RUNNING):
        return
    message = f"events say that the study is {ledger.status}, its row {shown(books.state)}"
    # A driver shows a new status before it writes another event; it may fail in between.
    is_shown = books.events and books.events[-1].kind not in ("started", "ended", "requested")
    yield message if is_shown or books.state not in STATES else Open(None, message)


def _request(file: StudyFile, ledger: Ledger) -> Problems:
    identity, verb = file.get("id"), file.get("verb")
    if file.path.endswith(PUT_ASIDE):
        yield Open(None, f"{shown(file.path)} was no request, and was put aside; remove it")
    elif f"requests/{identity}.json" != file.path or verb is None:
        yield f"{file.path} {file.problem or 'is no request'}; no driver has read it"
    elif identity in ledger.requests:
        yield Open(None, f"{file.path} was read by the driver, and is not removed yet")
    else:
        yield Open(None, f"{file.path} asks for {shown(verb)}, and no driver has read it yet")


def _pin(file: StudyFile, disk: Disk) -> Problems:
    content = file.whole()
    if Path(content["study"]).is_dir():
        for place in content["checkpoints"]:
            if not disk.holds(place):
                yield f"{file.path} needs {shown(place)}, which is missing"


def _confirmation(file: StudyFile, ledger: Ledger, disk: Disk) -> Problems:
    def blamed(trial: Any, why: str) -> Fault:
        return Fault("confirmation", trial, f"{file.path} {why}")

    content = file.whole()
    ranked, best = [entry["trial"] for entry in content["trials"]], content["best"]
    for trial in (content["favourite"], *ranked):
        if not ledger.told(trial, "finished"):
            yield blamed(trial, "compares it, but no event tells it as finished")
    if ranked and best != ranked[0]:
        yield blamed(best, f"names it the best, but lists {ranked}")
    maker = content["trained_by"]
    if maker is None or not (disk.root.parent / maker).is_dir():
        return
    for entry in content["trials"]:
        for number in (seed["trial"] for seed in entry["seeds"]):
            if not (disk.root.parent / maker / "trials" / str(number)).is_dir():
                which = f"trial {number} of {shown(maker)}"
                yield blamed(entry["trial"], f"names {which}, which has no folder")


# Snapshots.

_LISTS = {"trials": (TRIAL, "number"), "jobs": (JOB, "name"), "matches": (MATCH, "number")}
"""lists of records in a head: the kind of the records, and the key of their names"""


def _snapshots(books: Books) -> Problems:
    """A snapshot, from which readers begin, is what its events add up to."""
    if not books.snapshots:
        return
    pieces = {int(row.name): row for row in books.snapshots if row.kind == HEAD}
    head = json.loads("".join(pieces[place].data for place in range(len(pieces))) or "null")
    if head is None:
        yield "there are rows of a snapshot, but no head"
        return
    if head["version"] != VERSION:  # readers pass over it
        return
    last = head["state"]["last_event"]
    if {row.event for row in pieces.values()} != {last} or all(e.id != last for e in books.events):
        yield f"its head says that it is of event {shown(last)}"
        return
    rows = [row for row in books.snapshots if row.event <= last]  # as readers do
    if len(rows) != len(books.snapshots):
        yield f"there are rows newer than its head, of event {last}"
    for kind in sorted({row.kind for row in rows} - {HEAD, LINES, TRIAL, JOB, MATCH}):
        yield f"it has rows of an unknown kind, {shown(kind)}"
    state = folded(event for event in books.events if event.id <= last)
    if state is None:
        yield "it is not checked until the events are right, which no command can read"
        return
    yield from _compared(head, rows, state)
    yield from checked(SNAPSHOTS, None, _lines(rows, state))


def _compared(head: Mapping[str, Any], rows: list[Any], state: StudyState) -> Problems:
    """The rows are the records that change no more, the head is all the rest."""
    expected = json.loads(snapshots.head_text(state))
    texts = snapshots.settled(state, {TRIAL: set(), JOB: set(), MATCH: set()})
    told = [(kind, *row) for kind, by_name in texts.items() for row in by_name.items()]
    own = _records(head, ((row.kind, row.name, row.data) for row in rows if row.kind in texts))
    by_events = _records(expected, told)
    for place in sorted({*own, *by_events}):
        where, kind, name = place
        trial = int(name) if kind == TRIAL and name.isdecimal() else None
        record = f"{kind} {shown(name)} in the snapshot's {where}"
        yield from checked(SNAPSHOTS, trial, _record(record, own.get(place), by_events.get(place)))
    rest, expected_rest = (
        {key: value for key, value in data.items() if key not in _LISTS}
        for data in (head, expected)
    )
    yield from unlike("the snapshot's head", rest, expected_rest, "events add up to")


def _records(
    head: Mapping[str, Any], rows: Iterable[tuple[str, str, str]]
) -> dict[tuple[str, str, str], str]:
    """Return the texts of all records, by where they stand, kind and name."""
    texts = {("rows", kind, name): text for kind, name, text in rows}
    for plural, (kind, key) in _LISTS.items():
        texts |= {("head", kind, str(item[key])): json.dumps(item) for item in head[plural]}
    return texts


def _record(record: str, own: str | None, by_events: str | None) -> Iterator[str]:
    if own is None or by_events is None:
        yield f"{record} {'is missing' if own is None else 'is too many, as events say'}"
    else:
        yield from unlike(record, json.loads(own), json.loads(by_events))


def _lines(rows: list[Any], state: StudyState) -> Problems:
    """Each trial that has settled has one line, with its number and how it ended."""
    settled = filter(snapshots.is_settled, state.trials.values())
    told = {str(trial.number): trial.told for trial in settled}
    seen: dict[str, str] = {}
    for row in rows:
        for line in row.data.split("\n") if row.kind == LINES else ():
            number, _, how = line.partition("\t")
            how = how.partition("\t")[0]
            if number in seen or number not in told:
                trial = int(number) if number.isdecimal() else None
                message = f"the list has a line of trial {shown(number)} too many"
                yield Fault(SNAPSHOTS, trial, message)
            seen[number] = how
    for number in sorted(told):
        if seen.get(number) != told[number]:
            own = f"the list's line {shown(seen.get(number))}"
            yield Fault(SNAPSHOTS, int(number), f"events say {shown(told[number])}, {own}")
