"""Signs of life: how often a job gives them, and what that costs the file system."""

import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest
from working import work

from hpsearch.cluster.heartbeats import BRIEF_SECONDS, Heartbeats, seconds_between
from hpsearch.cluster.records import Heartbeat, JobHeartbeat, MemberHeartbeat, RankHeartbeat
from hpsearch.cluster.study_dir import JobDir, StudyDir

FIRST, SECOND = (MemberHeartbeat(3, 1, "a", 0, 0, 0), MemberHeartbeat(4, 2, "b", 0, 0, 0))
TRAIN = {3: 0}
BEAT = JobHeartbeat(12.5, "node", 42, False, 100.0, (MemberHeartbeat(3, 1, "a", 8, 4),))


@pytest.fixture
def file(tmp_path):
    return JobDir(tmp_path / "job").heartbeat


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes forward when told to."""
    now = [100.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


def test_a_sign_of_life_is_read_as_it_was_written(file):
    assert (file.try_read(), file.age(0.0)) == (None, None)
    file.replace(BEAT)
    assert file.try_read() == BEAT
    assert BEAT.of(3, 1).step == 8
    assert BEAT.of(3, 2) is None
    assert BEAT.of(4, 1) is None
    os.utime(file.path, (50.0, 50.0))
    assert (file.age(60.0), file.age(40.0)) == (10.0, 0.0)


def test_an_attempt_is_as_the_newest_job_says_that_has_it(tmp_path):
    study = StudyDir(tmp_path)
    own = Heartbeat(11.0, 1, 1, 1.0, "node", 42, False)
    assert study.heartbeat(3, 1) is None
    study.trial(3).attempt(1).heartbeat.write(own)  # of an older version
    assert study.heartbeat(3, 1) == own
    others = replace(BEAT, members=(SECOND,))
    beats = {"00001": replace(BEAT, at=13.0), "00002": BEAT, "00003": others}
    for name, beat in beats.items():
        study.job(name).heartbeat.replace(beat)
    assert study.heartbeat(3, 1) == Heartbeat(12.5, 8, 4, 100.0, "node", 42, False)


def test_the_members_of_a_sign_of_life_are_gone_through_once():
    looks = []

    class Members(tuple):
        def __iter__(self):
            looks.append(1)
            return super().__iter__()

    beat = replace(BEAT, members=Members((FIRST, SECOND)))
    assert (beat.of(3, 1).step, beat.of(4, 2).step, beat.of(4, 1)) == (0, 0, None)
    assert len(looks) == 1


@pytest.mark.parametrize("text", ["", "{", "[]", '{"at": 1}', "\x00\x00"])
def test_a_damaged_one_is_none(file, text):
    file.replace(BEAT)
    file.path.write_text(text)
    assert file.try_read() is None


def test_all_jobs_together_write_fifty_files_a_second_up_to_a_minute_between_two():
    assert [seconds_between(n) for n in (1, 100, 1000, 3000, 8000)] == [2, 2, 20, 60, 60]


@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_a_job_says_that_it_is_over(file, error):
    """Also after an error, but not where it is killed."""
    beats = Heartbeats(file, 20.0)
    beats.give([FIRST], (), 1.0, is_busy=False)
    with suppress(ValueError, KeyboardInterrupt), beats.until_left():
        assert not file.required().has_left
        if error is not None:
            raise error
    assert file.required().has_left == (error is not KeyboardInterrupt)


def test_one_is_due_every_so_many_seconds(file, clock):
    beats = Heartbeats(file, 20.0)
    assert beats.is_due(TRAIN, is_busy=False)
    beats.give([FIRST], (), 1.0, is_busy=False)
    clock[0] += 19.9
    assert not beats.is_due(TRAIN, is_busy=False)
    clock[0] += 0.1
    assert beats.is_due(TRAIN, is_busy=False)


def test_news_is_told_at_once(file, clock):
    """The driver looks at the files of those alone of which a heartbeat has news."""
    beats = Heartbeats(file, 20.0)
    beats.give([FIRST, SECOND], (), 1.0, is_busy=False)
    assert not beats.is_due({3: 0, 4: 0}, is_busy=False)
    assert beats.is_due({3: 8, 4: 0}, is_busy=False)  # one was measured
    beats.give([replace(FIRST, measured=8), SECOND], (), 1.0, is_busy=False)
    assert not beats.is_due({3: 8, 4: 0}, is_busy=False)
    assert beats.is_due({4: 0}, is_busy=False)  # one has ended
    beats.give([SECOND], (), 1.0, is_busy=False)
    assert beats.is_due({}, is_busy=False)
    beats.give([], (), 1.0, is_busy=False)
    clock[0] += 60.0
    assert not beats.is_due({}, is_busy=False)  # what has nothing to train needs no more


def test_long_work_is_announced_and_brief_work_is_not_for_long(file, clock):
    beats = Heartbeats(file, 20.0)

    def after_work(seconds: float) -> tuple[bool, bool]:
        """Return whether heartbeats were due before and after work of so many seconds."""
        due = []
        for is_busy in (True, False):
            due.append(beats.is_due(TRAIN, is_busy=is_busy))
            if due[-1]:
                beats.give([FIRST], (), 1.0, is_busy=is_busy)
            clock[0] += seconds if is_busy else 0.0
        return due[0], due[1]

    beats.give([FIRST], (), 1.0, is_busy=False)
    assert after_work(1.0) == (True, True)  # how long it takes is not known before
    assert not file.try_read().is_busy
    assert after_work(1.0) == (False, False)
    assert after_work(BRIEF_SECONDS + 1) == (False, True)
    assert after_work(1.0) == (True, True)


def test_one_more_is_announced_beside_the_others(file):
    beats = Heartbeats(file, 2.0)
    beats.give([replace(FIRST, step=8, saved=4)], (), 5.0, is_busy=False)
    beats.announce([SECOND])
    said = file.try_read()
    assert (said.is_busy, said.of(3, 1).saved, said.of(4, 2).step) == (True, 4, 0)
    assert said.steps_per_second == 5.0
    assert beats.is_due({3: 0, 4: 0}, is_busy=False)
    beats.give([replace(SECOND, step=1)], (), 5.0, is_busy=False)
    assert file.try_read().of(3, 1) is None


def test_eight_members_cost_a_write_an_interval_and_no_flush(
    tmp_path, new_job, plain_config, monkeypatch
):
    """Before, every member had a file of its own, with two flushes, at every evaluation too."""
    rules = {"steps": 40, "evaluation.interval": 4, "checkpoint.interval": 20}
    job = new_job(tmp_path, [plain_config({**rules, "seed": seed}) for seed in range(8)])
    job.plan.write(replace(job.plan.required(), heartbeat_seconds=60.0))
    counts: Counter[str] = Counter()
    fsync, rename = os.fsync, os.replace

    def flushed(descriptor):
        path = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        counts["flushes"] += path.is_relative_to(job.root) or "heartbeat" in path.name
        fsync(descriptor)

    def replaced(path, target):
        counts["writes"] += Path(target).name == "heartbeat.json"
        rename(path, target)

    monkeypatch.setattr(os, "fsync", flushed)
    monkeypatch.setattr(os, "replace", replaced)
    work(str(job.root))
    # At the beginning, before the first of ten evaluations and before the final one, after each of
    # the ten, where there is news, and at the end.
    assert (counts["flushes"], counts["writes"]) == (0, 14)
    assert job.heartbeat.try_read().members == ()


@pytest.mark.parametrize(
    ("shares", "straggler"),
    [
        ((), None),
        ((0.9,), None),
        ((0.1, 0.1), None),
        ((0.5, 0.1), 1),
        ((0.0, 0.4, 0.5), 0),
        ((0.3, 0.15), None),
        ((0.0, 0.2), None),  # the limit itself
        ((0.45, 0.3, 0.2), None),  # the others wait for 0.375 on average
        ((0.5, 0.5, 0.5, 0.25), 3),
    ],
)
def test_the_others_wait_for_a_straggler(shares, straggler):
    ranks = tuple(RankHeartbeat("node", 8, share) for share in shares)
    assert replace(BEAT, ranks=ranks).straggler == straggler
