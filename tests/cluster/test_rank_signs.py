"""What the first rank makes of the heartbeats that the others leave in the store.

The group meets alone; then it is told that it has others, which are what the test writes.
"""

import json
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import SimpleNamespace

import pytest
from torch.distributed import HashStore

from hpsearch.cluster import rank_group
from hpsearch.cluster.failures import DISK, LOST, OOM_HOST, RankLostError, kind_of
from hpsearch.cluster.rank_group import RankGroup, UnknownProcesses
from hpsearch.trainers.ranks import Ranks

LOST_SECONDS = 0.125  # so that a quarter of it is exact


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


def rest(group: RankGroup, ranks: Ranks) -> None:
    """Let its threads end, so that it only answers what it is asked, as one of these ranks."""
    group._has_left.set()
    for thread in group._threads:
        thread.join()
    group.ranks = ranks


def test_each_sign_is_another_one(group: RankGroup, store: HashStore) -> None:
    rest(group, Ranks(1, 2))
    signs = set[bytes]()
    for _ in range(5):
        group._give_sign()
        signs.add(store.get("sign 1"))
    assert len(signs) == 5


def test_one_that_watches_gives_signs(group: RankGroup, store: HashStore) -> None:
    before, deadline = store.get("sign 0"), time.monotonic() + 5.0
    while store.get("sign 0") == before:
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("is_gone", [False, True])
def test_another_rank_exchanges_signs_with_the_first_one(
    group: RankGroup, store: HashStore, monkeypatch: pytest.MonkeyPatch, is_gone: bool
) -> None:
    rest(group, Ranks(1, 2))
    group._has_left.clear()
    signs = list[bytes]()

    def get(name: str) -> bytes:
        assert name == "sign 0"
        signs.append(store.get("sign 1"))
        if len(signs) == 3 and not is_gone:
            group._has_left.set()
        if len(signs) == 3 and is_gone:
            raise RuntimeError("Connection reset by peer")
        return store.get(name)

    monkeypatch.setattr(group, "_store", SimpleNamespace(get=get, set=store.set))
    began = time.monotonic()
    group._ask_first()
    assert len(set(signs)) == len(signs) == 3
    assert (group._answered_at is None) is is_gone
    assert is_gone or group._answered_at >= began


@pytest.mark.parametrize("silent", [1, 2])
def test_the_rank_without_a_new_sign_is_lost(
    group: RankGroup, store: HashStore, silent: int
) -> None:
    rest(group, Ranks(0, 3))
    signs, heard = dict[int, tuple[bytes, float]](), list[str | None]()
    for look in range(7):
        for rank in (1, 2):
            store.set(f"sign {rank}", str(0 if rank == silent else look))
        loss = group._silence(1000.0 + look * LOST_SECONDS / 4, signs)
        heard.append(None if loss is None else str(loss))
    assert heard[:5] == [None] * 5  # the limit itself is not beyond it
    assert all(said is not None and said.startswith(f"rank {silent} has") for said in heard[5:])


def test_silence_ends_the_waiting(group: RankGroup, store: HashStore) -> None:
    store.set("sign 1", "7")
    began = time.monotonic()
    group.ranks = Ranks(0, 2)
    assert str(lost(group)).startswith("rank 1 has given no heartbeat")
    assert time.monotonic() - began >= LOST_SECONDS


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
    rest(group, Ranks(1, 2))
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
    rest(group, Ranks(1, 2))
    now = 1000.0
    group._answered_at = None if answered is None else now - answered * LOST_SECONDS
    assert (group._lost_first(now) is not None) is is_lost


def test_those_that_did_not_come_are_named(group: RankGroup, store: HashStore) -> None:
    rest(group, Ranks(0, 4))
    store.set("sign 2", "1")
    assert str(group._absence()).startswith("rank 1, 3 did not come within 120 s")
    for rank in (1, 3):
        store.set(f"sign {rank}", "1")
    assert "found the first one, but not each other" in str(group._absence())


def watched(
    group: RankGroup, monkeypatch: pytest.MonkeyPatch, moments: Sequence[float]
) -> float | None:
    """Let a rank look at these moments, of which the first is its beginning; return the last."""
    moment, has_left, waits = 0, group._has_left, len(moments) - 1

    def wait(seconds: float) -> bool:
        """Let the next moment come, or leave after the last one."""
        nonlocal moment
        is_over = moment == waits
        moment += not is_over
        return is_over

    group._is_raising.set()
    group._knows_loss.clear()
    clock = SimpleNamespace(monotonic=lambda: moments[moment])
    with monkeypatch.context() as patch:
        patch.setattr(rank_group, "time", clock)
        patch.setattr(rank_group, "LOST_SECONDS", 12.0)
        group._has_left = SimpleNamespace(wait=wait, is_set=lambda: False)
        group._watch()
    group._has_left = has_left
    assert group._knows_loss.is_set() is (group.loss is not None)
    return moments[moment] if group.loss is not None else None


@pytest.mark.parametrize(
    ("moments", "lost_at"),
    [
        ((0.0, 4.0, 8.0, 12.0, 16.0, 20.0), 16.0),
        ((0.0, 4.0, 8.0, 30.0, 34.0), None),  # this process was stopped, and perhaps the other too
        ((0.0, 4.0, 8.0, 30.0, 34.0, 38.0, 42.0, 46.0), 46.0),
        ((0.0, 5.0, 10.0, 15.0), 15.0),  # looks that come late are no stop
    ],
)
@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_was_stopped_itself_gives_the_others_time(
    group: RankGroup,
    store: HashStore,
    monkeypatch: pytest.MonkeyPatch,
    rank: int,
    moments: tuple[float, ...],
    lost_at: float | None,
) -> None:
    rest(group, Ranks(rank, 2))
    store.set("sign 1", "7")
    group._answered_at = 0.0
    if rank == 0:  # which hears of the other one with its first look
        moments = tuple(moment + 1.0 for moment in moments)
        lost_at = None if lost_at is None else lost_at + 1.0
        moments = (0.5, *moments)
    assert watched(group, monkeypatch, moments) == lost_at


def test_ranks_have_two_minutes_to_meet(group: RankGroup, monkeypatch: pytest.MonkeyPatch) -> None:
    rest(group, Ranks(0, 2))
    group._has_met.clear()
    assert watched(group, monkeypatch, (7.0, 100.0, 127.0)) is None
    assert watched(group, monkeypatch, (7.0, 100.0, 127.0, 127.5)) == 127.5
    assert str(group.loss).startswith("rank 1 did not come within 120 s")


@pytest.mark.parametrize("error", [None, OSError("no space")])
def test_a_process_that_is_stuck_tells_the_loss_and_ends_the_others_and_itself(
    group: RankGroup, others: Ended, monkeypatch: pytest.MonkeyPatch, capsys, error
) -> None:
    done = list[object]()

    def tell(loss: RankLostError) -> None:
        done.append(str(loss))
        if error is not None:
            raise error

    group.on_stuck = tell
    monkeypatch.setattr(others, "kill", lambda: done.append("kill"))
    monkeypatch.setattr(os, "_exit", done.append)
    with suppress(OSError):
        group._end_stuck(RankLostError("rank 1 is gone"))
    assert done == ["rank 1 is gone", *(["kill"] if error is None else []), 8]
    assert capsys.readouterr().err == "hpsearch: rank 1 is gone\n"


def test_without_a_word_another_rank_is_gone(
    group: RankGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_group, "LOST_SECONDS", 0.01)
    monkeypatch.setattr(rank_group, "RAISING_SECONDS", 0.01)
    assert str(group.wait_for_loss()) == "another rank is gone"


@pytest.mark.parametrize(("num_calls", "is_alike"), [(3, True), (4, False), (None, False)])
def test_ranks_fail_alike_after_equally_many_calls(
    group: RankGroup,
    store: HashStore,
    monkeypatch: pytest.MonkeyPatch,
    num_calls: int | None,
    is_alike: bool,
) -> None:
    """This one after three; another rank that has not failed may wait for it."""
    monkeypatch.setattr(rank_group, "FAILING_SECONDS", 0.2)
    rest(group, Ranks(0, 2))
    other = RankGroup.__new__(RankGroup)
    other.ranks, other._store = Ranks(1, 2), store
    group.ranks.calls.num, other.ranks.calls.num = 3, num_calls or 0
    with ThreadPoolExecutor() as pool:
        answers = [pool.submit(group.have_all_failed)]
        if num_calls is not None:
            answers.append(pool.submit(other.have_all_failed))
    assert {answer.result() for answer in answers} == {is_alike}
