"""Who may drive a study, and what a study may not be opened as."""

import gc
import socket
import subprocess
import sys
import weakref
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from drives import (
    METRIC,
    Clock,
    check_books,
    drive,
    new_study,
    opened,
    query,
    schedule,
    stored_events,
    stored_trials,
    tick_until,
)
from fakes import FakeExecutor
from optuna.storages import RDBStorage
from optuna.trial import TrialState

from hpsearch.cluster.executor import JobStatus, SchedulerSilentError
from hpsearch.cluster.study_dir import JobDir
from hpsearch.errors import ConflictError
from hpsearch.study import driver as driver_module
from hpsearch.study import observe as observe_module
from hpsearch.study import requests
from hpsearch.study.database import Database
from hpsearch.study.driver import Driver
from hpsearch.study.events import Event, Leases
from hpsearch.study.observe import Observation
from hpsearch.study.opening import open_driver
from hpsearch.study.recorder import LEASE_SECONDS
from hpsearch.study.requests import Request, is_dead, own_name
from hpsearch.study.spec import Study
from hpsearch.study.storage import MirroredStorage

TABLES = "SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name"


def everything(study: Study) -> dict[str, list[tuple[Any, ...]]]:
    """Return the content of all tables but the leases."""
    names = [name for (name,) in query(study, TABLES) if name != "hpsearch_leases"]
    return {name: query(study, f"SELECT * FROM {name}") for name in names}


def files(study: Study) -> dict[Path, bytes]:
    runs = study.path.parent / "runs"
    return {path: path.read_bytes() for path in runs.rglob("*") if path.is_file()}


def hold(study: Study, holder: str, now: float) -> None:
    """Let another process take the study, whichever holds it."""
    give_free(study)
    with closing(Database.open(study.spec.storage)) as database:
        Leases(database).acquire(1, holder=holder, now=now, ttl=60.0)


def give_free(study: Study) -> None:
    with closing(Database.open(study.spec.storage)) as database:
        held = Leases(database).current(1)
        if held is not None:
            Leases(database).release(held)


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
    yield child
    child.kill()
    child.wait()


def name_of(pid: int, born: float | None = None) -> str:
    born = psutil.Process(pid).create_time() if born is None else born
    return f"{socket.gethostname()}/{pid}/{born:.2f}"


def begun(folder: Path) -> Study:
    """Return a study that a driver has begun and left."""
    study = new_study(folder, budget={"trials": 3})
    with opened(study, FakeExecutor()):
        pass
    return study


# Leases.


def test_one_driver_at_a_time(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    executor, clock = FakeExecutor(), Clock()
    with opened(study, executor, clock) as driver:
        driver.tick()
        before = everything(study), files(study)
        with pytest.raises(ConflictError, match="driven by"), opened(study, executor, clock):
            pass
        assert (everything(study), files(study)) == before
        driver.tick()
    with opened(study, executor, clock) as driver:  # given free, it need not expire
        driver.tick()


def test_a_dead_holder_is_not_waited_for(tmp_path: Path, process: subprocess.Popen[bytes]) -> None:
    study, clock = begun(tmp_path), Clock()
    holder = name_of(process.pid)
    hold(study, holder, clock.now)
    assert not is_dead(holder)
    with pytest.raises(ConflictError, match=holder), opened(study, FakeExecutor(), clock):
        pass
    process.kill()
    process.wait()
    assert is_dead(holder)
    with opened(study, FakeExecutor(), clock) as driver:
        driver.tick()


def test_a_process_id_that_passed_to_a_stranger_is_no_sign_of_life(tmp_path: Path) -> None:
    study, clock = begun(tmp_path), Clock()
    me = psutil.Process()
    assert own_name().rpartition("/")[0] == name_of(me.pid).rpartition("/")[0]
    hold(study, name_of(me.pid, born=me.create_time() - 100), clock.now)
    with opened(study, FakeExecutor(), clock):
        pass
    # But where the clock was set a little, the start of a process seems to have moved.
    hold(study, name_of(me.pid, born=me.create_time() - 1), clock.now)
    with pytest.raises(ConflictError), opened(study, FakeExecutor(), clock):
        pass


@pytest.mark.parametrize("damage", ["\u2028", "\u0663", "9" * 30, "/", "nan"])
def test_what_is_no_name_of_a_process_is_not_known_to_be_dead(damage: str) -> None:
    host, pid, start = own_name().split("/")
    for parts in ((host, pid, damage + start), (host, pid + damage, start), (host, damage, start)):
        assert not is_dead("/".join(parts))


def test_of_another_host_nothing_is_known_until_the_lease_expires(tmp_path: Path) -> None:
    study, clock = begun(tmp_path), Clock()
    holder = "elsewhere/1/2.00"
    assert not is_dead(holder)
    hold(study, holder, clock.now)
    clock.now += 59
    with pytest.raises(ConflictError, match=holder), opened(study, FakeExecutor(), clock):
        pass
    clock.now += 1
    with opened(study, FakeExecutor(), clock):
        pass


def test_a_driver_that_slept_too_long_writes_nothing_more(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 6})
    executor, clock = FakeExecutor(), Clock()
    with opened(study, executor, clock) as sleeper:
        sleeper.tick()
        clock.now += LEASE_SECONDS
        with opened(study, executor, clock) as other:
            before = everything(study), files(study), list(executor.submitted)
            with pytest.raises(ConflictError, match="no longer driven by"):
                sleeper.tick()
            assert (everything(study), files(study), executor.submitted) == before
            assert tick_until(other, lambda: other.state.status != "running").status == "finished"
    check_books(study, executor)


class StrayCounter(FakeExecutor):
    """Counts how often jobs were looked for that the driver does not know, to cancel them."""

    num_looks_for_strays = 0

    def cancel_strays(self) -> None:
        self.num_looks_for_strays += 1


def test_of_two_drivers_whose_clocks_differ_by_minutes_one_drives(tmp_path: Path) -> None:
    """The other one thinks that it holds the study for minutes to come. Before, it looked for jobs
    that it did not know, which were its successor's, and cancelled them."""
    study = new_study(tmp_path, budget={"trials": 6})
    executor, clock, ahead = StrayCounter(), Clock(), Clock()
    ahead.now += LEASE_SECONDS
    with opened(study, executor, clock) as first:
        first.tick()
        with opened(study, executor, ahead) as second:
            second.tick()
            before = everything(study), files(study), list(executor.submitted)
            looks = executor.num_looks_for_strays
            with pytest.raises(ConflictError, match="no longer driven by"):
                first.tick()
            assert (everything(study), files(study), executor.submitted) == before
            assert executor.num_looks_for_strays == looks
            with pytest.raises(ConflictError), opened(study, executor, clock):
                pass
            assert tick_until(second, lambda: second.state.status != "running")
    check_books(study, executor)


def test_a_driver_that_is_overtaken_while_it_asks_creates_no_trial(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the lease is left by its clock, so it does not renew it. Before, it created trials
    beyond the budget, which stayed without an end in Optuna."""
    study, clock = new_study(tmp_path, budget={"trials": 6}), Clock()
    keep = MirroredStorage.keep

    def overtaken(storage: MirroredStorage, study_id: int) -> None:
        hold(study, "elsewhere/1/2.00", clock.now)
        keep(storage, study_id)

    monkeypatch.setattr(MirroredStorage, "keep", overtaken)
    with (
        opened(study, FakeExecutor(), clock) as driver,
        pytest.raises(ConflictError, match="no longer driven by"),
    ):
        driver.tick()
    assert not stored_trials(study)
    monkeypatch.undo()
    give_free(study)
    drive(study, FakeExecutor())
    assert len(stored_trials(study)) == 6


class Overtaking(StrayCounter):
    """Another driver takes the study while this one looks at its jobs, at its second look."""

    def __init__(self, study: Study, clock: Clock, **options: Any) -> None:
        super().__init__(**options)
        self._study, self._clock = study, clock

    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        if len(self.looks) == 1:
            hold(self._study, "elsewhere/1/2.00", self._clock.now)
        return super().look(jobs)


class OvertakenSilence(Overtaking):
    def look(self, jobs: Sequence[tuple[JobDir, str | None]]) -> dict[str, JobStatus]:
        super().look(jobs)
        raise SchedulerSilentError


def test_a_driver_that_is_overtaken_while_it_looks_cancels_no_jobs(tmp_path: Path) -> None:
    """Those that it does not know are its successor's."""
    study, clock = new_study(tmp_path), Clock()
    executor = OvertakenSilence(study, clock)
    with opened(study, executor, clock) as driver:
        driver.tick()
        with pytest.raises(ConflictError, match="no longer driven by"):
            driver.tick()
    assert executor.num_looks_for_strays == 1


@pytest.mark.parametrize("pruner", ["none", "median"])
def test_a_driver_that_is_overtaken_while_it_looks_reports_nothing(
    tmp_path: Path, pruner: str
) -> None:
    """Before, the values of a study without a pruner were written."""
    study, clock = new_study(tmp_path, pruner={"name": pruner}), Clock()
    executor = Overtaking(study, clock, rounds_per_look=3)
    with opened(study, executor, clock) as driver:
        driver.tick()
        driver.state.jobs["00001"].began_at = clock.now  # else that is what it cannot write
        with pytest.raises(ConflictError, match="no longer driven by"):
            driver.tick()
    assert [trial.intermediate_values for trial in stored_trials(study)] == [{}] * 3


def test_a_trial_that_another_driver_told_is_no_fault_of_the_program(tmp_path: Path) -> None:
    """Before, a driver that another one replaced amid a round ended with a traceback."""
    study = new_study(tmp_path, budget={"trials": 1})
    with opened(study, FakeExecutor()) as driver:
        driver.tick()
        trial = driver.state.trials[0]
        storage = RDBStorage(study.spec.storage)
        optuna.load_study(study_name="quick", storage=storage).tell(0, state=TrialState.FAIL)
        storage.remove_session()
        storage.engine.dispose()
        with pytest.raises(ConflictError, match="another driver has taken the study"):
            driver._trials.tell(trial, "failed", {}, failure="nan")


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Any, ...]]:
    """Return the schedule of a study of six trials that one driver drives to its end."""
    study = new_study(tmp_path_factory.mktemp("undisturbed"), budget={"trials": 6})
    drive(study, FakeExecutor())
    return schedule(study)


@pytest.mark.parametrize("number", [1, 5, 12, 30])
def test_a_study_that_is_taken_in_the_middle_of_a_tick(
    tmp_path: Path, number: int, undisturbed: list[tuple[Any, ...]]
) -> None:
    study = new_study(tmp_path / "taken", budget={"trials": 6})
    executor, clock = FakeExecutor(), Clock()
    written: list[Event] = []

    def take(event: Event) -> None:
        written.append(event)
        if len(written) == number:
            hold(study, "elsewhere/1/2.00", clock.now)

    runs = study.path.parent / "runs"
    with open_driver(study, runs, executor, on_event=take, clock=clock) as driver:
        with pytest.raises(ConflictError, match="no longer driven by"):
            start_and_tick(driver)
        # Those that were written together with the last one it could write are there too.
        assert len(stored_events(study)) == len(written) >= number
    give_free(study)
    drive(study, executor)
    assert schedule(study) == undisturbed
    check_books(study, executor)


def start_and_tick(driver: Driver) -> None:
    driver.start()
    tick_until(driver, lambda: False)


def test_a_long_tick_keeps_the_lease(tmp_path: Path) -> None:
    study, clock = new_study(tmp_path), Clock()

    def slow(event: Event) -> None:
        clock.now += 20

    runs = tmp_path / "runs"
    with open_driver(study, runs, FakeExecutor(), on_event=slow, clock=clock) as driver:
        began = clock.now
        driver.start()
        driver.tick()
        assert clock.now - began >= 100  # started, three trials, a job
        with pytest.raises(ConflictError), opened(study, FakeExecutor(), clock):
            pass


def test_circles_are_looked_for_rarely_while_a_study_is_open(tmp_path: Path) -> None:
    before, usual = gc.get_threshold(), (700, 10, 10)
    gc.set_threshold(*usual)  # a driver that a test killed has not set them back
    try:
        with opened(new_study(tmp_path), FakeExecutor()):
            assert all(now > own for now, own in zip(gc.get_threshold(), usual, strict=True))
        assert gc.get_threshold() == usual
    finally:
        gc.set_threshold(*before)


class Circle:
    """Garbage that is found by looking for circles alone."""

    def __init__(self) -> None:
        self.itself = self


@pytest.fixture
def no_collection_but_a_drivers(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let a driver believe that there are many new objects, and Python not look by itself."""
    monkeypatch.setattr(gc, "get_count", lambda: (0, 0, 1))
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collection_but_a_drivers")
def test_a_driver_looks_for_circles_among_new_objects_alone(tmp_path: Path) -> None:
    circles: list[weakref.ref[Circle]] = []

    def clock() -> float:
        circles.append(weakref.ref(Circle()))
        return 1_000_000.0

    with opened(new_study(tmp_path), FakeExecutor(), clock) as driver:
        driver.tick()
        assert len(circles) > 0
        assert all(circle() is None for circle in circles)
        kept = {id(trial) for trial in driver.state.trials.values()}
        assert len(kept) > 0
        assert kept.isdisjoint(map(id, gc.get_objects()))


@pytest.mark.usefixtures("no_collection_but_a_drivers")
def test_a_closed_driver_leaves_nothing_frozen_where_nothing_was(tmp_path: Path) -> None:
    gc.unfreeze()
    try:
        with opened(new_study(tmp_path), FakeExecutor()) as driver:
            driver.tick()
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0
    finally:
        gc.freeze()


# Whose study it is.


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"seed": 2}, "seed"),
        ({"objectives": [{"metric": METRIC, "goal": "minimize"}]}, "objectives"),
        ({"trainer": {"host.gamma": 0.5, "host.tau": 0.5}}, "base"),
    ],
)
def test_the_same_name_for_another_search(
    tmp_path: Path, changes: dict[str, Any], named: str
) -> None:
    begun(tmp_path)
    other = new_study(tmp_path, budget={"trials": 3}, **changes)
    before = everything(other), files(other)
    with (
        pytest.raises(ConflictError, match=rf"what changed: {named}\)"),
        opened(other, FakeExecutor()),
    ):
        pass
    assert (everything(other), files(other)) == before


def test_budget_and_executor_may_change(tmp_path: Path) -> None:
    begun(tmp_path)
    other = new_study(
        tmp_path, budget={"trials": 2}, executor={"name": "local", "jobs": 2}, max_failures=0
    )
    assert drive(other, FakeExecutor()).counts()["finished"] == 2


def test_an_optuna_study_that_is_not_ours(tmp_path: Path) -> None:
    study = new_study(tmp_path)
    storage = RDBStorage(study.spec.storage)
    optuna.create_study(storage=storage, study_name="quick").ask()
    storage.remove_session()
    storage.engine.dispose()
    with pytest.raises(ConflictError, match="'quick' that hpsearch did not make"):
        drive(study, FakeExecutor())
    assert query(study, "SELECT COUNT(*) FROM trials") == [(1,)]
    assert not (tmp_path / "runs").exists()


def test_a_folder_whose_trials_another_database_knows(tmp_path: Path) -> None:
    study = new_study(tmp_path, budget={"trials": 1})
    drive(study, FakeExecutor())
    before = files(study)
    elsewhere = new_study(tmp_path, budget={"trials": 1}, storage=f"sqlite:///{tmp_path}/b.db")
    with pytest.raises(ConflictError, match="a study that is not in this database"):
        drive(elsewhere, FakeExecutor())
    assert files(study) == before


class Rushing(Clock):
    """A clock that moves at each look."""

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


@pytest.fixture
def many(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    """Return a study of twenty jobs of six trials each, which are asked for by twelve."""
    monkeypatch.setattr(driver_module, "ASKED_AT_ONCE", 12)
    executor = {"name": "local", "jobs": 20, "members_per_job": 6}
    return new_study(tmp_path, budget={"trials": 240}, executor=executor)


def test_a_long_round_is_over_before_all_is_done(many: Study) -> None:
    """Before, 16,384 GPUs stood idle until a driver had asked for all of 130,000 trials."""
    asked, jobs, hurried = [], [], []
    with opened(many, FakeExecutor(), Rushing()) as driver:
        while len(driver.state.trials) < 120:
            driver.tick()
            asked.append(len(driver.state.trials))
            jobs.append(len(driver.state.jobs))
            hurried.append(driver.is_hurried)
        tick_until(driver, lambda: not driver.is_busy)
    assert len(asked) > 2
    assert jobs == [number // 6 for number in asked]
    assert all(hurried[:-1])
    assert driver.state.counts()["finished"] == 240


def test_jobs_that_ended_are_replaced_before_all_results_are_told(
    many: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, 16,384 GPUs stood idle for a fifth of the time, as results were told first."""
    monkeypatch.setattr(observe_module, "MOST_NEWS", 50)
    with opened(many, FakeExecutor()) as driver:
        tick_until(driver, lambda: bool(driver.state.num_told))
        assert (driver.state.num_told.total(), len(driver.state.jobs)) == (120, 40)
    kinds = [kind for kind, *_ in stored_events(many, "told", "asked")]
    steps = [(kind, len(list(same))) for kind, same in groupby(kinds)]
    assert steps == [("asked", 120), ("told", 48), ("asked", 120), ("told", 72)]


@pytest.mark.parametrize("is_slow", [False, True])
def test_a_quick_look_asks_after_its_first_part_and_its_last(
    many: Study, monkeypatch: pytest.MonkeyPatch, is_slow: bool
) -> None:
    """Before, after each: to count the places of 16,384 pilots took most of a round."""
    monkeypatch.setattr(observe_module, "MOST_NEWS", 6)
    monkeypatch.setattr(driver_module, "SUBMITTING_SECONDS", 1000.0)
    monkeypatch.setattr(driver_module, "WORKING_SECONDS", 1000.0)
    clock = Clock()
    with opened(many, FakeExecutor(), clock) as driver:
        tick_until(driver, lambda: any(trial.reported for trial in driver.state.trials.values()))
        happened: list[str] = []
        ask, observe = driver._ask, driver._observer.observe

        def noted_ask(until: float) -> bool:
            happened.append("ask")
            return ask(until)

        def noted_observe(*given: Any, **named: Any) -> Iterator[Observation]:
            for part in observe(*given, **named):
                happened.append("part")
                clock.now += driver_module.ASKING_SECONDS if is_slow else 0.0
                yield part

        monkeypatch.setattr(driver, "_ask", noted_ask)
        monkeypatch.setattr(driver._observer, "observe", noted_observe)
        driver.tick()
    num_parts = happened.count("part")
    assert num_parts > 4
    each = ["part", "ask"] * num_parts
    assert happened == (each if is_slow else ["part", "ask", *["part"] * (num_parts - 1), "ask"])


def test_all_is_looked_at_before_a_study_is_cancelled(
    many: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A round that ended early would have told that trials were cancelled which had finished."""
    monkeypatch.setattr(observe_module, "MOST_NEWS", 6)
    with opened(many, FakeExecutor()) as driver:
        driver.tick()
        driver.tick()
        monkeypatch.setattr(driver_module, "WORKING_SECONDS", 0.0)
        requests.leave(driver._folder, Request("cancel"))
        driver.tick()
        assert not driver.is_hurried
        assert driver.state.num_told.total() == len(driver.state.trials)
