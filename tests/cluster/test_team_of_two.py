"""What two ranks tell each other after each change, as two threads that meet at a barrier."""

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import Queue
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from hpsearch.cluster.failures import CODE, DISK, LOST, RankLostError, StopFlag
from hpsearch.cluster.records import RankHeartbeat
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError
from hpsearch.trainers.ranks import BrokenOffError, Ranks

SECONDS = 10.0


@dataclass
class Table:
    """Where two ranks leave what they say, and read it."""

    said: dict[int, Any] = field(default_factory=dict)
    barrier: threading.Barrier = field(default_factory=lambda: threading.Barrier(2))

    def exchange(self, rank: int, data: Any) -> list[Any]:
        try:
            self.said[rank] = data
            self.barrier.wait(SECONDS)
            told = [self.said[0], self.said[1]]
            self.barrier.wait(SECONDS)
        except threading.BrokenBarrierError as error:
            raise BrokenOffError("the other one is gone") from error
        return told


class Near(Ranks):
    """A rank that meets the other one at a table."""

    def __init__(self, rank: int, table: Table) -> None:
        super().__init__(rank, 2)
        object.__setattr__(self, "table", table)

    def told_by_all(self, data: Any) -> list[Any]:
        return self.table.exchange(self.rank, data)

    def told_by_first(self, data: Any) -> Any:
        return self.table.exchange(self.rank, data)[0]


class Group:
    """What a team asks of its group, and in which order."""

    def __init__(self, ranks: Near) -> None:
        self.ranks, self.asked = ranks, list[str]()

    def leave(self) -> None:
        self.ranks.told_by_all(None)
        self.asked.append("leave")

    def tell_failure(self, error: Exception) -> None:
        self.asked.append(f"tell {type(error).__name__}")
        self.ranks.table.barrier.abort()

    def wait_for_loss(self) -> RankLostError:
        self.asked.append("wait")
        return RankLostError("lost", DISK)


@dataclass
class Pair:
    """The first rank, and the second one, which follows it in a thread."""

    first: Team
    second: Team
    thread: threading.Thread
    raised: "Queue[Exception]"

    def ended(self) -> Exception | None:
        self.thread.join(SECONDS)
        assert not self.thread.is_alive()
        return None if self.raised.empty() else self.raised.get()


@pytest.fixture
def pair() -> Pair:
    table, raised = Table(), Queue[Exception]()
    first, second = (Team(StopFlag(), Group(Near(rank, table))) for rank in (0, 1))

    def follow() -> None:
        try:
            second.follow()
        except Exception as error:
            raised.put(error)

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    return Pair(first, second, thread, raised)


def raising(rank: int, error: Exception) -> Callable[[Team], int]:
    """Return a change that one rank cannot make; the others return their number."""

    def change(team: Team) -> int:
        if team.ranks.rank == rank:
            raise error
        return team.ranks.rank

    return change


def setting(rank: int, name: str) -> Callable[[Team], None]:
    """Return a change in which one rank is asked for something."""

    def change(team: Team) -> None:
        if team.ranks.rank == rank:
            setattr(team._flag, name, True)

    return change


def test_both_make_a_change_and_leave_together(pair: Pair) -> None:
    done = list[int]()
    assert pair.first._all(lambda team: done.append(team.ranks.rank) or team.ranks.rank) == 0
    assert sorted(done) == [0, 1]
    pair.first.end()
    assert pair.ended() is None
    assert (pair.first.group.asked, pair.second.group.asked) == (["leave"], ["leave"])


@pytest.mark.parametrize("rank", [0, 1])
def test_a_request_to_stop_reaches_both(pair: Pair, rank: int) -> None:
    pair.first._all(lambda team: None)
    assert not pair.first._flag.is_set
    pair.first._all(setting(rank, "is_set"))
    assert pair.first._flag.is_set
    pair.first.end()
    assert pair.ended() is None
    assert pair.second._flag.is_set


@pytest.mark.parametrize("rank", [0, 1])
def test_a_request_to_save_is_the_first_ones_alone(pair: Pair, rank: int) -> None:
    pair.first._all(lambda team: None)
    assert not pair.first._flag.is_save_asked
    pair.first._all(setting(rank, "is_save_asked"))
    assert pair.first._flag.is_save_asked
    pair.first._all(lambda team: None)  # in which a request that is kept would come again
    assert not pair.second._flag.is_save_asked
    assert not pair.first._flag.is_set
    pair.first.end()
    assert pair.ended() is None


@pytest.mark.parametrize(
    ("error", "kind", "message"),
    [
        (OSError(28, "no space"), DISK, "rank 1: OSError: [Errno 28] no space"),
        (ConflictError("does not fit"), CODE, "rank 1: does not fit"),
    ],
)
def test_what_the_second_could_not_do_is_raised_by_the_first(
    pair: Pair, error: Exception, kind: str, message: str
) -> None:
    with pytest.raises(RankLostError) as caught:
        pair.first._all(raising(1, error))
    assert (str(caught.value), caught.value.kind) == (message, kind)
    assert pair.first._all(lambda team: "both go on") == "both go on"
    pair.first.end()
    assert pair.ended() is None
    assert pair.second.group.asked == ["leave"]


def test_what_the_first_could_not_do_it_raises_itself(pair: Pair) -> None:
    with pytest.raises(ConflictError, match=r"^does not fit$"):
        pair.first._all(raising(0, ConflictError("does not fit")))
    assert pair.first._all(lambda team: "both go on") == "both go on"
    pair.first.end()
    assert pair.ended() is None


def trainer_of(rank: int, error: Exception | None = None) -> SimpleNamespace:
    """Return a trainer with one member, of which nothing can be asked where there is an error."""

    def act(argument: object) -> SimpleNamespace:
        if error is not None:
            raise error
        return trainer_of(10 + rank)

    step = torch.tensor([5])
    return SimpleNamespace(rank=rank, step=step, train=act, select=act, actor_games=None)


CALLS: dict[str, tuple[Callable[[Team], object], bool]] = {
    "train": (lambda team: team.train(3), True),
    "together": (lambda team: team.together(lambda other: other.train(3)), True),
    "do_together": (lambda team: team.do_together(lambda trainer: trainer.train(3)), True),
    "do": (lambda team: team.do(lambda trainer: trainer.train(3)), False),
    "select": (lambda team: team.select([0]), False),
}


@pytest.mark.parametrize(("call", "is_shared"), CALLS.values(), ids=CALLS)
def test_an_error_ends_both_only_where_ranks_may_wait_for_each_other(
    pair: Pair, call: Callable[[Team], object], is_shared: bool
) -> None:
    pair.first.built = trainer_of(0)
    pair.second.built = trainer_of(1, ConflictError("does not fit"))
    with pytest.raises(RankLostError, match="lost" if is_shared else "rank 1: does not fit"):
        call(pair.first)
    if not is_shared:
        pair.first.end()
    assert isinstance(pair.ended(), ConflictError) is is_shared
    assert pair.first.group.asked == ["wait" if is_shared else "leave"]
    assert pair.second.group.asked == ["tell ConflictError" if is_shared else "leave"]


def test_both_go_on_with_some_of_the_members(pair: Pair) -> None:
    pair.first.built, pair.second.built = trainer_of(0), trainer_of(1)
    pair.first.select([0])
    assert (pair.first.trainer.rank, pair.second.trainer.rank) == (10, 11)
    pair.first.end()
    assert pair.ended() is None


def test_the_first_hears_what_the_second_is_asked_while_there_is_nothing_to_do(pair: Pair) -> None:
    pair.first.listen()
    assert not pair.first._flag.is_set
    pair.second._flag.is_set = True
    pair.first.listen()
    assert pair.first._flag.is_set
    pair.first.end()
    assert pair.ended() is None


def test_a_fault_of_the_code_ends_both(pair: Pair) -> None:
    with pytest.raises(RankLostError):
        pair.first._all(raising(1, ZeroDivisionError("division by zero")))
    assert isinstance(pair.ended(), ZeroDivisionError)
    assert pair.second.group.asked == ["tell ZeroDivisionError"]


def test_a_second_rank_that_is_left_alone_says_so_and_tells_no_failure(pair: Pair) -> None:
    pair.first.ranks.table.barrier.abort()
    error = pair.ended()
    assert isinstance(error, RankLostError)
    assert (error.kind or LOST) == LOST
    assert pair.second.group.asked == []
    pair.first.end()  # all is done and written: that the other one is gone is no error
    assert pair.first.group.asked == []


def test_the_heartbeats_of_both_are_known_to_the_first(pair: Pair) -> None:
    def beat(team: Team) -> None:
        team.own_heartbeat = RankHeartbeat("here", 10 + team.ranks.rank, 0.0)

    pair.first._all(lambda team: None)
    assert pair.first.heartbeats == []
    pair.first._all(beat)
    assert [heartbeat.step for heartbeat in pair.first.heartbeats] == [10, 11]
    pair.first.end()
    assert pair.ended() is None


@pytest.mark.parametrize("asked", [None, 0, 1])
def test_both_agree_on_whether_to_stop(pair: Pair, asked: int | None) -> None:
    answers = dict[int, bool]()

    def ask(team: Team) -> None:
        if team.ranks.rank == asked:
            team._flag.is_set = True
        answers[team.ranks.rank] = team.is_asked_to_stop()

    pair.first.together(ask)
    assert answers == dict.fromkeys((0, 1), asked is not None)
    assert pair.first._flag.is_set is (asked is not None)
    pair.first.end()
    assert pair.ended() is None


class Pool:
    """Actors that can be ended once."""

    def __init__(self) -> None:
        self.ends = 0

    def end(self) -> None:
        self.ends += 1


def test_actors_end_with_their_rank(pair: Pair) -> None:
    pools = Pool(), Pool()
    pair.first.actors, pair.second.actors = pools
    pair.first.end()
    assert pair.ended() is None
    assert [pool.ends for pool in pools] == [1, 1]
    pair.first.end_actors()
    assert pools[0].ends == 1
