"""Real servers that are shut down, crash and cut connections while they are written."""

import itertools
import multiprocessing
import random
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from drives import check_books, new_study, stored_trials, tick_until
from fakes import FakeExecutor
from optuna.distributions import FloatDistribution
from optuna.study import StudyDirection
from optuna.trial import TrialState
from racing import open_at_once
from servers import PASSWORD, Program, Server, plain_trials
from sqlalchemy.exc import NoSuchModuleError
from tried import tried

from hpsearch.errors import ConflictError, StorageError, StorageUnavailableError
from hpsearch.study import engine, opening, recorder, snapshots
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import Event, EventLog, Leases
from hpsearch.study.opening import open_driver
from hpsearch.study.recorder import Outage
from hpsearch.study.snapshots import SnapshotWriter, Stored, read_state
from hpsearch.study.spec import Study
from hpsearch.study.state import RUNNING, StudyState
from hpsearch.study.storage import open_storage

STORAGE = "HPSEARCH_TEST_STORAGE"
_numbers = itertools.count()


@pytest.fixture(params=["postgresql", "mysql"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    running: Server = request.getfixturevalue(request.param)
    yield running
    running.start()


@pytest.fixture
def url(server: Server) -> str:
    return server.new_database(f"empty{next(_numbers)}")


# Opening.


@pytest.mark.slow
def test_processes_make_the_tables_of_a_new_database_once(server: Server) -> None:
    urls = [server.new_database(f"race{next(_numbers)}") for _ in range(5)]
    context = multiprocessing.get_context("spawn")
    barrier, outcomes = context.Barrier(2), context.Queue()
    workers = [
        context.Process(target=open_at_once, args=(urls, barrier, outcomes)) for _ in range(2)
    ]
    for worker in workers:
        worker.start()
    assert [outcomes.get(timeout=120) for _ in range(2 * len(urls))] == ["done"] * 2 * len(urls)
    for worker in workers:
        worker.join()
    for url in urls:
        for table in ("alembic_version", "version_info", "hpsearch_version"):
            assert len(server.execute(f"SELECT * FROM {table}", url)) == 1


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        (PASSWORD, "wr0ng-Word", "does not permit this user"),
        ("/first", "/nope", "has no such database or user"),
    ],
)
def test_what_waiting_does_not_mend_is_said_at_once(
    server: Server, right: str, wrong: str, message: str
) -> None:
    began = time.monotonic()
    with pytest.raises(StorageError, match=message) as caught:
        Database.open(server.url.replace(right, wrong))
    assert time.monotonic() - began < 3.0
    assert not isinstance(caught.value, StorageUnavailableError)
    assert wrong not in str(caught.value) or wrong == "/nope"
    assert PASSWORD not in str(caught.value)


def test_a_server_that_is_down_is_tried_for_some_seconds(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hpsearch.study.database.FIRST_PATIENCE", 0.5)
    server.stop()
    with pytest.raises(StorageUnavailableError, match=r"used now .*refused") as caught:
        Database.open(server.url)
    assert PASSWORD not in str(caught.value)


def test_a_server_that_starts_is_waited_for(server: Server) -> None:
    server.stop()
    starter = threading.Timer(0.5, server.start)
    starter.start()
    Database.open(server.url).close()
    starter.join()


# Writing.


def cut_connections(server: Server, url: str) -> None:
    """End all connections to a database as an administrator does."""
    name = url.rpartition("/")[2]
    if url.startswith("postgresql"):
        server.execute(
            f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'"
        )
        return
    for (process,) in server.execute(
        f"SELECT id FROM information_schema.processlist WHERE db = '{name}'"
    ):
        server.execute(f"KILL {process}")


@contextmanager
def disturbed(
    disturb: Callable[[random.Random], None], seed: int, pause: tuple[float, float] = (0.05, 0.6)
) -> Iterator[list[float]]:
    """Disturb again and again while the block runs, after pauses of some seconds; give the times.

    A pause must let a process that waits for the server with growing pauses of its own find it.
    """
    over, times, rng = threading.Event(), [], random.Random(seed)

    def run() -> None:
        while not over.wait(rng.uniform(*pause)):
            times.append(time.monotonic())
            disturb(rng)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield times
    finally:
        over.set()
        thread.join()


def crash(server: Server, low: float, high: float) -> Callable[[random.Random], None]:
    """Return what kills a server and starts it again some seconds later."""

    def disturb(rng: random.Random) -> None:
        server.kill()
        time.sleep(rng.uniform(low, high))
        server.start()

    return disturb


def disturbances(server: Server, url: str, kind: str) -> Callable[[random.Random], None]:
    if kind == "crash":
        return crash(server, 0.0, 0.3)
    return lambda rng: cut_connections(server, url)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "crash"])
def test_trials_are_written_once_whatever_happens_to_the_server(
    server: Server, url: str, kind: str
) -> None:
    storage = open_storage(url)
    study_id = storage.create_new_study([StudyDirection.MINIMIZE], "one")
    end = time.monotonic() + 1.0
    with disturbed(disturbances(server, url, kind), seed=1) as times:
        for number in itertools.count():
            trial = storage.create_new_trial(study_id)
            storage.set_trial_param(trial, "lr", number / 1000, FloatDistribution(0.0, 100.0))
            storage.set_trial_intermediate_value(trial, 1, number + 0.5)
            storage.set_trial_system_attr(trial, "number", number)
            assert storage.set_trial_state_values(trial, TrialState.COMPLETE, [float(number)])
            if time.monotonic() > end and len(times) >= 3:
                break
    trials = storage.get_all_trials(study_id)
    storage.close()
    assert trials == plain_trials(url, study_id)
    assert [trial.number for trial in trials] == list(range(number + 1))
    assert [trial.value for trial in trials] == list(range(number + 1))
    assert [trial.system_attrs for trial in trials] == [{"number": n} for n in range(number + 1)]


def test_a_trial_whose_creation_arrived_unanswered_is_not_created_again(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna alone repeats the creation, and leaves a trial that no job trains."""
    storage = open_storage(url)
    study_id = storage.create_new_study([StudyDirection.MINIMIZE], "one")
    dialect = storage._backend.engine.dialect
    commit, lost = dialect.do_commit, []

    def lose_answer(connection: Any) -> None:
        commit(connection)
        if not lost:
            lost.append(connection)
            connection.driver_connection.close()
            raise dialect.loaded_dbapi.OperationalError("server closed the connection")

    assert storage.get_all_trials(study_id) == []
    monkeypatch.setattr(dialect, "do_commit", lose_answer)
    trial = storage.create_new_trial(study_id)
    assert lost
    trials = storage.get_all_trials(study_id)
    storage.close()
    assert [(frozen.number, frozen._trial_id) for frozen in trials] == [(0, trial)]
    assert plain_trials(url, study_id) == trials


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cut", "crash"])
def test_a_transaction_arrives_once_or_is_said_to_be_unknown(
    server: Server, url: str, kind: str
) -> None:
    database = Database.open(url)
    database.migrate()
    study = StudyRecords(database).create_or_get(
        name="one", spec="{}", spec_hash="", state="", now=0.0
    )
    log, unknown, end = EventLog(database), set(), time.monotonic() + 1.0
    with disturbed(disturbances(server, url, kind), seed=2) as times:
        for number in itertools.count():
            try:
                log.append(study.id, [Event(0, "one", 0.0, trial=number)])
            except StorageUnavailableError:
                unknown.add(number)
            if time.monotonic() > end and len(times) >= 3:
                break
    numbers = [event.trial for event in log.read(study.id)]
    database.close()
    assert len(set(numbers)) == len(numbers)
    assert set(range(number + 1)) - unknown <= set(numbers)


def test_a_snapshot_is_written_and_read(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PIECE", 1000)
    database = Database.open(url)
    database.migrate()
    study = StudyRecords(database).create_or_get(
        name="one", spec="{}", spec_hash="", state="", now=0.0
    )
    log, writer, state = EventLog(database), SnapshotWriter(database), StudyState()
    lease = Leases(database).acquire(study.id, holder="a", now=0.0, ttl=10.0)
    for first in (0, 100):
        for number in range(first, first + 100):
            asked = Event(0, "asked", 0.0, number, data={"params": {"x": "\u00fc" * 30}})
            told = {"state": "finished", "value": 0.5, "metrics": {}, "failure": None}
            ended = Event(0, "told", 0.0, number, data=told | {"message": ""})
            state.apply(log.append(study.id, [asked, ended] if number % 3 else [asked]))
        writer.write(lease, state, lambda trial: f"\u00fc {trial.number}")
        seen = read_state(database, study.id)
        assert isinstance(seen.trials, Stored)
        numbers = {
            line.partition("\t")[0]
            for text in seen.trials.rows.texts("lines")
            for line in text.split("\n")
        }
        assert numbers == {str(n) for n, trial in state.trials.items() if trial.told}
        assert (seen.trials[1], seen) == (state.trials[1], state)
    Leases(database).acquire(study.id, holder="b", now=100.0, ttl=10.0)
    state.apply(log.append(study.id, [Event(0, "started", 0.0)]))
    with pytest.raises(ConflictError, match="no longer driven by a"):
        writer.write(lease, state, lambda trial: "")
    assert read_state(database, study.id) == state
    database.close()


# Driving.


def drive_through_outages(
    study: Study,
    executor: FakeExecutor,
    on_event: Callable[[Event], None] = lambda event: None,
) -> list[str]:
    """Drive a study to its end, as a command does; return what was told of outages."""
    told: list[str] = []
    waiting = Outage(told.append)

    def work() -> None:
        runs = study.path.parent / "runs"
        with open_driver(study, runs, executor, on_event=on_event) as driver:
            waiting.reached()
            driver.start()
            tick_until(driver, lambda: driver.state.status != RUNNING)

    waiting.run(work)
    return told


def study_on(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch, trials: int) -> Study:
    monkeypatch.setenv(STORAGE, url)
    return new_study(
        folder,
        storage=f"env:{STORAGE}",
        sampler={"name": "tpe", "n_startup_trials": 3},
        pruner={"name": "median", "n_startup_trials": 2},
        budget={"trials": trials},
    )


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *tried([1, 2, 3], slow=[])])
def test_a_study_ends_whenever_its_server_crashes(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    study, executor = study_on(url, tmp_path, monkeypatch, trials=30), FakeExecutor()
    rng = random.Random(seed)
    moments, seen, starters = rng.sample(range(5, 150), 3), [], []

    def crash_now_and_then(event: Event) -> None:
        seen.append(event)
        if len(seen) in moments:
            server.kill()
            starters.append(threading.Timer(rng.uniform(1.0, 3.0), server.start))
            starters[-1].start()

    drive_through_outages(study, executor, crash_now_and_then)
    for starter in starters:
        starter.join()
    assert len(starters) == 3
    assert len(stored_trials(study)) == 30
    check_books(study, executor)


@pytest.mark.slow
def test_a_study_goes_on_after_an_outage_longer_than_its_patience(
    server: Server, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also the lease could not be given back, so its end is waited for."""
    for module in (opening, recorder):
        monkeypatch.setattr(module, "LEASE_SECONDS", 4.0)
    assert engine.persist.__kwdefaults__ is not None
    monkeypatch.setitem(engine.persist.__kwdefaults__, "patience", 0.2)
    monkeypatch.setattr("hpsearch.study.database.FIRST_PATIENCE", 0.2)
    study, executor = study_on(url, tmp_path, monkeypatch, trials=30), FakeExecutor()
    starter, seen = threading.Timer(2.0, server.start), []

    def crash_once(event: Event) -> None:
        seen.append(event)
        if len(seen) == 50:
            server.kill()
            starter.start()

    told = drive_through_outages(study, executor, crash_once)
    starter.join()
    assert sum("is away" in line or "cannot be used now" in line for line in told) >= 1
    assert any("is back" in line for line in told)
    assert len(stored_trials(study)) == 30
    check_books(study, executor)


def test_one_that_cannot_be_asked_is_ended(tmp_path):
    """Where the database's driver is not installed, neither process nor data may stay."""
    folder, before = tmp_path / "server", psutil.Process().children()
    folder.mkdir()
    how = signal.SIGINT, signal.SIGKILL
    with pytest.raises(NoSuchModuleError):
        Server(Program(("sleep", "60"), folder, "sqlite+missing://", *how))
    assert not folder.exists()
    assert psutil.Process().children() == before
