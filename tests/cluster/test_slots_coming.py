"""Members that come while others train: nothing is rebuilt, and the others do not notice.

The driver's part is played by files that lie there from the beginning, or that are written when
the trainer is called. Every other test of a worker's life stands in test_worker.py.
"""

import gc
import json
import weakref
from dataclasses import replace

import pytest
from slot_stories import (
    LONG,
    NEW,
    SHORT,
    assert_same_training,
    at_step,
    counted,
    curve,
    ended,
    terminate,
)
from working import work

from hpsearch.cluster import team
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.heartbeats import Heartbeats
from hpsearch.cluster.job_training import JobTraining
from hpsearch.cluster.job_trials import TrialQueue
from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Control
from hpsearch.cluster.study_dir import JobDir
from hpsearch.cluster.team import Team
from hpsearch.errors import CorruptError, DiskError
from hpsearch.monitor.snapshot import JobPlace
from hpsearch.trainers.trainer import Trainer

# Coming.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_trial_refills_the_slot_of_one_that_has_finished(
    pilot, alone, monkeypatch, algorithm
) -> None:
    """The same trainer goes on; all are measured together; it learns what it would alone."""
    job, (new,) = pilot([SHORT, LONG], [NEW], algorithm=algorithm)
    job.write_next(1, [new])
    with monkeypatch.context() as patch:
        built, selected = counted(patch, team, "build_trainer"), counted(patch, Trainer, "select")
        measured = counted(patch, Trainer, "evaluate")
        work(str(job.root))
    assert (len(built), len(selected)) == (1, 0)
    assert [ended(job, number) for number in range(3)] == [
        ("finished", 4),
        ("finished", 16),
        ("finished", 12),
    ]
    # At 4, 8, 12 and 16 of the long one; and the ends, of which two come together.
    assert len(measured) == 4 + 2
    assert list(curve(job.study.trial(2))) == [4, 8, 12]
    assert_same_training(job.study.trial(2), alone(NEW, algorithm), 12)
    assert_same_training(job.study.trial(1), alone(LONG, algorithm), 16)


def test_a_trial_refills_the_slot_of_one_that_was_pruned(pilot, alone, monkeypatch) -> None:
    job, (new,) = pilot([LONG, {**LONG, "seed": 5}], [NEW])

    def prune() -> None:
        job.study.trial(1).control.write(Control("token-1-1", "pruned"))
        job.write_next(1, [new])

    at_step(monkeypatch, 4, prune)
    built = counted(monkeypatch, team, "build_trainer")
    work(str(job.root))
    assert len(built) == 1
    assert ended(job, 1) == ("pruned", 6)
    assert [ended(job, number) for number in (0, 2)] == [("finished", 16), ("finished", 12)]
    monkeypatch.undo()
    assert_same_training(job.study.trial(2), alone(NEW), 12)


def test_a_slot_is_refilled_where_the_others_are_measured(pilot, monkeypatch) -> None:
    """Not where it is found, though a row is free."""
    job, (new,) = pilot([{**SHORT, "steps": 2}, LONG], [NEW])
    job.write_next(1, [new])
    begun = []
    begin = Trainer.begin
    monkeypatch.setattr(
        Trainer,
        "begin",
        lambda self, row, config: (begun.append(self.step.tolist()), begin(self, row, config)),
    )
    work(str(job.root))
    assert begun == [[4, 4]]


def test_one_that_goes_on_is_measured_with_the_others_too(pilot, alone, monkeypatch) -> None:
    """It was interrupted between two evaluations, and begins where the others are as far."""
    rules = {"checkpoint.interval": 3, "checkpoint.keep_last": 9}
    firsts = [{**changes, **rules} for changes in (SHORT, LONG)]
    new = {**NEW, **rules}
    job, _ = pilot([new], pilot_seconds=0.0)
    with monkeypatch.context() as patch:
        at_step(patch, 2, terminate)
        work(str(job.root))
    assert ended(job, 0) == ("interrupted", 3)
    (job.study.trial(0).root).rename(job.study.trials / "2")
    job, (given,) = pilot(firsts, [new], attempt=2)
    job.write_next(1, [given])
    measured = counted(monkeypatch, Trainer, "evaluate")
    work(str(job.root))
    # At 4, 8, 12 and 16 of the long one; it begins at 7 of that one, so both end together.
    assert len(measured) == 4 + 2
    assert ended(job, 2, 2) == ("finished", 12)
    assert_same_training(job.study.trial(2), alone(new), 12)


def test_members_come_and_go_through_a_long_life(pilot, alone, monkeypatch) -> None:
    many = [{"seed": seed, "steps": 4 * (1 + seed % 3)} for seed in range(10, 16)]
    job, given = pilot([SHORT, LONG], many)
    job.write_next(1, given[:2])
    job.write_next(2, given[2:3])
    job.write_next(3, given[3:])
    job.write_next(4, [])
    built = counted(monkeypatch, team, "build_trainer")
    work(str(job.root))
    assert len(built) == 1
    for assignment, changes in zip(given, many, strict=True):
        assert ended(job, assignment.trial) == ("finished", changes["steps"])
        assert_same_training(job.study.trial(assignment.trial), alone(changes), changes["steps"])
        assert job.study.trial(assignment.trial).attempt(1).start.read().step == 0


def test_refilled_slots_are_observed(pilot) -> None:
    rules = {"monitor.training_log": True, "monitor.interval": 2, "monitor.layer_statistics": True}
    job, (new,) = pilot([{**SHORT, **rules}, {**LONG, **rules}], [{**NEW, **rules}])
    job.write_next(1, [new])
    work(str(job.root))
    for number, last in enumerate((4, 16, 12)):
        lines = job.study.trial(number).training_log.read_text().splitlines()
        rows = [json.loads(line) for line in lines]
        assert [row["step"] for row in rows] == list(range(2, last + 1, 2))
        assert all(row["job"]["steps_per_second"] > 0 for row in rows)
        assert all(row["layers"] for row in rows)


def test_training_stops_for_no_refill_without_a_free_row_and_a_waiting_trial(pilot) -> None:
    job, _ = pilot([LONG, NEW])
    plan, flag = job.plan.required(), StopFlag()
    member = Member.open(job.study, plan.assignments[0])
    place = JobPlace("study", job.name, job.textfile, job.traces)
    queue = TrialQueue(job, replace(plan, assignments=plan.assignments[1:]), Member.open)
    alone, beats = Team(flag), Heartbeats(job.heartbeat, 2.0)
    training = JobTraining([member], flag, place, beats, job.timeline, alone, queue=queue)
    alone.build([member.config])
    assert training._steps_until_refill() is None
    alone.build([member.config] * 2)
    assert training._steps_until_refill() is not None
    queue.waiting.clear()
    assert training._steps_until_refill() is None
    training._queue = None
    assert training._steps_until_refill() is None


# Waiting.


def test_more_than_there_are_slots_wait_for_their_turn(pilot) -> None:
    news = [{**NEW, "seed": seed} for seed in range(3, 8)]
    job, given = pilot([SHORT, LONG], news)
    job.write_next(1, given)
    work(str(job.root))
    assert [ended(job, assignment.trial) for assignment in given] == [("finished", 12)] * 5


def test_another_shape_waits_until_the_others_have_ended(pilot, monkeypatch) -> None:
    job, given = pilot([SHORT, LONG], [{**NEW, "host.net_arch": [9]}, NEW])
    job.write_next(1, given)
    built = counted(monkeypatch, team, "build_trainer")
    work(str(job.root))
    assert [ended(job, assignment.trial) for assignment in given] == [("finished", 12)] * 2
    assert [trainer.num_members for trainer in built] == [2, 1]


def test_a_trainer_that_does_not_fit_is_freed_before_the_next_is_built(pilot, monkeypatch) -> None:
    """The memory of a GPU may not hold both."""
    watch = {"monitor.hang_timeout": 600.0}
    first, second = {**SHORT, **watch}, {**NEW, **watch, "host.net_arch": [9]}
    job, (new,) = pilot([first], [second], pilot_seconds=60.0)
    job.write_next(1, [new])
    job.write_next(2, [])
    build, built, alive = team.build_trainer, [], []

    def watched(configs, ranks, actors):
        alive.append([trainer() is not None for trainer in built])
        trainer = build(configs, ranks, actors)
        built.append(weakref.ref(trainer))
        return trainer

    monkeypatch.setattr(team, "build_trainer", watched)
    gc.disable()  # which would come too late
    try:
        work(str(job.root))
    finally:
        gc.enable()
    assert alive == [[], [False]]


def test_all_that_wait_begin_at_once_where_no_member_trains(pilot, monkeypatch) -> None:
    """Also more than there were before."""
    job, given = pilot([SHORT], [NEW, {**NEW, "seed": 4}])
    finish = JobTraining._finish

    def give_then(self):
        finish(self)
        if ended(job, 0) is not None:
            job.write_next(1, given)

    monkeypatch.setattr(JobTraining, "_admit", lambda self: None)
    monkeypatch.setattr(JobTraining, "_finish", give_then)
    built = counted(monkeypatch, team, "build_trainer")
    work(str(job.root))
    assert [trainer.num_members for trainer in built] == [1, 2]
    assert [ended(job, assignment.trial) for assignment in given] == [("finished", 12)] * 2


def test_a_job_without_refills_gives_rows_up(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW], refills=False)
    job.write_next(1, [new])
    selected = counted(monkeypatch, Trainer, "select")
    work(str(job.root))
    assert [trainer.num_members for trainer in selected] == [1]
    assert ended(job, 2) == ("finished", 12)


def test_a_closed_job_gives_rows_up(pilot, monkeypatch) -> None:
    job, _ = pilot([SHORT, LONG])
    job.write_next(1, [])
    selected = counted(monkeypatch, Trainer, "select")
    work(str(job.root))
    assert [trainer.num_members for trainer in selected] == [1]
    assert [ended(job, number) for number in (0, 1)] == [("finished", 4), ("finished", 16)]


def test_a_job_that_is_closed_later_gives_its_free_rows_up_then(pilot, monkeypatch) -> None:
    job, _ = pilot([SHORT, LONG])
    at_step(monkeypatch, 8, lambda: job.write_next(1, []))
    selected = counted(monkeypatch, Trainer, "select")
    work(str(job.root))
    assert [trainer.num_members for trainer in selected] == [1]
    assert ended(job, 1) == ("finished", 16)


@pytest.mark.parametrize("error", [DiskError("stale"), CorruptError("half")])
def test_what_cannot_be_read_now_is_no_news(pilot, monkeypatch, error) -> None:
    """Before, it ended the job."""
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    read, calls = JobDir.read_next, []

    def fail_at_first(self, number):
        calls.append(number)
        if len(calls) < 4:
            raise error
        return read(self, number)

    monkeypatch.setattr(JobDir, "read_next", fail_at_first)
    work(str(job.root))
    assert ended(job, 2) == ("finished", 12)
