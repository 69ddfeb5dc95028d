"""Waiting for a database that went away: when, how long, and what is said."""

from collections.abc import Callable
from itertools import pairwise

import pytest

from hpsearch.errors import (
    ConflictError,
    SchedulerUnavailableError,
    StorageError,
    StorageUnavailableError,
)
from hpsearch.study.recorder import LEASE_SECONDS, Outage

AWAY = StorageUnavailableError("the database is away")


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class World:
    """A database that is away at some times, and an outage that waits for it."""

    def __init__(
        self,
        *,
        away: tuple[float, float],
        patience: float = 86_400.0,
        waits_at_start: bool = False,
    ) -> None:
        self.time = Time()
        self.told: list[str] = []
        self.away = away
        self.outage = Outage(
            self.told.append,
            waits_at_start=waits_at_start,
            patience=patience,
            clock=self.time,
            sleep=self.time.sleep,
        )
        self.num_done = 0
        self.tried: list[float] = []

    def work(self) -> str:
        """Work for ten rounds of a second, if the database stays."""
        self.tried.append(self.time.now)
        self._ask()
        self.outage.reached()
        while self.num_done < 10:
            self._ask()
            self.num_done += 1
            self.time.now += 1.0
        return "done"

    def _ask(self) -> None:
        begin, end = self.away
        if begin <= self.time.now < end:
            raise AWAY


def test_five_minutes_are_waited_for_with_growing_pauses() -> None:
    world = World(away=(3.0, 303.0))
    assert world.outage.run(world.work) == "done"
    assert world.num_done == 10
    pauses = [later - before for before, later in pairwise(world.tried)]
    assert pauses[:6] == [
        3.0 + 1.0,
        2.0,
        4.0,
        8.0,
        16.0,
        30.0,
    ]  # the first comes after three rounds
    assert set(pauses[5:]) == {30.0}
    assert len(world.told) == 2
    assert world.told[0].startswith("the database is away; running jobs go on")
    assert world.told[1] == "the database is back, 301 seconds after it was missed"


def test_what_is_the_matter_is_noted_before_each_pause() -> None:
    """Before, it was noted once, and a driver that waited for long was taken for gone."""
    time, notes, tries = Time(), list[tuple[float, str]](), iter(range(20))

    def work() -> None:
        if next(tries) < 12:
            raise AWAY

    outage = Outage(
        lambda sentence: None,
        note=lambda sentence: notes.append((time.now, sentence)),
        waits_at_start=True,
        clock=time,
        sleep=time.sleep,
    )
    outage.run(work)
    assert [sentence for _, sentence in notes] == [str(AWAY)] * 12
    assert max(after - before for (before, _), (after, _) in pairwise(notes)) <= 30.0


def test_a_database_that_was_never_reached_is_not_waited_for() -> None:
    world = World(away=(0.0, 5.0))
    with pytest.raises(StorageUnavailableError):
        world.outage.run(world.work)
    assert (world.time.slept, world.told) == ([], [])


def test_a_driver_without_a_terminal_waits_without_end_for_one_that_was_never_reached() -> None:
    world = World(away=(0.0, 5 * 86_400.0), waits_at_start=True)
    assert world.outage.run(world.work) == "done"
    assert world.tried[:4] == [0.0, 1.0, 3.0, 7.0]


def test_a_scheduler_that_is_away_when_a_driver_begins() -> None:
    time, told = Time(), []
    outage = Outage(told.append, waits_at_start=True, clock=time, sleep=time.sleep)
    away = [SchedulerUnavailableError("SLURM does not answer here")] * 3

    def build() -> str:
        if away:
            raise away.pop()
        return "executor"

    assert outage.run(build) == "executor"
    assert time.now == 1.0 + 2.0 + 4.0
    assert told[0].startswith("SLURM does not answer here; ")


def test_patience_ends() -> None:
    world = World(away=(3.0, 1e9), patience=3600.0)
    with pytest.raises(StorageUnavailableError):
        world.outage.run(world.work)
    assert 3500 < world.time.now <= 3603


def test_each_outage_is_counted_anew() -> None:
    world = World(away=(3.0, 63.0), patience=100.0)
    world.outage.run(world.work)
    world.num_done, world.away = 0, (world.time.now + 3, world.time.now + 63)
    world.outage.run(world.work)
    assert len(world.told) == 4
    pauses = [later - before for before, later in pairwise(world.tried)]
    assert pauses.count(4.0) >= 2  # three rounds, and then the shortest pause again


@pytest.mark.parametrize("error", [StorageError("wrong"), ConflictError("held"), ValueError()])
def test_other_errors_end_the_work(error: Exception) -> None:
    outage = Outage(print, sleep=lambda _: pytest.fail("slept"))
    with pytest.raises(type(error)):
        outage.run(raising(outage, error))


def raising(outage: Outage, *errors: Exception) -> Callable[[], None]:
    """Return work that reaches the database at first, then raises one error after the other."""
    left = list(errors)
    outage.reached()

    def work() -> None:
        if left:
            raise left.pop(0)

    return work


def test_our_own_lease_that_was_not_given_back_is_waited_for() -> None:
    time = Time()
    outage = Outage(lambda _: None, clock=time, sleep=time.sleep)
    outage.run(raising(outage, AWAY, *[ConflictError("held by this process")] * 40))
    assert time.now == 41.0


def test_a_study_that_another_driver_took_meanwhile_is_left_to_it() -> None:
    time = Time()
    outage = Outage(lambda _: None, clock=time, sleep=time.sleep)
    with pytest.raises(ConflictError):
        outage.run(raising(outage, AWAY, *[ConflictError("held by another")] * 1000))
    assert time.now < LEASE_SECONDS + 5.0


def test_a_database_that_comes_and_goes_leaves_us_our_own_lease() -> None:
    """Held since the last time it went away, not the first."""
    time = Time()
    outage = Outage(lambda _: None, clock=time, sleep=time.sleep)
    ours = [ConflictError("held by this process")] * 200
    outage.run(raising(outage, AWAY, *ours, AWAY, *ours))
    assert time.now > LEASE_SECONDS


def test_a_signal_ends_the_waiting() -> None:
    time = Time()
    outage = Outage(
        lambda _: None, should_stop=lambda: time.now >= 40.0, clock=time, sleep=time.sleep
    )
    with pytest.raises(StorageUnavailableError):
        outage.run(raising(outage, *[AWAY] * 100))
    assert time.now == 40.0
