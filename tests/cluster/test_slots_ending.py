"""Members that end while others train, in refilled slots or not: they leave the others alone.

The driver's part is played as in test_slots_coming.py.
"""

import time
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from slot_stories import LONG, NEW, SHORT, assert_same_training, at_step, curve, ended, terminate
from working import work

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import Slots
from hpsearch.cluster.records import Control
from hpsearch.cluster.team import Team
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.checkpoint_name import name_of


def test_one_that_waits_when_the_job_is_stopped_has_not_begun(pilot, monkeypatch) -> None:
    """The driver takes one without a heartbeat for one that still waits."""
    job, (new,) = pilot([LONG, {**LONG, "seed": 5}], [NEW])
    job.write_next(1, [new])
    at_step(monkeypatch, 6, terminate)
    work(str(job.root))
    assert [ended(job, number) for number in (0, 1)] == [("interrupted", 8)] * 2
    assert not job.study.trial(2).attempt(1).root.exists()


def test_a_refilled_slot_is_saved_when_the_job_is_stopped(pilot, alone, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    at_step(monkeypatch, 6, terminate)
    work(str(job.root))
    monkeypatch.undo()
    assert [ended(job, number) for number in (1, 2)] == [("interrupted", 8), ("interrupted", 4)]
    again, _ = pilot([SHORT, LONG, NEW], attempt=2, pilot_seconds=0.0)
    plan = again.plan.required()
    again.plan.write(replace(plan, assignments=plan.assignments[1:]))
    work(str(again.root))
    assert_same_training(again.study.trial(2), alone(NEW), 12)
    assert_same_training(again.study.trial(1), alone(LONG), 16)


def test_a_fenced_trial_in_a_refilled_slot_writes_nothing_more(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    before = {}

    def fence() -> None:
        trial = job.study.trial(2)
        # What is being written beside training may still be finished.
        while [path.name for path in trial.checkpoints.glob("*")] != [name_of(4)]:
            time.sleep(0.01)
        trial.control.write(Control("of-another-attempt", None))
        before.update({p: p.read_bytes() for p in trial.root.rglob("*") if p.is_file()})

    at_step(monkeypatch, 8, fence)
    work(str(job.root))
    files = {p: p.read_bytes() for p in job.study.trial(2).root.rglob("*") if p.is_file()}
    assert curve(job.study.trial(2)).keys() == {4}
    assert files == before
    assert ended(job, 1) == ("finished", 16)


def test_a_cancelled_trial_in_a_refilled_slot_says_so(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    failed = Control(new.token, "failed")
    at_step(monkeypatch, 8, lambda: job.study.trial(2).control.write(failed))
    work(str(job.root))
    assert ended(job, 2) == ("failed", 6)
    assert ended(job, 1) == ("finished", 16)


def test_one_that_is_told_to_end_while_it_waits_says_so_and_leaves_its_place(pilot) -> None:
    """Before, it said nothing: the driver waited for it as long as the job lived."""
    job, given = pilot([SHORT, LONG], [NEW, {**NEW, "seed": 4}])
    job.study.trial(2).control.write(Control("token-2-1", "pruned"))
    job.write_next(1, given)
    work(str(job.root))
    assert ended(job, 2) == ("pruned", 0)
    assert ended(job, 3) == ("finished", 12)
    assert not job.study.trial(2).metrics.exists()


def test_a_trial_that_cannot_refill_a_slot_ends_alone(pilot, monkeypatch) -> None:
    rules = {"checkpoint.resume": "must"}
    job, _ = pilot([SHORT, LONG], pilot_seconds=0.0)
    work(str(job.root))
    firsts = [{**SHORT, "steps": 8, **rules}, {**LONG, "steps": 32, **rules}]
    job, given = pilot(firsts, [{**NEW, **rules}], attempt=2)
    job.write_next(1, given)
    work(str(job.root))
    ending = job.study.trial(2).attempt(2).read_result()
    assert (ending.status, ending.step) == ("failed", 0)
    assert "checkpoint.resume is must" in ending.message
    assert [ended(job, number, 2) for number in (0, 1)] == [("finished", 8), ("finished", 32)]


def test_an_error_of_the_job_is_told_of_refilled_slots_too(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])

    def broken() -> None:
        raise RuntimeError("no such thing")

    at_step(monkeypatch, 8, broken)
    with pytest.raises(RuntimeError):
        work(str(job.root))
    assert [ended(job, number) for number in (1, 2)] == [("failed", 8), ("failed", 4)]


def test_what_is_observed_is_of_members_alone_in_the_order_of_their_coming(tiny_config) -> None:
    configs = [tiny_config({"seed": seed}) for seed in (1, 2, 3)]
    team = Team(StopFlag())
    team.built = build_trainer(configs)
    team.built.train(3)
    statistics, weights = team.built.statistics(), team.built.layers().weights
    slots = Slots([], team)
    for rows in ([0, 1, 2], [0, 2], [2, 0, 1], [1]):
        slots.members = dict.fromkeys(rows)
        for seen, all_rows in ((slots.statistics(), statistics), (slots.layers().weights, weights)):
            assert seen.keys() == all_rows.keys()
            for name, of_members in seen.items():
                expected = torch.stack([all_rows[name][row] for row in rows])
                assert torch.equal(of_members.nan_to_num(), expected.nan_to_num()), name


def test_rows_that_are_given_up_leave_the_others_with_their_members(tiny_config) -> None:
    team = Team(StopFlag())
    team.build([tiny_config({"seed": seed}) for seed in range(4)])
    slots = Slots([], team)
    slots.members, slots.steps = {2: "first", 0: "second"}, {2: 7, 0: 9}  # in order of coming
    assert (slots.free, slots.oldest_step) == ([1, 3], 7)
    for _ in range(2):  # then there is nothing to give up
        slots.shrink()
        assert [config.seed for config in slots.trainer.configs] == [0, 2]
        assert list(slots.members.items()) == [(1, "first"), (0, "second")]
        assert list(slots.steps.items()) == [(1, 7), (0, 9)]
    slots.leave([0, 1])
    slots.shrink()  # an empty trainer stays for others
    assert (slots.trainer.num_members, slots.oldest_step) == (2, None)


@pytest.mark.parametrize(
    ("count", "changes", "may_stay_empty", "is_kept"),
    [
        (3, {}, False, True),
        (2, {}, False, False),
        (2, {}, True, True),
        (4, {}, True, False),
        (3, {"host.net_arch": [9]}, True, False),
    ],
)
def test_a_trainer_is_taken_over_where_it_fits(
    tiny_config, count: int, changes: dict, may_stay_empty: bool, is_kept: bool
) -> None:
    team = Team(StopFlag())
    team.build([tiny_config()] * 3)
    before = team.trainer
    configs = [tiny_config({"seed": 10 + n, **changes}) for n in range(count)]
    slots = Slots([SimpleNamespace(config=config) for config in configs], team)
    slots.build(may_stay_empty=may_stay_empty)
    assert (team.trainer is before) is is_kept
    assert [config.seed for config in team.trainer.configs][:count] == [10, 11, 12, 13][:count]


def test_empty_rows_disturb_no_member(pilot, alone, monkeypatch) -> None:
    """Not even one whose numbers are none any more."""
    wild = {
        "host.optim.args.lr": 3e38,
        "host.optim.args.eps": 1e-30,
        "host.optim.lr_schedule.initial": 3e38,
    }
    job, (new,) = pilot([{**SHORT, **wild, "steps": 8}, LONG], [{**NEW, "steps": 4}])
    at_step(monkeypatch, 6, lambda: job.write_next(1, [new]))
    work(str(job.root))
    assert ended(job, 0) == ("failed", 4)
    assert ended(job, 2) == ("finished", 4)
    assert_same_training(job.study.trial(1), alone(LONG), 16)
    assert_same_training(job.study.trial(2), alone({**NEW, "steps": 4}), 4)
