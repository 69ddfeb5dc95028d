"""A study of ten thousand trials, written row by row because driving one takes hours."""

from pathlib import Path

from drives import new_study, opened
from fakes import FakeExecutor
from test_ask_latency import NUM_FINISHED, NUM_RUNNING, fill

from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import Event, EventLog
from hpsearch.study.spec import Study
from hpsearch.study.storage import open_storage

NUM_TRIALS = NUM_FINISHED + NUM_RUNNING
TRIALS_A_JOB = 8


def large_study(folder: Path) -> Study:
    """Return a study with its trials in Optuna and its events, which no driver has."""
    study = new_study(folder, budget={"trials": NUM_TRIALS})
    with opened(study, FakeExecutor()):
        pass
    storage = open_storage(study.spec.storage)
    study_id = storage.get_study_id_from_name(study.spec.name)
    storage.close()
    fill(folder / "study.db", study_id)
    database = Database.open(study.spec.storage)
    record = StudyRecords(database).get(study.spec.name)
    assert record is not None
    log = EventLog(database)
    for first in range(0, NUM_TRIALS, TRIALS_A_JOB):
        log.append(record.id, _job(first))
    database.close()
    return study


def _job(first: int) -> list[Event]:
    """Return what happened to one job and its trials."""
    numbers, job, at = range(first, first + TRIALS_A_JOB), f"job-{first}", 1e6 + first
    params = {"host.optim.args.lr": 1e-3, "host.gamma": 0.9}
    given = [{"trial": number, "attempt": 1, "token": str(number)} for number in numbers]
    events = [Event(0, "asked", at, trial=number, data={"params": params}) for number in numbers]
    events.append(Event(0, "announced", at, job=job, data={"trials": given, "gpus": 1.0}))
    events.append(Event(0, "submitted", at, job=job, data={"id": job}))
    events.append(Event(0, "job_began", at + 1, job=job))
    for number in numbers:
        report = {"step": 4, "value": number / NUM_TRIALS, "prune": False, "rungs": 0}
        events.append(Event(0, "reported", at + 2, trial=number, data=report))
        if number < NUM_FINISHED:
            ended = {"status": "finished", "kind": None, "message": "", "step": 16}
            events.append(Event(0, "attempt_ended", at + 3, trial=number, attempt=1, data=ended))
            told = {"state": "finished", "value": 0.5, "metrics": {}, "failure": None}
            events.append(Event(0, "told", at + 3, trial=number, data=told | {"message": ""}))
    if numbers[-1] < NUM_FINISHED:
        events.append(Event(0, "job_ended", at + 3, job=job))
    return events
