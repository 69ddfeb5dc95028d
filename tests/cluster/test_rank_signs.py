"""What the first rank makes of the signs of life that the others leave in the store.

The group meets alone; then it is told that it has others, which are what the test writes.
"""

import json
import time
from collections.abc import Iterator

import pytest
from torch.distributed import HashStore

from hpsearch.cluster import rank_group
from hpsearch.cluster.failures import DISK, LOST, OOM_HOST, RankLostError, kind_of
from hpsearch.cluster.rank_group import RankGroup, UnknownProcesses
from hpsearch.trainers.ranks import Ranks

LOST_SECONDS = 0.15


class Ended(UnknownProcesses):
    """Processes of which one has ended, once that is said."""

    rank: int | None = None

    def find_ended(self) -> int | None:
        return self.rank


@pytest.fixture
def store() -> HashStore:
    return HashStore()


@pytest.fixture
def others() -> Ended:
    return Ended()


@pytest.fixture
def group(store: HashStore, others: Ended, monkeypatch: pytest.MonkeyPatch) -> Iterator[RankGroup]:
    monkeypatch.setattr(rank_group, "SIGN_SECONDS", 0.01)
    monkeypatch.setattr(rank_group, "LOST_SECONDS", LOST_SECONDS)
    group = RankGroup(store, 0, 1, others)
    yield group
    group._is_raising.set()  # where a test has not: this process is not to be ended
    group.ranks = Ranks(0, 1)
    group.leave()
    assert not any(thread.is_alive() for thread in group._threads)


def lost(group: RankGroup) -> RankLostError:
    """Return what the watching thread finds, as a call of all that was broken off asks for it."""
    group._is_raising.set()
    assert group._knows_loss.wait(5.0)
    return group.wait_for_loss()


def test_signs_are_counted_and_a_group_that_is_whole_loses_none(
    group: RankGroup, store: HashStore
) -> None:
    group._is_raising.set()
    group.ranks = Ranks(0, 2)
    deadline, count = time.monotonic() + 2 * LOST_SECONDS, 0
    while time.monotonic() < deadline:
        count += 1
        store.set("sign 1", str(count))
        time.sleep(0.01)
    assert group.loss is None
    assert int(store.get("sign 0")) > 5
    numbers = [int(store.get("sign 0"))]
    while len(numbers) < 4:
        if (sign := int(store.get("sign 0"))) != numbers[-1]:
            numbers.append(sign)
    assert numbers == list(range(numbers[0], numbers[0] + 4))


@pytest.mark.parametrize("silent", [1, 2])
def test_the_rank_without_a_new_sign_is_lost(
    group: RankGroup, store: HashStore, silent: int
) -> None:
    for rank in (1, 2):
        store.set(f"sign {rank}", "7")
    began, count = time.monotonic(), 7
    group._is_raising.set()
    group.ranks = Ranks(0, 3)
    while not group._knows_loss.is_set():
        count += 1
        store.set(f"sign {3 - silent}", str(count))
        assert time.monotonic() < began + 5.0
        time.sleep(0.01)
    assert time.monotonic() - began >= LOST_SECONDS
    assert str(group.wait_for_loss()).startswith(f"rank {silent} has given no sign of life")


def test_a_rank_whose_process_has_ended_is_lost_at_once(group: RankGroup, others: Ended) -> None:
    others.rank = 3
    error = lost(group)
    assert (str(error), kind_of(error)) == ("the process of rank 3 ended", LOST)


def test_what_another_rank_told_of_its_failure_is_the_loss(
    group: RankGroup, store: HashStore, others: Ended
) -> None:
    """Also where its process has ended meanwhile, which says less."""
    others_said = (2, OOM_HOST, "MemoryError: too much", "Traceback")
    store.set("failure", json.dumps(others_said))
    others.rank = 2
    error = lost(group)
    assert (str(error), error.kind) == ("rank 2: MemoryError: too much", OOM_HOST)
    assert error.__notes__ == ["Traceback"]


def test_a_failure_is_told_by_its_rank_with_kind_and_report(
    store: HashStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_group, "SIGN_SECONDS", 0.01)
    monkeypatch.setattr(rank_group, "LOST_SECONDS", LOST_SECONDS)
    group = RankGroup(store, 0, 1, UnknownProcesses())
    group._has_left.set()  # it watches no more, as another rank does not watch for failures
    for thread in group._threads:
        thread.join()
    group.ranks = Ranks(1, 2)
    try:
        raise OSError(28, "No space left on device")
    except OSError as error:
        began = time.monotonic()
        group.tell_failure(error)
        waited = time.monotonic() - began
    assert waited >= LOST_SECONDS  # for the first rank, which is to write it down
    rank, kind, message, report = json.loads(store.get("failure"))
    assert (rank, kind) == (1, DISK)
    assert message == "OSError: [Errno 28] No space left on device"
    assert "test_a_failure_is_told" in report


@pytest.mark.parametrize(("answered", "is_lost"), [(0.5, False), (1.5, True), (None, True)])
def test_the_first_rank_is_lost_once_it_has_not_answered_for_long(
    group: RankGroup, answered: float | None, is_lost: bool
) -> None:
    now = 1000.0
    group._answered_at = None if answered is None else now - answered * LOST_SECONDS
    assert (group._lost_first(now) is not None) is is_lost


def test_those_that_did_not_come_are_named(group: RankGroup, store: HashStore) -> None:
    group._is_raising.set()
    group._has_met.clear()
    group.ranks = Ranks(0, 4)
    store.set("sign 2", "1")
    assert str(group._absence()).startswith("rank 1, 3 did not come within 120 s")
    for rank in (1, 3):
        store.set(f"sign {rank}", "1")
    assert "found the first one, but not each other" in str(group._absence())


def test_without_a_word_another_rank_is_gone(
    group: RankGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_group, "LOST_SECONDS", 0.01)
    monkeypatch.setattr(rank_group, "RAISING_SECONDS", 0.01)
    assert str(group.wait_for_loss()) == "another rank is gone"
