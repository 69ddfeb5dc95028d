"""A snapshot and the events after it are the fold over all events, wherever a log is cut."""

import dataclasses
import hashlib
import json
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from drives import (
    Clock,
    Killed,
    drive,
    new_study,
    opened,
    query,
    tick_until,
    url_of,
)
from fakes import FakeExecutor, Fault
from test_database import create
from test_islands import island_study
from test_population_closing import closing_study
from test_population_study import POPULATION, population_study, teaching
from test_requests import request
from tried import tried

from hpsearch.cluster.records import Exploit
from hpsearch.errors import ConflictError, StorageError, StorageUnavailableError
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.study import snapshots
from hpsearch.study.database import Database, StudyRecords
from hpsearch.study.events import Event, EventLog, Lease, Leases
from hpsearch.study.records import (
    COMPLETE,
    FAIL,
    NUM_NEWEST,
    Ended,
    Job,
    Length,
    Loss,
    Lost,
    Match,
    PlannedTrial,
    PopulationRecord,
    Tally,
    Trial,
)
from hpsearch.study.snapshots import (
    REFRESH_SECONDS,
    SHARE,
    Settled,
    SnapshotRows,
    SnapshotWriter,
    Stored,
    read_state,
)
from hpsearch.study.spec import Study
from hpsearch.study.state import StudyState

TWO_JOBS = {"name": "local", "jobs": 2, "members_per_job": 2}
FAULTS = {(0, 1): Fault("vanish", 4), (2, 1): Fault("nan", 8), (3, 1): Fault("error")}


def searched(folder: Path) -> Study:
    """Return a study with attempts that are lost, trials that fail, and one tried again."""
    median = {"name": "median", "n_startup_trials": 2}
    study = new_study(folder, budget={"trials": 9}, executor=TWO_JOBS, pruner=median)
    executor = FakeExecutor(faults=FAULTS, gpus_per_job=1.0)
    drive(study, executor)
    request(study, "retry", 2, 3)
    drive(study, executor)
    return study


def cancelled(folder: Path) -> Study:
    study, executor = new_study(folder, budget={"trials": 8}, executor=TWO_JOBS), FakeExecutor()
    with opened(study, executor) as driver:
        tick_until(driver, lambda: driver.state.num_told[COMPLETE] > 2)
        request(study, "pause")
        driver.tick()
        request(study, "resume")
        driver.tick()
        request(study, "cancel")
        tick_until(driver, lambda: not driver.is_busy)
    return study


def piloted(folder: Path) -> Study:
    study = new_study(folder, budget={"trials": 8}, executor=TWO_JOBS)
    drive(study, FakeExecutor(faults={(0, 1): Fault("vanish", 4)}, pilot_seconds=60.0))
    return study


def bred(folder: Path) -> Study:
    matches = POPULATION["matches"] | {"best_response": 8}
    study = population_study(folder, matches=matches)
    drive(study, FakeExecutor(teaching=teaching, faults=FAULTS, lost_matches=[2]))
    return study


def bred_by_pilots(folder: Path) -> Study:
    study = population_study(folder, generations={"name": "steady"})
    drive(study, FakeExecutor(teaching=teaching, pilot_seconds=600.0))
    return study


def of_islands(folder: Path) -> Study:
    study = island_study(folder)
    drive(study, FakeExecutor(teaching=teaching))
    return study


def closed(folder: Path) -> Study:
    study = closing_study(folder)
    drive(study, FakeExecutor(teaching=teaching))
    return study


QUICK, LONG = (searched, cancelled, bred, of_islands), (piloted, bred_by_pilots, closed)


@pytest.fixture(
    scope="module",
    params=[*QUICK, *(pytest.param(make, marks=pytest.mark.slow) for make in LONG)],
    ids=lambda make: make.__name__,
)
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A study that was driven to its end."""
    driven: Study = request.param(tmp_path_factory.mktemp("driven"))
    return driven


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    with closing(Database.open(f"sqlite:///{tmp_path}/cut.db")) as opened_one:
        opened_one.migrate()
        yield opened_one


def events_of(study: Study) -> list[Event]:
    with closing(Database.open(url_of(study))) as database:
        record = StudyRecords(database).get(study.spec.name)
        assert record is not None
        return list(EventLog(database).read(record.id))


def folded(events: Sequence[Event]) -> StudyState:
    state = StudyState()
    state.apply(events)
    return state


def no_line(trial: Trial) -> str:
    return f"{trial.told}"


def held(database: Database, study_id: int, *, now: float = 1.0) -> Lease:
    return Leases(database).acquire(study_id, holder="a", now=now, ttl=10.0)


def check_cuts(database: Database, events: Sequence[Event], rng: random.Random, most: int) -> None:
    """Write a log bit by bit, at times with a snapshot; each time, readers know everything."""
    study_id, log = create(database), EventLog(database)
    lease, writer, every = held(database, study_id), SnapshotWriter(database), list[Event]()
    waiting = [Event(0, e.kind, e.at, e.trial, e.attempt, e.job, e.data) for e in events]
    while waiting:
        size = rng.randint(1, most)
        every += log.append(study_id, waiting[:size], lease=lease)
        del waiting[:size]
        whole = folded(every)
        if rng.random() < 0.5:
            if rng.random() < 0.3:
                writer = SnapshotWriter(database)  # as another driver goes on
            writer.write(lease, whole, no_line)
        seen = read_state(database, study_id)
        for number in rng.sample(sorted(whole.trials), min(2, len(whole.trials))):
            assert seen.trials[number] == whole.trials[number]
        assert len(seen.trials) == len(whole.trials)
        assert seen == whole
        assert [*seen.live] == [*whole.live]
        assert [*seen.untold] == [*whole.untold]


class Rows(SnapshotRows):
    """The rows of a snapshot, in a dict instead of a table."""

    def __init__(self, rows: Settled) -> None:
        super().__init__("", 0, 0)
        object.__setattr__(self, "rows", {kind: dict(texts) for kind, texts in rows.items()})

    def texts(self, kind: str, name: str | None = None) -> list[str]:
        return [text for key, text in self.rows[kind].items() if name in (None, key)]


def from_texts(head: str, rows: Settled) -> StudyState:
    """Return the state of a snapshot, without a database."""
    return snapshots.restored(json.loads(head), Rows(rows))


def test_a_snapshot_and_the_rest_are_the_whole(study: Study) -> None:
    """Wherever the log is cut; and what has settled is at the end as it was written."""
    events, state = events_of(study), StudyState()
    end, rows = folded(events), {kind: dict[str, str]() for kind in ("trial", "job", "match")}
    for cut, event in enumerate(events, 1):
        state.apply([event])
        known = {kind: {*texts} for kind, texts in rows.items()}
        for kind, texts in snapshots.settled(state, known).items():
            rows[kind] |= texts
        head = snapshots.head_text(state)
        assert from_texts(head, rows) == state
        later = from_texts(head, rows)
        later.apply(events[cut:])
        assert later == end
    assert rows == snapshots.settled(end, {kind: set() for kind in rows})


def test_readers_know_everything_at_any_moment(study: Study, database: Database) -> None:
    check_cuts(database, events_of(study), random.Random(study.spec.name), most=25)


@pytest.mark.parametrize("seed", tried(range(3), slow=[0]))
def test_readers_do_after_every_event(study: Study, database: Database, seed: int) -> None:
    check_cuts(database, events_of(study), random.Random(seed), most=1)


def test_sums_are_those_of_all_trials(study: Study) -> None:
    """The sums that the fold keeps up, against what one counts who looks at each trial."""
    events = events_of(study)
    for cut in range(0, len(events) + 1, 7):
        check_sums(folded(events[:cut]))
    check_sums(folded(events))


def check_sums(state: StudyState) -> None:
    trials, tally = list(state.trials.values()), state.tally
    failed = [trial for trial in trials if trial.told == FAIL]
    assert tally.failed == Counter(trial.failure or "unknown" for trial in failed)
    assert len(tally.newest_failed) == min(NUM_NEWEST, len(failed))
    assert {*tally.newest_failed} <= {trial.number for trial in failed}
    valued = [trial for trial in trials if trial.told == COMPLETE and trial.value is not None]
    by_value = sorted(valued, key=lambda trial: trial.value or 0.0)
    best = max(valued, key=lambda trial: trial.value or 0.0, default=None)
    assert tally.least == ((by_value[0].value, by_value[0].number) if valued else None)
    assert tally.greatest == ((best.value, best.number) if best else None)
    losses = [loss for trial in trials for loss in trial.losses]
    assert tally.lost.keys() == {loss.kind for loss in losses}
    for kind, lost in tally.lost.items():
        alike = [loss for loss in losses if loss.kind == kind]
        assert lost.attempts == len(alike)
        assert lost.seconds == pytest.approx(sum(loss.seconds for loss in alike))
        assert lost.gpu_seconds == pytest.approx(sum(loss.seconds * loss.gpus for loss in alike))
    born = [
        trial.origin
        for trial in trials
        if trial.origin and (trial.told != FAIL or trial.is_adopted)
    ]
    made = Counter(origin.operator["name"] for origin in born if origin.is_child and origin.parents)
    assert tally.children == made
    assert tally.lengths.total() == sum(trial.told is not None for trial in trials)
    matches = list(state.population.matches.values())
    champions = [match.champion for match in matches if match.champion is not None]
    assert state.population.archive == [*dict.fromkeys(champions[::-1])][::-1]
    assert state.population.num_judged == len(champions)
    answers = {match.answers[0]["trial"]: match.answers for match in matches if match.answers}
    assert state.population.answers == answers


def rows_of(database: Database) -> list[Any]:
    with database.engine.connect() as connection:
        asked = "SELECT kind, name, event, data FROM hpsearch_snapshots ORDER BY kind, name"
        return [*connection.exec_driver_sql(asked)]


def test_who_has_lost_the_lease_writes_no_snapshot(database: Database) -> None:
    study_id, log = create(database), EventLog(database)
    lease, writer = held(database, study_id), SnapshotWriter(database)
    state = folded(log.append(study_id, [asked(0)]))
    writer.write(lease, state, no_line)
    before = rows_of(database)
    held(database, study_id, now=100.0)
    state.apply(log.append(study_id, [asked(1)]))
    for each in (writer, SnapshotWriter(database)):
        with pytest.raises(ConflictError, match="no longer driven by a"):
            each.write(lease, state, no_line)
    assert rows_of(database) == before
    assert len(read_state(database, study_id).trials) == 2


def asked(number: int, kind: str = "asked", **data: Any) -> Event:
    return Event(0, kind, 1.0, number, data={"params": {"x": 1.0}} | data)


def told(number: int) -> Event:
    ended = {"state": "finished", "value": 0.5, "metrics": {}, "failure": None, "message": ""}
    return Event(0, "told", 2.0, number, data=ended)


@pytest.mark.parametrize("moment", ["before", "within", "after"])
def test_a_driver_that_dies_at_a_snapshot_leaves_one_to_read(
    database: Database, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    study_id, log = create(database), EventLog(database)
    lease, writer = held(database, study_id), SnapshotWriter(database)
    state = folded(log.append(study_id, [asked(0), asked(1), told(0)]))
    writer.write(lease, state, no_line)
    state.apply(log.append(study_id, [asked(2), told(2)]))
    real, insert = Database._attempt, snapshots._insert

    def dying(self: Database, work: Callable[[Any], Any]) -> Any:
        if moment == "after":
            real(self, work)
        raise Killed

    def half(session: Any, number: int, of: StudyState, texts: Any) -> None:
        insert(session, number, of, texts)
        raise Killed

    with monkeypatch.context() as patch:
        if moment == "within":
            patch.setattr(snapshots, "_insert", half)
        else:
            patch.setattr(Database, "_attempt", dying)
        with pytest.raises(Killed):
            writer.write(lease, state, no_line)
    assert read_state(database, study_id) == state
    SnapshotWriter(database).write(lease, state, no_line)
    assert read_state(database, study_id) == state
    assert [row[:2] for row in rows_of(database) if row[0] == "trial"] == [
        ("trial", "0"),
        ("trial", "2"),
    ]


def test_a_snapshot_of_another_version_is_not_read_and_replaced(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    study_id, log = create(database), EventLog(database)
    lease, state = held(database, study_id), folded(log.append(study_id, [asked(0), told(0)]))
    with monkeypatch.context() as patch:
        patch.setattr(snapshots, "VERSION", snapshots.VERSION + 1)
        SnapshotWriter(database).write(lease, state, lambda trial: "of another version")
        seen = read_state(database, study_id)
        assert isinstance(seen.trials, Stored)
    assert isinstance(read_state(database, study_id).trials, dict)
    SnapshotWriter(database).write(lease, state, no_line)
    assert isinstance(read_state(database, study_id).trials, Stored)
    assert "another version" not in str(rows_of(database))


LIST_FOR_MAPPING = "a list in the place of a mapping"


@pytest.mark.parametrize("damage", ["", "{", "[]", '{"version": 1}', LIST_FOR_MAPPING])
def test_a_damaged_snapshot_is_none(database: Database, damage: str) -> None:
    """Before, it ended every reader, and the driver at its next one."""
    study_id, log = create(database), EventLog(database)
    lease, state = held(database, study_id), folded(log.append(study_id, [asked(0), told(0)]))
    SnapshotWriter(database).write(lease, state, no_line)
    if damage == LIST_FOR_MAPPING:
        head = json.loads(snapshots.head_text(state))
        damage = json.dumps(head | {"population": head["population"] | {"newest": []}})
    with database.engine.begin() as connection:
        change = "UPDATE hpsearch_snapshots SET data = :damage WHERE kind = 'head'"
        connection.execute(sqlalchemy.text(change), {"damage": damage})
    assert read_state(database, study_id) == state
    SnapshotWriter(database).write(lease, state, no_line)
    assert isinstance(read_state(database, study_id).trials, Stored)


def test_a_damaged_row_of_a_snapshot_is_told_with_its_remedy(database: Database) -> None:
    study_id, log = create(database), EventLog(database)
    events = [asked(number) for number in range(2)] + [told(number) for number in range(2)]
    lease, state = held(database, study_id), folded(log.append(study_id, events))
    SnapshotWriter(database).write(lease, state, no_line)
    with database.engine.begin() as connection:
        connection.execute(
            sqlalchemy.text("UPDATE hpsearch_snapshots SET data = 'x' WHERE kind = 'trial'")
        )
    with pytest.raises(StorageError, match="DELETE FROM hpsearch_snapshots WHERE study_id = 1"):
        list(read_state(database, study_id).trials.values())
    with database.engine.begin() as connection:
        connection.execute(sqlalchemy.text("DELETE FROM hpsearch_snapshots WHERE study_id = 1"))
    assert read_state(database, study_id) == state


def test_a_study_begun_before_there_were_snapshots_is_read(database: Database) -> None:
    study_id = create(database)
    state = folded(EventLog(database).append(study_id, [asked(0), told(0)]))
    with database.engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE hpsearch_snapshots")
    assert read_state(database, study_id) == state


def test_what_a_newer_version_has_taken_away_is_missed_in_a_sentence(database: Database) -> None:
    study_id, log = create(database), EventLog(database)
    many = [event for number in range(30) for event in (asked(number), told(number))]
    lease, state = held(database, study_id), folded(log.append(study_id, many))
    SnapshotWriter(database).write(lease, state, no_line)
    seen = read_state(database, study_id)
    assert 30 not in seen.trials
    seen = read_state(database, study_id)
    with database.engine.begin() as connection:
        connection.execute(sqlalchemy.delete(snapshots.ROWS))
    with pytest.raises(StorageUnavailableError, match="run the command again"):
        list(seen.trials)
    with pytest.raises(StorageUnavailableError, match="run the command again"):
        print(seen.trials[7])


def test_who_reads_while_a_driver_writes_sees_one_moment(database: Database) -> None:
    """Trials that end after a head was read are as that head and the events say."""
    study_id, log = create(database), EventLog(database)
    lease, writer = held(database, study_id), SnapshotWriter(database)
    many = [event for number in range(20) for event in (asked(number), told(number))]
    every = log.append(study_id, [*many, asked(20)])
    writer.write(lease, folded(every), no_line)
    seen, before = read_state(database, study_id), folded(every)
    every += log.append(study_id, [told(20), asked(21), told(21)])
    writer.write(lease, folded(every), no_line)
    assert seen == before
    assert read_state(database, study_id) == folded(every)


def test_a_head_of_many_pieces(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshots, "PIECE", 100)
    study_id, log = create(database), EventLog(database)
    state = folded(log.append(study_id, [asked(number) for number in range(40)]))
    SnapshotWriter(database).write(held(database, study_id), state, no_line)
    assert sum(row[0] == "head" for row in rows_of(database)) > 10
    assert read_state(database, study_id) == state


# Drivers.


def test_a_writer_takes_little_of_the_time() -> None:
    clock, state = Clock(), StudyState()
    times: list[float] = []

    class Slow:
        def transaction(self, work: Callable[[Any], Any]) -> dict[str, set[str]]:
            times.append(clock.now)
            clock.now += 5.0
            return {}

    database: Any = Slow()
    lease, writer = Lease(1, "a", 1, 0.0), SnapshotWriter(database, clock=clock)
    began = clock.now
    for second in range(2000):
        clock.now += 1.0
        state.last_event = second // 2
        writer.write(lease, state, no_line, if_due=True)
    assert times[0] == began + REFRESH_SECONDS
    assert 5.0 * len(times) <= SHARE * (clock.now - began) + 5.0
    writer.write(lease, state, no_line)
    writer.write(lease, state, no_line)
    assert times[-1] == clock.now - 5.0  # once: nothing has happened since


def test_drivers_that_die_leave_snapshots_of_their_events(tmp_path: Path) -> None:
    study, executor = new_study(tmp_path, budget={"trials": 8}, executor=TWO_JOBS), FakeExecutor()
    rng = random.Random(0)
    for _ in range(100):
        try:
            with opened(study, executor) as driver:
                while driver.is_busy:
                    driver.tick()
                    driver.write_snapshot()
                    if rng.random() < 0.2:
                        raise Killed
                break
        except Killed:
            continue
    with closing(Database.open(url_of(study))) as database:
        record = StudyRecords(database).get(study.spec.name)
        assert record is not None
        seen = read_state(database, record.id)
    assert seen == folded(events_of(study))
    kinds = Counter(kind for (kind,) in query(study, "SELECT kind FROM hpsearch_snapshots"))
    assert (kinds["trial"], kinds["job"]) == (8, len(seen.jobs))


# Fields and versions.


def filled() -> StudyState:
    """Return a state in which no field of any record is as in a new one."""
    origin = PlannedTrial("k", 1, 2, (3,), (4,), {"name": "mutation"}, True, {"x": 1.0}, 9, 1)
    takeover = Exploit(1, 2, 3, "ab", {"x": [1, 2]}, {"x": 2.0})  # type: ignore[dict-item]
    trial = Trial(
        **(
            {"number": 7, "params": {"x": 1.0}, "asked_at": 1.0, "attempts": 2, "token": "t"}
            | {"job": "00001", "announced_at": 2.0, "began_at": 3.0, "seconds": 4.0}
            | {"reported": {5: 0.5}, "prune": True, "rungs": 1, "lost": 2, "step": 6, "kept": 5}
            | {"told": FAIL, "value": 0.25, "metrics": {"m": {"value": 0.25}}, "failure": "nan"}
            | {
                "message": "NaN",
                "ended_by": "games",
                "losses": [Loss(1, "nan", 2.0, 0.5, ("a", "b"))],
            }
            | {"is_alone": True, "retry_of": 3, "origin": origin, "sha256": "cd"}
            | {"is_adopted": True, "takeovers": (takeover,)}
        )
    )
    job = Job("00001", [((7, 2, "t"),)], {7}, "17", 1.0, 2.0, True, True, 3.0, 1.5, True, True)
    job.is_silent, job.closed, job.match = True, True, 1
    ours = {"trial": 7, "rho": 0.5}
    match = Match(1, {1: 7}, (1,), (2,), "00001", 1.0, 2, {7: 0.1}, {7: [0.0, 0.2]}, {"g": 1})
    match.answers, match.champion = [ours], 7
    population = PopulationRecord(
        *([origin], True, {1: match}, 1, [7], {7: [ours]}, {1: 7}, {1: 7}, {1: Ended(1.0, 2.0)}),
        *({3, 4}, {"mutation": OperatorRecord(3, 2)}, 1, True),
    )
    lengths = Counter[Length]({5: 1, (16, "dqn"): 2, (None, None): 3})
    tally = Tally(lengths, Counter(nan=1), [7], {"nan": Lost(1, 2.0, 3.0)}, (0.1, 7), (0.2, 7))
    tally.children, tally.ended = Counter(mutation=1), Counter(games=2)
    return StudyState(
        *({7: trial}, {"00001": job}, {}, {}, Counter(failed=1), 1.0, 1, 1, 1, "paused", "why"),
        *(1.0, 9, {"b", "a"}, [7], population, tally),
    )


def test_every_field_comes_back() -> None:
    state = filled()
    population, nothing = state.population, {kind: dict[str, str]() for kind in KINDS}
    records = [state, state.trials[7], state.jobs["00001"], population, state.tally]
    derived = {"untold", "live"}
    for record in [*records, population.matches[1]]:
        for field in dataclasses.fields(record):  # type: ignore[arg-type]
            new = field.default
            if field.default_factory is not dataclasses.MISSING:
                new = field.default_factory()
            assert vars(record)[field.name] != new or field.name in derived, field.name
    assert from_texts(snapshots.head_text(state), nothing) == state


KINDS = ("trial", "job", "match")
EVENTS = Path(__file__).parents[1] / "data/snapshot_events.jsonl"
"""of a population with a lost attempt, a failed trial and a lost match"""
MADE_OF_THEM = {
    1: "5899ff464ee040465c35ee69637a0e1741010ed3c957bae8c3de0dd6fcf8f5cc",
    2: "957e23c7c8a7298b591205244176211c66c35ffa61bb23771e9d5e6776d3be1a",
}
"""sha256 of what the fold makes of the events, by `snapshots.VERSION`"""


def test_another_fold_has_another_version() -> None:
    """If this fails, the fold or a snapshot's form has changed: raise the version, add the sum."""
    events = [Event(*json.loads(line)) for line in EVENTS.read_text().splitlines()]
    state = folded(events)
    texts = snapshots.settled(state, {kind: set() for kind in KINDS})
    made = json.dumps([json.loads(snapshots.head_text(state)), texts])
    version = json.loads(snapshots.head_text(state))["version"]
    assert hashlib.sha256(made.encode()).hexdigest() == MADE_OF_THEM[version]
