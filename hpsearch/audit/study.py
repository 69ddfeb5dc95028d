"""Jobs, requests, the study's own rows and its snapshot: what events, tables and files say."""

import hashlib
import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hpsearch.audit.books import Books, SnapshotInBooks
from hpsearch.audit.disk import Disk, StudyFile
from hpsearch.audit.finding import Fault, Findings, Open, Problems, checked, is_same, shown, unlike
from hpsearch.audit.ledger import ENDINGS, RUNNING, VERBS, JobEntry, Ledger, TrialEntry

NOT_SEARCHED = ("storage", "budget", "max_failures", "executor", "prometheus")
"""keys of a study that may change while it goes on"""
STATES = {RUNNING, *VERBS.values(), *ENDINGS}
PUT_ASIDE = ".json.damaged"
"""end of the name that the driver gives a file which is no request"""
_HOLDER = re.compile(r".+/\d+/\d+\.\d+")
"""host, process and its start"""
LONGEST_LEASE = 3600.0
"""seconds; a lease is taken for five minutes, and clocks differ"""

SNAPSHOTS = "snapshots"
VERSIONS = (1,)
"""those that are known here; readers pass over a snapshot of another one than their own"""
NEW_TRIAL: Mapping[str, Any] = {
    "told": None,
    "value": None,
    "metrics": {},
    "failure": None,
    "message": "",
    "retry_of": None,
    "attempts": 0,
    "reported": {},
}
"""what a snapshot leaves out of a trial"""


def check_jobs(ledger: Ledger, disk: Disk) -> Findings:
    """Yield jobs whose files don't say what their events say."""
    for name in sorted(disk.jobs.keys() - ledger.jobs.keys()):
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
                yield Open(
                    None, f"job {job.name} was announced, and {file.path} is not written yet"
                )
            continue
        own = file.get("assignments")
        if not is_same(own, group):
            content = file.problem or "says " + shown(own)
            announced = f"job {job.name} was announced with {shown(group)}"
            message = f"{announced}, but {file.path} {content}"
            yield Fault("jobs", group[0]["trial"] if group else None, message)
        match = job.matches.get(place)
        if not is_same(file.get("match"), match):
            own = shown(file.get("match"))
            yield f"job {job.name} was given match {match}, but {file.path} says {own}"
    for place, file in disk.jobs.get(job.name, {}).items():
        is_end = job.closed and place == len(job.groups)
        if place >= len(job.groups) and not is_end:
            yield f"job {job.name} has {file.path}, of which no event tells"


# The study itself.


def check_study(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield what is wrong with the study's own rows and files."""
    yield from ledger.faults
    yield from checked("spec", None, _spec(books))
    yield from checked("lease", None, _lease(books))
    yield from checked("status", None, _status(books, ledger))
    for file in disk.requests:
        yield from checked("requests", None, _request(file, ledger))
    for file in disk.pins:
        yield from checked("pins", None, _pin(file, disk))
    if disk.confirmation.exists:
        yield from checked("confirmation", None, _confirmation(disk.confirmation, ledger, disk))


def _spec(books: Books) -> Problems:
    whole = json.loads(json.dumps(books.spec))
    if whole["population"] is None:  # as studies were before there were populations
        del whole["population"]
    elif whole["population"]["closing"] is None:  # as populations were before they could close
        del whole["population"]["closing"]
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
    holder, expires_at = lease["holder"], lease["expires_at"]
    is_free = not holder and not expires_at
    is_held = bool(holder) and _HOLDER.fullmatch(holder)
    is_too_long = expires_at - time.time() > LONGEST_LEASE
    if lease["token"] < 1 or is_too_long or not (is_free or is_held):
        yield f"the lease's row says {shown(lease)}"


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
        yield f"{file.path} {file.problem or 'is no request'}; it is unheard"
    elif identity in ledger.requests:
        yield Open(None, f"{file.path} was heard, and not removed yet")
    else:
        yield Open(None, f"{file.path} asks for {shown(verb)}, and is not heard yet")


def _pin(file: StudyFile, disk: Disk) -> Problems:
    if file.problem is not None:
        yield f"{file.path} {file.problem}"
    elif Path(file.data["study"]).is_dir():
        for place in file.data["checkpoints"]:
            if not disk.holds(place):
                yield f"{file.path} needs {shown(place)}, which is missing"


def _confirmation(file: StudyFile, ledger: Ledger, disk: Disk) -> Problems:
    if file.problem is not None:
        yield f"{file.path} {file.problem}"
        return
    content: Mapping[str, Any] = file.data
    ranked, best = [entry["trial"] for entry in content["trials"]], content["best"]
    for trial in (content["favourite"], *ranked):
        if not ledger.told(trial, "finished"):
            message = f"{file.path} compares it, but no event tells it as finished"
            yield Fault("confirmation", trial, message)
    if ranked and best != ranked[0]:
        message = f"{file.path} names it the best, but lists {ranked}"
        yield Fault("confirmation", best, message)
    maker = content["trained_by"]
    if maker is None or not (disk.root.parent / maker).is_dir():
        return
    for entry in content["trials"]:
        for number in (seed["trial"] for seed in entry["seeds"]):
            if not (disk.root.parent / maker / "trials" / str(number)).is_dir():
                which = f"trial {number} of {shown(maker)}"
                message = f"{file.path} names {which}, which has no folder"
                yield Fault("confirmation", entry["trial"], message)


# Snapshots.


def check_snapshots(books: Books, ledger: Ledger) -> Findings:
    """Yield where a snapshot differs from the events up to the one at which it was made."""
    yield from checked(SNAPSHOTS, None, _check(books, ledger))


def _check(books: Books, ledger: Ledger) -> Problems:
    if not books.snapshots:
        return
    pieces = {int(row.name): row for row in books.snapshots if row.kind == "head"}
    head = json.loads("".join(pieces[place].data for place in range(len(pieces))) or "null")
    if head is None:
        yield "there are rows of a snapshot, but no head"
        return
    if head["version"] not in VERSIONS:
        return
    last = head["state"]["last_event"]
    if {row.event for row in pieces.values()} != {last} or all(e.id != last for e in books.events):
        yield f"its head says that it is of event {shown(last)}"
        return
    rows = [row for row in books.snapshots if row.event <= last]  # as readers do
    if len(rows) != len(books.snapshots):
        yield f"there are rows newer than its head, of event {last}"
    yield from _head(head, books, ledger, rows)
    for row in rows:
        if row.kind == "trial":
            number = int(row.name)
            yield from checked(SNAPSHOTS, number, _settled(row, ledger.trials.get(number)))
        elif row.kind == "job":
            yield from checked(
                SNAPSHOTS, None, _snapshot_job(json.loads(row.data), ledger.jobs.get(row.name))
            )
        elif row.kind not in ("head", "lines", "match"):
            yield f"it has rows of an unknown kind, {shown(row.kind)}"
    yield from checked(SNAPSHOTS, None, _lines(ledger, rows))


def _head(
    head: Mapping[str, Any], books: Books, ledger: Ledger, rows: list[SnapshotInBooks]
) -> Problems:
    """The head has whatever no row has; and it counts all."""
    last = head["state"]["last_event"]
    for stored in head["trials"]:
        trial = ledger.trials.get(stored["number"])
        yield from checked(SNAPSHOTS, stored["number"], _snapshot_trial(stored, trial, last))
    for stored in head["jobs"]:
        yield from checked(SNAPSHOTS, None, _snapshot_job(stored, ledger.jobs.get(stored["name"])))
    before = [event for event in books.events if event.id <= last]
    matches = {str(event.data["match"]) for event in before if event.kind == "match_called"}
    kinds: tuple[tuple[str, str, str, set[Any]], ...] = (
        ("trial", "trials", "number", {str(e.trial) for e in before if e.kind == "asked"}),
        ("job", "jobs", "name", {e.job for e in before if e.kind == "announced"}),
        ("match", "matches", "number", matches),
    )
    for kind, plural, key, names in kinds:
        stored_names = {row.name for row in rows if row.kind == kind}
        stored_names |= {str(record[key]) for record in head[plural]}
        if head[f"num_{plural}"] != len(names):
            yield f"its head counts {shown(head[f'num_{plural}'])} {plural}, events {len(names)}"
        for name in sorted(stored_names ^ names, key=str):
            whose = int(name) if kind == "trial" and str(name).isdecimal() else None
            side = "events know, but it has not" if name in names else "it has, but no event"
            yield Fault(SNAPSHOTS, whose, f"there is a {kind} {shown(name)} that {side}")


def _settled(row: SnapshotInBooks, trial: TrialEntry | None) -> Problems:
    stored = json.loads(row.data)
    if str(stored["number"]) != row.name:
        yield f"its row is of trial {shown(stored['number'])}"
    if stored.get("told") is None:
        yield "its row says that it has ended, but not how"
    yield from _snapshot_trial(stored, trial, row.event)


def _snapshot_trial(stored: Mapping[str, Any], trial: TrialEntry | None, last: int) -> Problems:
    """A trial is as the events up to the last one make it."""
    if trial is None:
        return  # which is told of all that events don't know
    told = trial.told if trial.told is not None and trial.told.id <= last else None
    outcome: Mapping[str, Any] = {} if told is None else told.data
    expected = {
        **NEW_TRIAL,
        **{key: outcome[key] for key in ("value", "metrics", "failure", "message") if outcome},
        "number": trial.number,
        "params": trial.params,
        "told": outcome.get("state"),
        "retry_of": trial.retry_of,
        "attempts": sum(attempt.announced <= last for attempt in trial.attempts),
        "reported": {
            str(step): event.data["value"]
            for step, event in trial.reports.items()
            if event.id <= last
        },
    }
    own = {key: stored.get(key, NEW_TRIAL.get(key)) for key in expected}
    for message in unlike("the snapshot", own, expected):
        yield Fault(SNAPSHOTS, trial.number, message)


def _snapshot_job(stored: Mapping[str, Any], job: JobEntry | None) -> Problems:
    """A job was given what events announced, of which one that lives may have more by now."""
    if job is None:
        return
    groups = [
        [[assignment[key] for key in ("trial", "attempt", "token")] for assignment in group]
        for group in job.groups
    ]
    ended, num_groups = stored.get("ended", False), len(stored["groups"])
    expected = groups if ended else groups[:num_groups]
    if not is_same(stored["groups"], expected) or not groups[:num_groups]:
        own = f"the snapshot {shown(stored['groups'])}"
        yield f"events give {shown(expected)} to job {job.name}, {own}"
    if stored.get("name") != job.name or (ended and not job.ended):
        yield f"of job {job.name} the snapshot has {shown(stored)}"
    if (ended or "id" in stored) and stored.get("id") != job.id:
        own = f"the snapshot {shown(stored.get('id'))}"
        yield f"events submit job {job.name} as {shown(job.id)}, {own}"


def _lines(ledger: Ledger, rows: list[SnapshotInBooks]) -> Problems:
    """Each trial that has settled has one line, with its number and how it ended."""
    settled = {row.name for row in rows if row.kind == "trial"}
    seen: set[str] = set()
    for number, state in _cells(rows):
        trial = ledger.trials.get(int(number)) if number.isdecimal() else None
        whose = None if trial is None else trial.number
        if number not in settled or number in seen:
            yield Fault(SNAPSHOTS, whose, f"the list has a line of trial {shown(number)} too many")
        elif trial is not None and state != trial.state:
            own = f"the list's line {shown(state)}"
            yield Fault(SNAPSHOTS, whose, f"events say {shown(trial.state)}, {own}")
        seen.add(number)
    for name in sorted(settled - seen):
        yield Fault(SNAPSHOTS, int(name), "the list of trials has no line of it")


def _cells(rows: list[SnapshotInBooks]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.kind == "lines":
            for line in row.data.split("\n"):
                number, state, *_ = (*line.split("\t"), "")
                yield number, state
