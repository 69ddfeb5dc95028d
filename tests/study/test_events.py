"""The event log and the leases that guard it."""

import multiprocessing
import random
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from test_database import create, race

from hpsearch.errors import ConflictError
from hpsearch.study import events
from hpsearch.study.database import Database
from hpsearch.study.events import Event, EventLog, Lease, Leases


@pytest.fixture
def database(tmp_path: Path) -> Iterator[Database]:
    opened = Database.open(f"sqlite:///{tmp_path}/studies.db")
    opened.migrate()
    yield opened
    opened.close()


def test_events_come_back_in_order_as_they_were(database: Database) -> None:
    study, log = create(database), EventLog(database)
    several = [
        Event(0, "asked", 1.25, trial=0, data={"params": {"lr": 0.1, "net": "[64, 64]"}}),
        Event(0, "submitted", 2.0, job="j-1"),
        Event(0, "ended", 2.0, trial=0, attempt=1, data={"value": None, "note": "ü"}),
    ]
    written = log.append(study, several[:1]) + log.append(study, several[1:])
    assert list(log.read(study)) == written
    assert [without_id(event) for event in written] == several
    assert [event.id for event in written] == sorted({event.id for event in written})
    assert list(log.read(study, after_id=written[0].id)) == written[1:]
    assert list(log.read(study, after_id=written[-1].id)) == []


def test_long_logs_are_read_in_parts(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    study, log = create(database), EventLog(database)
    written = log.append(study, [Event(0, "a", float(second)) for second in range(5)])
    log.append(create(database, name="another"), [Event(0, "b", 0.0)])
    sizes: list[int] = []
    read_part = EventLog._read_part

    def noted(self: EventLog, study_id: int, after_id: int) -> list[Event]:
        part = read_part(self, study_id, after_id)
        sizes.append(len(part))
        return part

    monkeypatch.setattr(EventLog, "_read_part", noted)
    for at_once, expected in ((2, [2, 2, 1]), (5, [5, 0]), (9, [5])):
        monkeypatch.setattr(events, "EVENTS_AT_ONCE", at_once)
        sizes.clear()
        assert list(log.read(study)) == written
        assert sizes == expected


def without_id(event: Event) -> Event:
    return Event(0, event.kind, event.at, event.trial, event.attempt, event.job, event.data)


def test_studies_have_their_own_events(database: Database) -> None:
    log = EventLog(database)
    first, second = create(database, name="one"), create(database, name="two")
    log.append(first, [Event(0, "a", 0.0)])
    log.append(second, [Event(0, "b", 0.0)])
    assert [event.kind for event in log.read(second)] == ["b"]


def test_events_of_one_call_are_written_all_or_none(database: Database) -> None:
    study, log = create(database), EventLog(database)
    with pytest.raises(TypeError, match="JSON"):
        log.append(study, [Event(0, "a", 0.0), Event(0, "b", 0.0, data={"x": object()})])
    assert list(log.read(study)) == []
    assert log.append(study, []) == []


def test_lease_is_held_until_it_expires(database: Database) -> None:
    study, leases = create(database), Leases(database)
    first = leases.acquire(study, holder="login-1:77", now=100.0, ttl=30.0)
    refused = r"study quick is driven by login-1:77, whose lease expires in 20 seconds"
    with pytest.raises(ConflictError, match=refused):
        leases.acquire(study, holder="login-2:5", now=110.0, ttl=30.0)
    second = leases.acquire(study, holder="login-2:5", now=130.0, ttl=30.0)
    assert (first.token, second.token) == (1, 2)
    assert (first.expires_at, second.expires_at) == (130.0, 160.0)


def test_renewed_lease_lasts_longer_and_a_lost_one_is_refused(database: Database) -> None:
    study, leases = create(database), Leases(database)
    first = leases.acquire(study, holder="one", now=0.0, ttl=10.0)
    renewed = leases.renew(first, now=9.0, ttl=10.0)
    assert renewed == replace(first, expires_at=19.0)
    with pytest.raises(ConflictError):
        leases.acquire(study, holder="two", now=15.0, ttl=10.0)
    # Expired but not taken: its holder may go on.
    renewed = leases.renew(renewed, now=50.0, ttl=10.0)
    leases.acquire(study, holder="two", now=60.0, ttl=10.0)
    with pytest.raises(ConflictError, match="no longer driven by one, whose lease expired, but by"):
        leases.renew(renewed, now=61.0, ttl=10.0)


def test_released_lease_is_free_and_a_lost_one_stays_with_its_holder(database: Database) -> None:
    study, leases = create(database), Leases(database)
    first = leases.acquire(study, holder="one", now=0.0, ttl=10.0)
    leases.release(first)
    second = leases.acquire(study, holder="two", now=1.0, ttl=10.0)
    assert second.token == 2
    leases.release(first)
    with pytest.raises(ConflictError, match="driven by two"):
        leases.acquire(study, holder="three", now=2.0, ttl=10.0)


def test_driver_that_lost_its_lease_cannot_write(database: Database) -> None:
    study, leases, log = create(database), Leases(database), EventLog(database)
    first = leases.acquire(study, holder="one", now=0.0, ttl=10.0)
    leases.renew(first, now=5.0, ttl=10.0)
    log.append(study, [Event(0, "a", 6.0)], lease=first)
    with pytest.raises(ConflictError):  # writing has not shortened the renewed lease
        leases.acquire(study, holder="two", now=12.0, ttl=10.0)
    second = leases.acquire(study, holder="two", now=15.0, ttl=10.0)
    with pytest.raises(ConflictError, match="but by two"):
        log.append(study, [Event(0, "b", 16.0)], lease=first)
    log.append(study, [Event(0, "c", 16.0)], lease=second)
    assert [event.kind for event in log.read(study)] == ["a", "c"]


def take_lease(
    url: str, barrier: threading.Barrier, outcomes: "multiprocessing.Queue[str]"
) -> None:
    database = Database.open(url)
    barrier.wait()
    try:
        name = multiprocessing.current_process().name
        lease = Leases(database).acquire(1, holder=name, now=100.0, ttl=10.0)
        outcomes.put(f"token {lease.token}")
    except ConflictError:
        outcomes.put("refused")
    finally:
        database.close()


@pytest.mark.parametrize("before", ["nothing", "another driver"])
def test_one_of_several_racing_processes_gets_the_lease(database: Database, before: str) -> None:
    study, token = create(database), 1
    if before == "another driver":
        Leases(database).acquire(study, holder="dead", now=0.0, ttl=10.0)
        token = 2
    assert sorted(race(take_lease, database.url, count=3)) == ["refused"] * 2 + [f"token {token}"]


@pytest.mark.parametrize("seed", range(3))
def test_at_any_time_one_driver_at_most_can_write(database: Database, seed: int) -> None:
    rng = random.Random(seed)
    study, leases, log = create(database), Leases(database), EventLog(database)
    held: dict[str, Lease] = {}
    owner, expires, now, written = None, 0.0, 0.0, 0
    for _ in range(60):
        now += rng.uniform(0, 4)
        name = rng.choice(("one", "two", "three"))
        action = rng.choice(("acquire", "renew", "release", "write"))
        try:
            if action == "acquire":
                held[name] = leases.acquire(study, holder=name, now=now, ttl=10.0)
                assert now >= expires
                owner, expires = name, now + 10.0
            elif name in held and action == "renew":
                held[name] = leases.renew(held[name], now=now, ttl=10.0)
                assert owner == name
                expires = now + 10.0
            elif name in held and action == "release":
                leases.release(held.pop(name))
                owner, expires = (None, 0.0) if owner == name else (owner, expires)
            elif name in held:
                log.append(study, [Event(0, "x", now)], lease=held[name])
                assert owner == name
                written += 1
        except ConflictError:
            assert owner != name or (action == "acquire" and now < expires)
    assert len(list(log.read(study))) == written > 0
