"""A trial as its job sees it: when it obeys, what it says last, and when another one may begin."""

import json
from dataclasses import replace

import pytest

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import (
    EarlyEnd,
    Member,
    Slots,
    steps_until_next,
    steps_until_together,
)
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import AttemptResult, Control, Fresh, Lineage
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.team import Team
from hpsearch.errors import DiskError
from hpsearch.trainers.config import shape_key


@pytest.fixture
def job(tmp_path, new_job, plain_config) -> JobDir:
    """A job of three trials, the second of which is of another shape."""
    shapes = ({}, {"host.net_arch": [9]}, {"steps": 20})
    return new_job(tmp_path, [plain_config(changes) for changes in shapes])


@pytest.fixture
def members(job: JobDir) -> list[Member]:
    return [Member.open(job.study, given) for given in job.plan.required().assignments]


def test_a_plan_says_whether_a_trial_without_a_lineage_begins_anew(job: JobDir) -> None:
    plan = job.plan.required()
    for given in plan.assignments[:2]:
        job.study.trial(given.trial).lineage.path.unlink()
    anew = TrialQueue(job, replace(plan, descend=False), Member.open)
    seeds = {member.number: member.config.seed for member in anew.waiting}
    begun = {member.number: member.lineage for member in anew.waiting}
    assert begun == {n: Lineage(Fresh(), seeds[n] if n < 2 else 0) for n in range(3)}
    children = TrialQueue(job, replace(plan, descend=True), Member.open)
    assert [member.number for member in children.waiting] == [2]
    lost = job.study.trial(0).attempt(1).read_result()
    assert lost is not None
    assert "lineage.json is missing" in lost.message
    path = job.plan.path
    older = json.loads(path.read_text())
    del older["descend"]  # of a version that wrote each trial's
    path.write_text(json.dumps(older))
    assert job.plan.required().descend


@pytest.mark.parametrize(
    ("control", "ends", "status"),
    [
        (Control("token-0-1", None), False, None),
        (Control("token-0-1", "pruned"), True, "pruned"),
        (Control("of-another-attempt", None), True, None),
        (Control("of-another-attempt", "pruned"), True, None),
        (None, True, None),
        ("{", False, None),  # it may be readable a moment later
    ],
)
def test_a_member_obeys_the_driver_while_it_is_the_trial(members, control, ends, status) -> None:
    member = members[0]
    file = member.trial.control
    match control:
        case None:
            file.path.unlink()
        case str():
            file.path.write_text(control)
        case _:
            file.write(control)
    assert member.obey(7) is ends
    result = member.attempt.read_result()
    assert (result and (result.status, result.step)) == (status and (status, 7))


def test_a_control_that_cannot_be_read_now_ends_no_member(members, monkeypatch) -> None:
    def refuse(self: RecordFile) -> None:
        raise DiskError("stale file handle")

    monkeypatch.setattr(RecordFile, "read", refuse)
    assert not members[0].obey(7)


def test_what_a_member_said_last_stays_whatever_fails_after_it(members) -> None:
    first, second, _ = members
    first.end("finished", 12)
    for member in (first, second):
        member.fail(MemoryError("too much"), 15)
    results = [member.attempt.read_result() for member in (first, second)]
    assert results == [
        AttemptResult("token-0-1", "finished", 12, None, "", {}),
        AttemptResult("token-1-1", "failed", 15, "oom_host", "MemoryError: too much", {}),
    ]


def test_a_member_has_ended_with_its_last_step_or_before(members) -> None:
    slots = Slots(members, Team(StopFlag()))
    slots.steps = {0: 11, 1: 12, 2: 13}
    assert [slots.has_ended(row) for row in range(3)] == [False, True, False]
    slots.ended[2] = EarlyEnd("games", "ended")
    assert [slots.has_ended(row) for row in range(3)] == [False, True, True]


@pytest.mark.parametrize("interval", [1, 4])
def test_a_refilled_slot_begins_where_all_are_measured_together(interval: int) -> None:
    for step_now in range(9):
        for first in range(9):
            expected = next(
                ahead for ahead in range(interval) if (step_now + ahead - first) % interval == 0
            )
            assert steps_until_together(step_now, first, interval) == expected
            assert steps_until_next(step_now, [first], interval) == (expected or interval)
    assert steps_until_next(3, [], interval) is None
    assert steps_until_next(3, [0, 1, 2], 4) == 1


def test_trials_of_one_shape_are_taken_at_once_but_those_that_were_stopped(job: JobDir) -> None:
    queue = TrialQueue(job, job.plan.required(), Member.open)
    assert queue._is_closed  # it is no pilot
    assert not queue.is_over
    job.study.trial(0).control.write(Control("token-0-1", "pruned"))
    assert [[member.number for member in queue.take()] for _ in range(3)] == [[2], [1], []]
    assert queue.is_over
    result = job.study.trial(0).attempt(1).read_result()
    assert result is not None
    assert (result.status, result.step) == ("pruned", 0)


def test_the_first_trial_that_may_begin_is_taken_and_a_pilot_is_over_when_it_is_told(
    job: JobDir,
) -> None:
    plan = replace(job.plan.required(), pilot_seconds=1.0)
    queue = TrialQueue(job, plan, Member.open)
    shape = shape_key(queue.waiting[0].config)
    taken = queue.take_one(shape, lambda member: member.config.steps == 20)
    assert taken is not None
    assert taken.number == 2
    assert queue.take_one(shape, lambda member: False) is None
    assert [member.number for member in queue.waiting] == [0, 1]
    job.write_next(1, match=5)
    job.write_next(2, plan.assignments[2:])
    queue.look()
    assert ([member.number for member in queue.waiting], queue.matches) == ([0, 1, 2], [5])
    while queue.take():
        assert not queue.is_over
    assert not queue.is_over  # more may come
    job.write_next(3)
    job.write_next(4, plan.assignments[:1])  # which comes too late
    queue.look()
    assert (queue.is_over, queue.waiting) == (True, [])
    assert (queue.take_match(), queue.take_match()) == (5, None)
