"""A study of very many trials: its events, written in bulk because driving it would take days."""

import json
import random
from collections.abc import Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from sqlalchemy import insert

from hpsearch import yaml_file
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.files import write_json
from hpsearch.study.database import Database, EventRow, StudyRecords
from hpsearch.study.events import Event, EventLog, Lease, Leases
from hpsearch.study.snapshots import SnapshotWriter
from hpsearch.study.spec import Study, load_spec
from hpsearch.study.state import RUNNING, StudyState
from hpsearch.study.stored_spec import spec_hash, spec_json
from hpsearch.study.view import trial_line

STUDIES = Path(__file__).parents[1] / "studies"
JOB = 8
"""trials that a job trains together"""
NUM_REPORTS, INTERVAL = 4, 500
NUM_RUNNING = 64
METRICS = ("host/choose_first", "host/random", "host/best", "agent/zeillinger", "agent/random")
AT_ONCE = 20_000


def long_study(folder: Path, num_trials: int) -> Study:
    """Return a study whose last trials run, whose others have ended; it has no snapshot."""
    data = yaml_file.load(STUDIES / "choose_first.yaml")
    changes = {
        "name": "long",
        "storage": f"sqlite:///{folder}/long.db",
        "base": str(STUDIES / "trainers/choose_first.yaml"),
        "budget": {"trials": num_trials},
    }
    path = folder / "long.yaml"
    path.write_text(yaml_file.dump(data | changes))
    study = load_spec(path)
    note = {"name": "long", "file": str(path), "storage": study.spec.storage}
    write_json(StudyDir(folder / "runs/long").spec, note)
    with closing(Database.open(study.spec.storage)) as database:
        database.migrate()
        record = StudyRecords(database).create_or_get(
            name="long", spec=spec_json(study), spec_hash=spec_hash(study), state=RUNNING, now=1e6
        )
        _write(database, record.id, num_trials)
    return study


def write_snapshot(study: Study) -> StudyState:
    """Write the snapshot of all events, as a driver does; return what they add up to."""
    with closing(Database.open(study.spec.storage)) as database:
        record = StudyRecords(database).get(study.spec.name)
        assert record is not None
        state = StudyState()
        state.apply(EventLog(database).read(record.id))
        lease = _lease(database, record.id)
        SnapshotWriter(database).write(lease, state, partial(trial_line, study))
        Leases(database).release(lease)
        return state


def _lease(database: Database, study_id: int) -> Lease:
    return Leases(database).acquire(study_id, holder="test", now=1e6, ttl=60.0)


def _write(database: Database, study_id: int, num_trials: int) -> None:
    rng, rows = random.Random(0), []
    for first in range(0, num_trials, JOB):
        numbers = range(first, min(first + JOB, num_trials))
        rows += [
            {"study_id": study_id, **_columns(event)}
            for event in _job(rng, numbers, is_over=numbers[-1] < num_trials - NUM_RUNNING)
        ]
        if len(rows) >= AT_ONCE or numbers[-1] == num_trials - 1:
            with database.engine.begin() as connection:
                connection.execute(insert(EventRow), rows)
            rows = []


def _columns(event: Event) -> dict[str, Any]:
    columns = {key: value for key, value in vars(event).items() if key != "id"}
    return columns | {"data": json.dumps(event.data)}


def _job(rng: random.Random, numbers: range, *, is_over: bool) -> Iterator[Event]:
    """Yield what happened to one job and its trials."""
    job, at = f"{numbers[0] // JOB + 1:05d}", 1e6 + numbers[0]
    for trial in numbers:
        params = {
            "host.optim.args.lr": 10 ** rng.uniform(-4, -2.6),
            "host.gamma": rng.uniform(0.8, 0.97),
            "host.steps_before_update_target": rng.randint(20, 200),
            "host.er_schedule.steps": rng.randint(300, 1500),
        }
        yield Event(0, "asked", at, trial, data={"params": params, "retry_of": None})
    given = [{"trial": n, "attempt": 1, "token": f"{rng.getrandbits(128):032x}"} for n in numbers]
    yield Event(0, "announced", at, job=job, data={"trials": given, "gpus": 1.0})
    yield Event(0, "submitted", at, job=job, data={"id": str(numbers[0])})
    yield Event(0, "job_began", at + 1, job=job)
    for report in range(1, NUM_REPORTS + 1):
        for trial in numbers:
            told = {"step": report * INTERVAL, "value": rng.random(), "prune": False, "rungs": 0}
            yield Event(0, "reported", at + report, trial, data=told)
    if is_over:
        for trial in numbers:
            yield from _end(rng, trial, at + 9)
        yield Event(0, "job_ended", at + 9, job=job, data={"seen": True})


def _end(rng: random.Random, trial: int, at: float) -> Iterator[Event]:
    has_failed, step = rng.random() < 0.03, NUM_REPORTS * INTERVAL
    how, kind = ("failed", "nan") if has_failed else ("finished", None)
    message = "host/loss is NaN at step 1,500" if has_failed else ""
    metrics = {} if has_failed else {f"rho/{name}": _rho(rng.random()) for name in METRICS}
    value = None if has_failed else metrics["rho/host/choose_first"]["value"]
    told = {"state": how, "value": value, "metrics": metrics, "failure": kind, "message": message}
    yield Event(0, "told", at, trial, data=told)
    log = ["step 1,500: host/loss is NaN"] * 5 if has_failed else []
    ended = {"status": how, "kind": kind, "message": message, "step": step, "lost_seconds": 1.0}
    yield Event(0, "attempt_ended", at, trial, 1, data=ended | {"log": log})


def _rho(value: float) -> dict[str, float]:
    return {"value": value, "low": value - 0.01, "high": value + 0.01, "capped": 0.0, "games": 512}
