"""Studies driven to their end over a fake executor, with deaths, and the books they leave.

The books are read with plain SQL, plain Optuna and from files, never through the driver.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import optuna
import pytest
import sqlalchemy
from fakes import FakeExecutor, plain_metrics, smooth_curve
from optuna.storages import RDBStorage
from optuna.storages._rdb.storage import _VersionManager
from optuna.trial import FrozenTrial, TrialState
from sqlalchemy.pool import NullPool
from study_files import BASE, load
from virtual_job import config_of

from hpsearch import yaml_file
from hpsearch.audit.auditing import find_faults
from hpsearch.audit.books import read_books
from hpsearch.audit.disk import Disk
from hpsearch.audit.finding import Fault
from hpsearch.audit.ledger import read_ledger
from hpsearch.schema import apply
from hpsearch.study import space as space_module
from hpsearch.study.database import Database
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, EventLog, Lease
from hpsearch.study.opening import open_driver
from hpsearch.study.spec import Study
from hpsearch.study.state import RUNNING, StudyState
from hpsearch.study.url import storage_url
from hpsearch.trainers.config import read_config

METRIC = "rho/host/choose_first"
TRAINER = {"steps": 16, "evaluation.interval": 4, "checkpoint.interval": 4}
SPACE = {
    "host.optim.args.lr": {"type": "float", "low": 1e-4, "high": 1e-1, "log": True},
    "host.gamma": {"type": "float", "low": 0.5, "high": 0.99},
}
MAX_TICKS = 500
STATES = {
    "finished": TrialState.COMPLETE,
    "pruned": TrialState.PRUNED,
    "failed": TrialState.FAIL,
}


class Killed(BaseException):
    """Stands for kill -9: no handler of the driver sees it."""


class Clock:
    """A clock that stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def new_study(folder: Path, trainer: dict[str, Any] | None = None, **changes: Any) -> Study:
    """Return a study of a small space; ``changes`` are keys of its file."""
    folder.mkdir(parents=True, exist_ok=True)
    base = apply(yaml_file.load(BASE), TRAINER | (trainer or {}))
    (folder / "base.yaml").write_text(yaml_file.dump(base))
    given = {
        "storage": f"sqlite:///{folder}/study.db",
        "base": "base.yaml",
        "objectives": [{"metric": METRIC, "goal": "maximize"}],
        "space": SPACE,
        "executor": {"name": "local", "jobs": 1, "members_per_job": 3},
    }
    return load(folder, **(given | changes))


@contextmanager
def opened(
    study: Study, executor: FakeExecutor, clock: Callable[[], float] | None = None
) -> Iterator[Driver]:
    """Give a driver of the study that has begun."""
    with open_driver(
        study,
        study.path.parent / "runs",
        executor,
        on_event=lambda event: None,
        clock=clock or Clock(),
    ) as driver:
        driver.start()
        yield driver


def drive(study: Study, executor: FakeExecutor, max_lives: int = 1) -> StudyState:
    """Drive the study to its end; each driver that is killed is followed by a fresh one."""
    with pytest.MonkeyPatch.context() as patch:
        keep_engines(patch)
        for _ in range(max_lives):
            try:
                with opened(study, executor) as driver:
                    return tick_until(driver, lambda: driver.state.status != RUNNING)
            except Killed:
                trust_tables(patch)
    raise AssertionError(f"no end after {max_lives} drivers")


def trust_tables(patch: pytest.MonkeyPatch) -> None:
    """Let no driver look at the versions of tables, which takes the most time: they stay."""
    patch.setattr(Database, "migrate", lambda self: None)
    patch.setattr(_VersionManager, "check_table_schema_compatibility", lambda self: None)


def keep_engines(patch: pytest.MonkeyPatch) -> None:
    """Let SQLAlchemy compile a statement once for all drivers; each closes what it opened."""
    for module in (sqlalchemy, sqlalchemy.engine):  # ours is made by the one, Optuna's by the other
        patch.setattr(module, "create_engine", _made_once(module.create_engine))


def _made_once(create_engine: Callable[..., sqlalchemy.Engine]) -> Callable[..., Any]:
    made: dict[str, sqlalchemy.Engine] = {}

    def create(url: str, **options: Any) -> sqlalchemy.Engine:
        key = f"{url} {options}"
        if key not in made:
            made[key] = create_engine(url, **options)
        return made[key]

    return create


def tick_until(driver: Driver, condition: Callable[[], bool]) -> StudyState:
    for _ in range(MAX_TICKS):
        if condition():
            return driver.state
        driver.tick()
    raise AssertionError(f"no end after {MAX_TICKS} ticks: {driver.state}")


# Deaths.


@contextmanager
def deaths_at_events(*, before: Sequence[int] = (), after: Sequence[int] = ()) -> Iterator[None]:
    """Kill the driver once just before, once just after these events are written, from 1."""
    dying = (set(before), set(after))

    def may_die(moment: int, event: Event, number: int) -> None:
        _die_once(dying[moment], number)

    with _deaths(may_die):
        yield


@contextmanager
def deaths_at_all_events() -> Iterator[list[str]]:
    """Kill the driver once before and once after each thing that happens; give their kinds.

    What happens again under another uuid, because the driver died at it, is the same thing; else
    no job would ever be submitted.
    """
    died: list[str] = []
    seen: set[str] = set()

    def may_die(moment: int, event: Event, number: int) -> None:
        announced = [trial["trial"] for trial in event.data.get("trials", ())]
        step, status = event.data.get("step"), event.data.get("status")
        thing = f"{moment} {event.kind} {event.trial} {step} {status} {announced}"
        if thing not in seen:
            seen.add(thing)
            died.append(event.kind)
            raise Killed

    with _deaths(may_die):
        yield died


@contextmanager
def deaths_before(kind: str) -> Iterator[None]:
    """Kill the driver just before each event of a kind is written."""

    def may_die(moment: int, event: Event, number: int) -> None:
        if moment == 0 and event.kind == kind:
            raise Killed

    with _deaths(may_die):
        yield


@contextmanager
def moments_passed() -> Iterator[list[str]]:
    """Give the names of the moments just before and just after each event, as they pass."""
    passed: list[str] = []

    def pass_by(moment: int, event: Event, number: int) -> None:
        passed.append(_name(moment, event))

    with _deaths(pass_by):
        yield passed


@contextmanager
def deaths_at(moments: Collection[str]) -> Iterator[set[str]]:
    """Kill the driver once at each of these moments, by their names; give those still to come."""
    to_come = set(moments)

    def may_die(moment: int, event: Event, number: int) -> None:
        name = _name(moment, event)
        if name in to_come:
            to_come.remove(name)
            raise Killed

    with _deaths(may_die):
        yield to_come


def _name(moment: int, event: Event) -> str:
    """Return what a moment is, whether or not a driver has died before.

    After a death, what is announced may be so of another job, and an attempt may end steps later.
    """
    announced = [trial["trial"] for trial in event.data.get("trials", ())]
    job = None if announced else event.job
    step = event.data.get("step") if event.kind == "reported" else None
    return f"{moment} {event.kind} {event.trial} {job} {step} {announced}"


@contextmanager
def _deaths(may_die: Callable[[int, Event, int], None]) -> Iterator[None]:
    """Call ``may_die`` (0 before or 1 after, event, its number) around each event written.

    Events that are written together are all written or none.
    """
    write = EventLog.append
    number = 1

    def append(
        log: EventLog, study_id: int, events: Sequence[Event], *, lease: Lease | None = None
    ) -> list[Event]:
        nonlocal number
        numbered = list(enumerate(events, number))
        for at, event in numbered:
            may_die(0, event, at)
        result = write(log, study_id, events, lease=lease)
        number += len(events)
        for at, event in numbered:
            may_die(1, event, at)
        return result

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(EventLog, "append", append)
        yield


@contextmanager
def deaths_at_suggestions(*numbers: int) -> Iterator[None]:
    """Kill the driver before these suggestions of a value, counted from 1 over all drivers."""
    suggest, dying, asked = space_module._suggest, set(numbers), 0

    def dying_suggest(*arguments: Any) -> Any:
        nonlocal asked
        asked += 1
        _die_once(dying, asked)
        return suggest(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(space_module, "_suggest", dying_suggest)
        yield


def _die_once(numbers: set[int], number: int) -> None:
    if number in numbers:
        numbers.remove(number)
        raise Killed


# Books.


def stored_trials(study: Study) -> list[FrozenTrial]:
    """Return the trials as plain Optuna reads them from the database, whose tables are there."""
    storage = RDBStorage(url_of(study), skip_compatibility_check=True, skip_table_creation=True)
    try:
        return optuna.load_study(study_name=study.spec.name, storage=storage).trials
    finally:
        storage.remove_session()
        storage.engine.dispose()


def schedule(study: Study) -> list[tuple[Any, ...]]:
    """Return what a death must not change: each trial's parameters, curve and end."""
    return [
        (trial.number, trial.params, trial.intermediate_values, trial.state, trial.values)
        for trial in stored_trials(study)
    ]


def query(study: Study, question: str) -> list[tuple[Any, ...]]:
    """Return the rows that plain SQL finds."""
    url = url_of(study)
    if not url.startswith("sqlite"):
        engine = sqlalchemy.create_engine(url, poolclass=NullPool)
        with engine.connect() as connection:
            return [tuple(row) for row in connection.exec_driver_sql(question)]
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as file:
        return file.execute(question).fetchall()


def url_of(study: Study) -> str:
    return storage_url(study.spec.name, study.spec.storage)


def stored_events(study: Study, *kinds: str) -> list[tuple[Any, ...]]:
    """Return (kind, trial, job, data) of the events, those of some kinds alone if given."""
    rows = query(study, "SELECT kind, trial, job, data FROM hpsearch_events ORDER BY id")
    return [(*row[:3], json.loads(row[3])) for row in rows if not kinds or row[0] in kinds]


def refills(study: Study) -> list[tuple[str, tuple[int, ...]]]:
    """Return the jobs that were given trials while others trained in them, and which."""
    running: dict[str, set[int]] = {}
    job_of: dict[int, str] = {}
    refilled = []
    for kind, trial, job, data in stored_events(study, "announced", "attempt_ended"):
        if kind == "attempt_ended":
            running[job_of[trial]].remove(trial)
            continue
        given = tuple(trial["trial"] for trial in data["trials"])
        if running.setdefault(job, set()):
            refilled.append((job, given))
        running[job].update(given)
        job_of |= dict.fromkeys(given, job)
        # With those that are given ahead of an end, where the driver looks ahead.
        assert len(running[job]) <= 2 * study.spec.executor.members_per_job
    return refilled


def check_books(study: Study, executor: FakeExecutor) -> None:
    """Assert what holds whatever happened: nothing is lost, told or submitted twice."""
    check_study(study, with_checkpoints=isinstance(executor, FakeExecutor))
    _check_jobs(study, executor)


def check_study(study: Study, *, with_files: bool = True, with_checkpoints: bool = True) -> None:
    """Assert what holds of the study alone.

    Without its files where a disk may have lost them, and without checkpoints where jobs leave
    empty folders for them.
    """
    trials, events = stored_trials(study), stored_events(study)
    told = [event for event in events if event[0] == "told"]
    assert [trial.number for trial in trials] == list(range(len(trials)))
    planned = [data["origin"] for kind, *_, data in events if kind == "asked" and "origin" in data]
    untrained = sum(origin["steps"] in origin["parent_steps"][:1] for origin in planned)
    assert len(trials) - untrained <= study.spec.budget.trials
    assert max(Counter(event[1] for event in told).values(), default=1) == 1
    assert {event[1] for event in told} == {t.number for t in trials if t.state.is_finished()}
    for _, number, _, data in told:
        _check_told(study, trials[number], data)
        if with_files:
            _check_files(study, number, data, events)
    for trial in trials:
        _check_curve(study, trial, events)
    if with_files:
        all_faults = faults(study)
        rules = () if with_checkpoints else ("checkpoints", "ancestry")
        assert [fault for fault in all_faults if fault.check not in rules] == []


def faults(study: Study) -> list[Fault]:
    """Return what `hpsearch audit` finds, without a second look."""
    books = read_books(study.spec.name, url_of(study))
    disk = Disk(study.path.parent / "runs" / study.spec.name, pointed_to={}, deep=True)
    findings = find_faults(books, read_ledger(books.events), disk)
    return [finding for finding in findings if isinstance(finding, Fault)]


def trial_folder(study: Study, number: int) -> Path:
    return study.path.parent / "runs" / study.spec.name / "trials" / str(number)


def _check_told(study: Study, trial: FrozenTrial, data: dict[str, Any]) -> None:
    assert trial.state == STATES[data["state"]]
    if data["state"] == "finished":
        config = read_config(_config(study, trial), source="")
        value = smooth_curve(config, config.steps)
        assert trial.values == [value]
        assert data["value"] == value
        assert data["metrics"][METRIC] == plain_metrics(value)
        assert (trial.params["host.gamma"], trial.params["host.optim.args.lr"]) == (
            config.host.gamma,
            config.host.optim.args.lr,
        )


def _check_files(
    study: Study, number: int, data: dict[str, Any], events: Sequence[tuple[Any, ...]]
) -> None:
    """Assert that a trial was told with what the attempt wrote that held its token."""
    folder = trial_folder(study, number)
    assert json.loads((folder / "result.json").read_text()) == data
    stop = json.loads((folder / "control.json").read_text())["stop"]
    assert stop == (None if data["state"] == "finished" else data["state"])
    if data["state"] == "finished":
        announced = [job["trials"] for kind, *_, job in events if kind == "announced"]
        *_, attempt = (
            given for trials in announced for given in trials if given["trial"] == number
        )
        wrote = json.loads((folder / f"attempt-{attempt['attempt']}/result.json").read_text())
        assert (wrote["token"], wrote["status"]) == (attempt["token"], "finished")
        assert wrote["metrics"] == data["metrics"]


def _config(study: Study, trial: FrozenTrial) -> dict[str, Any]:
    """Return the configuration of a trial, from what Optuna holds of it."""
    config = study.trial_config(trial.number, trial.params)
    if study.spec.population is not None:  # an interval ends at a step of its own
        config |= {"steps": config_of(trial_folder(study, trial.number) / "config.yaml").steps}
    return config


def _check_curve(study: Study, trial: FrozenTrial, events: Sequence[tuple[Any, ...]]) -> None:
    reported = [event[3] for event in events if event[:2] == ("reported", trial.number)]
    assert len(reported) <= 20
    assert len({data["step"] for data in reported}) == len(reported)
    assert {data["step"]: data["value"] for data in reported} == trial.intermediate_values
    if trial.intermediate_values:
        config = read_config(_config(study, trial), source="")
        for step, value in trial.intermediate_values.items():
            assert value == smooth_curve(config, step)


def _check_jobs(study: Study, executor: FakeExecutor) -> None:
    submitted = Counter(executor.submitted)
    assert max(submitted.values(), default=1) == 1
    live: set[str] = set()
    announced = []
    for kind, _, job, data in stored_events(study, "announced", "job_ended"):
        if kind == "announced":
            if job not in live:  # else a pilot is given more
                announced.append(job)
            live.add(job)
            assert len(data["trials"]) <= study.spec.executor.members_per_job
        else:
            live.remove(job)
        assert len(live) <= study.spec.executor.jobs
    assert len(set(announced)) == len(announced)
    assert set(submitted) <= set(announced)
    assert all(len(names) <= study.spec.executor.jobs for names in executor.looks)
    assert executor.most_alive <= study.spec.executor.jobs
