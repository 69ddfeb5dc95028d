"""Jobs, requests and the study itself: what events say of them, and what their files say."""

import hashlib
import json
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hpsearch.audit.books import Books
from hpsearch.audit.disk import Disk, StudyFile
from hpsearch.audit.finding import Fault, Findings, Open, is_same, shown
from hpsearch.audit.ledger import ENDINGS, RUNNING, VERBS, JobEntry, Ledger
from hpsearch.audit.trials import guarded

NOT_SEARCHED = ("storage", "budget", "max_failures", "executor", "prometheus")
"""keys of a study that may change while it goes on"""
STATES = {RUNNING, *VERBS.values(), *ENDINGS}
PUT_ASIDE = ".json.damaged"
"""end of the name that the driver gives a file which is no request"""
_HOLDER = re.compile(r".+/\d+/\d+\.\d+")
"""host, process and its start"""
LONGEST_LEASE = 3600.0
"""seconds; a lease is taken for five minutes, and clocks differ"""


def check_jobs(ledger: Ledger, disk: Disk) -> Findings:
    """Yield jobs whose files don't say what their events say."""
    for name in sorted(disk.jobs.keys() - ledger.jobs.keys()):
        yield Fault("jobs", None, f"job {shown(name)} has a folder, but was never announced")
    for name, job in ledger.jobs.items():
        yield from guarded("jobs", None, _files(name, job, disk))


def _files(name: str, job: JobEntry, disk: Disk) -> Findings:
    files = disk.job(name)
    for place, group in enumerate(job.groups):
        file = files.plan if place == 0 else files.later.get(place, StudyFile(f"next-{place}.json"))
        if not file.exists:
            # The first is written before the job is submitted, the others soon after they are
            # announced; where a driver died in between, the next one writes them or ends the job.
            if place == 0 and job.id is not None:
                yield Fault("jobs", None, f"job {name} was submitted, but its job.json is missing")
            elif place < len(job.groups) - 1:
                yield Fault("jobs", None, f"job {name} has no {file.path}, but was given more")
            elif not job.ended:
                yield Open(None, f"job {name} was announced, and {file.path} is not written yet")
            continue
        said = file.data if isinstance(file.data, dict) else {}
        if not is_same(said.get("assignments"), group):
            yield Fault(
                "jobs",
                None if not group else group[0]["trial"],
                f"job {name} was announced with {shown(group)}, but {file.path} "
                f"{file.problem or 'says ' + shown(said.get('assignments'))}",
            )
        if not is_same(said.get("match"), job.matches.get(place)):
            yield Fault(
                "jobs",
                None,
                f"job {name} was given match {job.matches.get(place)}, but {file.path} says "
                f"{shown(said.get('match'))}",
            )
    for place, file in files.later.items():
        is_end = job.closed and place == len(job.groups)
        if place >= len(job.groups) and not is_end:
            yield Fault("jobs", None, f"job {name} has {file.path}, of which no event tells")


# The study itself.


def check_study(books: Books, ledger: Ledger, disk: Disk) -> Findings:
    """Yield what is wrong with the study's own rows and files."""
    yield from ledger.faults
    yield from guarded("spec", None, _spec(books))
    yield from guarded("lease", None, _lease(books))
    yield from guarded("status", None, _status(books, ledger))
    for file in disk.requests:
        yield from guarded("requests", None, _request(file, ledger))
    for file in disk.pins:
        yield from guarded("pins", None, _pin(file, disk))
    if disk.confirmation.exists:
        yield from guarded("confirmation", None, _confirmation(disk.confirmation, ledger, disk))


def _spec(books: Books) -> Findings:
    whole = json.loads(json.dumps(books.spec))
    if whole["population"] is None:  # as studies were before there were populations
        del whole["population"]
    elif whole["population"]["closing"] is None:  # as populations were before they could close
        del whole["population"]["closing"]
    search = {key: value for key, value in whole.items() if key not in NOT_SEARCHED}
    sha256 = hashlib.sha256(json.dumps(search, sort_keys=True).encode()).hexdigest()
    if sha256 != books.spec_hash:
        yield Fault(
            "spec",
            None,
            f"the study's row holds the hash {shown(books.spec_hash)}, but its spec has {sha256}",
        )
    if books.spec["name"] != books.name:
        yield Fault(
            "spec", None, f"the row of {books.name} holds the spec of {shown(books.spec['name'])}"
        )
    goals = tuple(objective["goal"].upper() for objective in books.spec["objectives"])
    if goals != books.directions:
        yield Fault("spec", None, f"the spec says {goals}, Optuna's study {books.directions}")


def _lease(books: Books) -> Findings:
    lease = books.lease
    if lease is None:
        if books.events:
            yield Fault("lease", None, "there are events, but no driver ever held the study")
    else:
        left = lease.expires_at - time.time()
        is_named = not lease.holder or _HOLDER.fullmatch(lease.holder)
        is_kept = bool(lease.holder) or not lease.expires_at
        if lease.token < 1 or left > LONGEST_LEASE or not (is_named and is_kept):
            yield Fault("lease", None, f"the lease's row says {shown(vars(lease))}")


def _status(books: Books, ledger: Ledger) -> Findings:
    if books.state == (ledger.status or RUNNING):
        return
    said = f"events say that the study is {ledger.status}, its row {shown(books.state)}"
    # A driver shows a new status before it writes another event; it may fail in between.
    is_shown = books.events and books.events[-1].kind not in ("started", "ended", "requested")
    if is_shown or books.state not in STATES:
        yield Fault("status", None, said)
    else:
        yield Open(None, said)


def _request(file: StudyFile, ledger: Ledger) -> Findings:
    if file.path.endswith(PUT_ASIDE):
        yield Open(None, f"{shown(file.path)} was no request, and was put aside; remove it")
        return
    said = file.data if isinstance(file.data, dict) else {}
    identity = said.get("id")
    if f"requests/{identity}.json" != file.path or "verb" not in said:
        yield Fault(
            "requests", None, f"{file.path} {file.problem or 'is no request'}; it is unheard"
        )
    elif identity in ledger.requests:
        yield Open(None, f"{file.path} was heard, and not removed yet")
    else:
        yield Open(None, f"{file.path} asks for {shown(said['verb'])}, and is not heard yet")


def _pin(file: StudyFile, disk: Disk) -> Findings:
    said: Mapping[str, Any] = file.data
    if file.problem is not None:
        yield Fault("pins", None, f"{file.path} {file.problem}")
    elif Path(said["study"]).is_dir():
        for place in said["checkpoints"]:
            if not disk.holds(place):
                yield Fault("pins", None, f"{file.path} needs {shown(place)}, which is missing")


def _confirmation(file: StudyFile, ledger: Ledger, disk: Disk) -> Findings:
    if file.problem is not None:
        yield Fault("confirmation", None, f"{file.path} {file.problem}")
        return
    said: Mapping[str, Any] = file.data
    ranked = [entry["trial"] for entry in said["trials"]]
    for trial in (said["favourite"], *ranked):
        if not ledger.told(trial, "finished"):
            yield Fault(
                "confirmation", trial, f"{file.path} compares it, but no event tells it as finished"
            )
    if ranked and said["best"] != ranked[0]:
        yield Fault(
            "confirmation", said["best"], f"{file.path} names it the best, but lists {ranked}"
        )
    maker = said["trained_by"]
    if maker is not None and (disk.root.parent / maker).is_dir():
        for entry in said["trials"]:
            for seed in entry["seeds"]:
                if not (disk.root.parent / maker / "trials" / str(seed["trial"])).is_dir():
                    yield Fault(
                        "confirmation",
                        entry["trial"],
                        f"{file.path} names trial {seed['trial']} of {shown(maker)}, which has no "
                        "folder",
                    )
