"""Snapshots: what commands that look at a study begin from says what its events add up to."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hpsearch.audit.books import Books, SnapshotInBooks
from hpsearch.audit.finding import Fault, Findings, is_same, shown
from hpsearch.audit.ledger import JobEntry, Ledger, TrialEntry
from hpsearch.audit.trials import guarded

CHECK = "snapshots"
VERSIONS = (1,)
"""those that are known here; readers pass over a snapshot of another one than their own"""


def check_snapshots(books: Books, ledger: Ledger) -> Findings:
    """Yield where a snapshot differs from the events up to the one at which it was made."""
    yield from guarded(CHECK, None, _check(books, ledger))


def _check(books: Books, ledger: Ledger) -> Findings:
    if not books.snapshots:
        return
    pieces = {int(row.name): row for row in books.snapshots if row.kind == "head"}
    head = json.loads("".join(pieces[place].data for place in range(len(pieces))) or "null")
    if head is None:
        yield Fault(CHECK, None, "there are rows of a snapshot, but no head")
        return
    if head["version"] not in VERSIONS:
        return
    last = head["state"]["last_event"]
    if {row.event for row in pieces.values()} != {last} or all(e.id != last for e in books.events):
        yield Fault(CHECK, None, f"its head says that it is of event {shown(last)}")
        return
    rows = [row for row in books.snapshots if row.event <= last]  # as readers do
    if len(rows) != len(books.snapshots):
        yield Fault(CHECK, None, f"there are rows newer than its head, of event {last}")
    yield from _head(head, books, ledger, rows)
    for row in rows:
        if row.kind == "trial":
            number = int(row.name)
            yield from guarded(CHECK, number, _settled(row, ledger.trials.get(number)))
        elif row.kind == "job":
            yield from guarded(CHECK, None, _job(json.loads(row.data), ledger.jobs.get(row.name)))
        elif row.kind not in ("head", "lines", "match"):
            yield Fault(CHECK, None, f"it has rows of an unknown kind, {shown(row.kind)}")
    yield from guarded(CHECK, None, _lines(ledger, rows))


def _head(
    head: Mapping[str, Any], books: Books, ledger: Ledger, rows: list[SnapshotInBooks]
) -> Findings:
    """The head has whatever no row has; and it counts all."""
    last = head["state"]["last_event"]
    for said in head["trials"]:
        trial = ledger.trials.get(said["number"])
        yield from guarded(CHECK, said["number"], _trial(said, trial, last))
    for said in head["jobs"]:
        yield from guarded(CHECK, None, _job(said, ledger.jobs.get(said["name"])))
    before = [event for event in books.events if event.id <= last]
    known: dict[str, tuple[set[Any], str]] = {
        "trial": ({str(e.trial) for e in before if e.kind == "asked"}, "number"),
        "job": ({e.job for e in before if e.kind == "announced"}, "name"),
        "match": ({str(e.data["match"]) for e in before if e.kind == "match_called"}, "number"),
    }
    for kind, (names, key) in known.items():
        plural = f"{kind}s" if kind != "match" else "matches"
        there = {row.name for row in rows if row.kind == kind}
        there |= {str(record[key]) for record in head[plural]}
        if head[f"num_{plural}"] != len(names):
            count = shown(head[f"num_{plural}"])
            yield Fault(CHECK, None, f"its head counts {count} {plural}, events {len(names)}")
        for name in sorted(there ^ names, key=str):
            whose = int(name) if kind == "trial" and str(name).isdecimal() else None
            side = "events know, but it has not" if name in names else "it has, but no event"
            yield Fault(CHECK, whose, f"there is a {kind} {shown(name)} that {side}")


def _settled(row: SnapshotInBooks, trial: TrialEntry | None) -> Findings:
    said = json.loads(row.data)
    if str(said["number"]) != row.name:
        yield Fault(CHECK, int(row.name), f"its row is of trial {shown(said['number'])}")
    if said.get("told") is None:
        yield Fault(CHECK, int(row.name), "its row says that it has ended, but not how")
    yield from _trial(said, trial, row.event)


def _trial(said: Mapping[str, Any], trial: TrialEntry | None, last: int) -> Findings:
    """A trial is as the events up to the last one make it."""
    if trial is None:
        return  # which is told of all that events don't know
    told = trial.told if trial.told is not None and trial.told.id <= last else None
    outcome: Mapping[str, Any] = {} if told is None else told.data
    reports = {
        str(s): report.data["value"] for s, report in trial.reports.items() if report.id <= last
    }
    expected = {
        "number": trial.number,
        "params": trial.params,
        "told": outcome.get("state"),
        "value": outcome.get("value"),
        "metrics": outcome.get("metrics", {}),
        "failure": outcome.get("failure"),
        "message": outcome.get("message", ""),
        "retry_of": trial.retry_of,
        "attempts": sum(attempt.announced <= last for attempt in trial.attempts),
        "reported": reports,
    }
    # What is as in a new trial is left out.
    new: dict[str, Any] = {
        "told": None,
        "value": None,
        "metrics": {},
        "failure": None,
        "message": "",
    }
    new |= {"retry_of": None, "attempts": 0, "reported": {}}
    for key, value in expected.items():
        if not is_same(said.get(key, new.get(key)), value):
            yield Fault(
                CHECK,
                trial.number,
                f"events say {key} {shown(value)}, the snapshot {shown(said.get(key))}",
            )


def _job(said: Mapping[str, Any], job: JobEntry | None) -> Findings:
    """A job was given what events announced, of which one that lives may have more by now."""
    if job is None:
        return
    groups = [
        [[assignment["trial"], assignment["attempt"], assignment["token"]] for assignment in g]
        for g in job.groups
    ]
    ended = said.get("ended", False)
    expected = groups if ended else groups[: len(said["groups"])]
    if not is_same(said["groups"], expected) or not groups[: len(said["groups"])]:
        yield Fault(
            CHECK,
            None,
            f"events give {shown(expected)} to job {job.name}, the snapshot "
            f"{shown(said['groups'])}",
        )
    if said.get("name") != job.name or (ended and not job.ended):
        yield Fault(CHECK, None, f"of job {job.name} the snapshot has {shown(said)}")
    if (ended or "id" in said) and said.get("id") != job.id:
        yield Fault(
            CHECK,
            None,
            f"events submit job {job.name} as {shown(job.id)}, the snapshot "
            f"{shown(said.get('id'))}",
        )


def _lines(ledger: Ledger, rows: list[SnapshotInBooks]) -> Findings:
    """Each trial that has settled has one line, with its number and how it ended."""
    settled = {row.name for row in rows if row.kind == "trial"}
    seen: set[str] = set()
    for number, state in _cells(rows):
        trial = ledger.trials.get(int(number)) if number.isdecimal() else None
        whose = None if trial is None else trial.number
        if number not in settled or number in seen:
            yield Fault(CHECK, whose, f"the list has a line of trial {shown(number)} too many")
        elif trial is not None and state != trial.state:
            yield Fault(
                CHECK, whose, f"events say {shown(trial.state)}, the list's line {shown(state)}"
            )
        seen.add(number)
    for name in sorted(settled - seen):
        yield Fault(CHECK, int(name), "the list of trials has no line of it")


def _cells(rows: list[SnapshotInBooks]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row.kind == "lines":
            for line in row.data.split("\n"):
                number, state, *_ = (*line.split("\t"), "")
                yield number, state
