"""Members that come and go while others train: nothing is rebuilt, and nobody notices.

The driver's part is played by files that lie there from the beginning, or that are written when
the trainer is called. Every other test of a worker's life stands in test_worker.py.
"""

import json
import os
import signal
from dataclasses import replace

import pytest
import torch

from hpsearch import yaml_file
from hpsearch.cluster import newcomers, slots, worker
from hpsearch.cluster.messages import Assignment, Control, JobPlan
from hpsearch.cluster.population import Population
from hpsearch.cluster.study_dir import JobDir, StudyDir
from hpsearch.cluster.worker import work
from hpsearch.errors import CorruptError, DiskError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer

METRIC = "rho/host/choose_first"
SHORT, LONG, NEW = {"seed": 1, "steps": 4}, {"seed": 2, "steps": 16}, {"seed": 3, "steps": 12}


class Killed(BaseException):
    """Stands for kill -9: no handler of the worker sees it."""


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch):
    monkeypatch.setattr(newcomers, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(worker, "GLANCE_SECONDS", 0.01)


@pytest.fixture
def pilot(tmp_path, plain_config):
    """Return a function (first trials, later ones) -> a job; the later ones lie ready."""

    def make(first, later=(), *, algorithm="dqn", attempt=1, root=tmp_path / "study", **plan):
        study = StudyDir(root)
        given = []
        for number, changes in enumerate([*first, *later]):
            trial = study.trial(number)
            trial.create(yaml_file.dump(plain_config(changes, algorithm)), {"parents": []})
            trial.write_control(Control(f"token-{number}-{attempt}", None))
            given.append(Assignment(number, attempt, f"token-{number}-{attempt}"))
        job = study.job(f"job-{attempt}")
        own = JobPlan(tuple(given[: len(first)]), 1, pilot_seconds=0.3, refills=True)
        job.write(replace(own, **plan))
        return job, given[len(first) :]

    return make


@pytest.fixture
def alone(tmp_path, pilot):
    """Return a function (changes, algorithm) -> the trial trained by itself."""

    def train(changes, algorithm="dqn"):
        root = tmp_path / f"alone-{changes['seed']}"
        job, _ = pilot([changes], algorithm=algorithm, root=root, pilot_seconds=0.0)
        work(str(job.root))
        return job.study.trial(0)

    return train


def at_step(monkeypatch, step: int, action) -> None:
    """Call ``action`` once, when the furthest row is to be trained on from ``step``."""
    original, done = Trainer.train, []

    def train(self, steps):
        if int(self.step.max()) >= step and not done:
            done.append(step)
            action()
        original(self, steps)

    monkeypatch.setattr(Trainer, "train", train)


def terminate() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def counted(monkeypatch, owner, name: str) -> list:
    """Return a list that grows with every call of a function, by what it returns."""
    original, calls = getattr(owner, name), []

    def wrapped(*arguments, **options):
        calls.append(original(*arguments, **options))
        return calls[-1]

    monkeypatch.setattr(owner, name, wrapped)
    return calls


def ended(job: JobDir, number: int, attempt: int = 1) -> tuple[str, int] | None:
    result = job.study.trial(number).attempt(attempt).read_result()
    return None if result is None else (result.status, result.step)


def curve(trial) -> dict[int, float]:
    rows = [(row["step"], row["metrics"][METRIC]["value"]) for row in trial.read_metrics()]
    assert len(dict(rows)) == len(rows)
    return dict(rows)


def assert_same_training(trial, other, step: int) -> None:
    """Assert that two trials learned the same, to rounding."""
    assert curve(trial) == pytest.approx(curve(other))
    found, expected = (
        checkpoint.load(checkpoint.path_of(one.checkpoints, step)).tensors for one in (trial, other)
    )
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name], tensor, rtol=1e-4, atol=1e-5, msg=name)


# Coming.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_newcomer_takes_the_slot_of_one_that_has_finished(
    pilot, alone, monkeypatch, algorithm
) -> None:
    """The same trainer goes on; all are measured together; it learns what it would alone."""
    job, (new,) = pilot([SHORT, LONG], [NEW], algorithm=algorithm)
    job.write_next(1, [new])
    with monkeypatch.context() as patch:
        built, selected = counted(patch, slots, "build"), counted(patch, Trainer, "select")
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


def test_a_newcomer_takes_the_slot_of_one_that_was_pruned(pilot, alone, monkeypatch) -> None:
    job, (new,) = pilot([LONG, {**LONG, "seed": 5}], [NEW])

    def prune() -> None:
        job.study.trial(1).write_control(Control("token-1-1", "pruned"))
        job.write_next(1, [new])

    at_step(monkeypatch, 4, prune)
    built = counted(monkeypatch, slots, "build")
    work(str(job.root))
    assert len(built) == 1
    assert ended(job, 1) == ("pruned", 6)
    assert [ended(job, number) for number in (0, 2)] == [("finished", 16), ("finished", 12)]
    monkeypatch.undo()
    assert_same_training(job.study.trial(2), alone(NEW), 12)


def test_a_newcomer_begins_where_the_others_are_measured(pilot, monkeypatch) -> None:
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
    firsts = [{**one, **rules} for one in (SHORT, LONG)]
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
    built = counted(monkeypatch, slots, "build")
    work(str(job.root))
    assert len(built) == 1
    for one, changes in zip(given, many, strict=True):
        assert ended(job, one.trial) == ("finished", changes["steps"])
        assert_same_training(job.study.trial(one.trial), alone(changes), changes["steps"])
        attempt = job.study.trial(one.trial).attempt(1)
        assert attempt.read_heartbeat() is not None


def test_newcomers_are_observed(pilot) -> None:
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


# Waiting.


def test_more_than_there_are_slots_wait_for_their_turn(pilot) -> None:
    news = [{**NEW, "seed": seed} for seed in range(3, 8)]
    job, given = pilot([SHORT, LONG], news)
    job.write_next(1, given)
    work(str(job.root))
    assert [ended(job, one.trial) for one in given] == [("finished", 12)] * 5


def test_another_shape_waits_until_the_others_have_ended(pilot, monkeypatch) -> None:
    job, given = pilot([SHORT, LONG], [{**NEW, "host.net_arch": [9]}, NEW])
    job.write_next(1, given)
    built = counted(monkeypatch, slots, "build")
    work(str(job.root))
    assert [ended(job, one.trial) for one in given] == [("finished", 12)] * 2
    assert [trainer.num_members for trainer in built] == [2, 1]


def test_all_that_wait_begin_at_once_where_nobody_trains(pilot, monkeypatch) -> None:
    """Also more than there were before."""
    job, given = pilot([SHORT], [NEW, {**NEW, "seed": 4}])
    finish = Population._finish

    def give_then(self):
        finish(self)
        if ended(job, 0) is not None:
            job.write_next(1, given)

    monkeypatch.setattr(Population, "_admit", lambda self: None)
    monkeypatch.setattr(Population, "_finish", give_then)
    built = counted(monkeypatch, slots, "build")
    work(str(job.root))
    assert [trainer.num_members for trainer in built] == [1, 2]
    assert [ended(job, one.trial) for one in given] == [("finished", 12)] * 2


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


# Ending.


def test_one_that_waits_when_the_job_is_stopped_has_not_begun(pilot, monkeypatch) -> None:
    """The driver takes one without a sign of life for one that still waits."""
    job, (new,) = pilot([LONG, {**LONG, "seed": 5}], [NEW])
    job.write_next(1, [new])
    at_step(monkeypatch, 6, terminate)
    work(str(job.root))
    assert [ended(job, number) for number in (0, 1)] == [("interrupted", 8)] * 2
    assert not job.study.trial(2).attempt(1).root.exists()


def test_a_newcomer_is_saved_when_the_job_is_stopped(pilot, alone, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    at_step(monkeypatch, 6, terminate)
    work(str(job.root))
    monkeypatch.undo()
    assert [ended(job, number) for number in (1, 2)] == [("interrupted", 8), ("interrupted", 4)]
    again, _ = pilot([SHORT, LONG, NEW], attempt=2, pilot_seconds=0.0)
    plan = again.read()
    again.write(replace(plan, assignments=plan.assignments[1:]))
    work(str(again.root))
    assert_same_training(again.study.trial(2), alone(NEW), 12)
    assert_same_training(again.study.trial(1), alone(LONG), 16)


def test_a_newcomer_that_is_fenced_writes_nothing_more(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    before = {}

    def fence() -> None:
        trial = job.study.trial(2)
        trial.write_control(Control("of-another-attempt", None))
        before.update({p: p.read_bytes() for p in trial.root.rglob("*") if p.is_file()})

    at_step(monkeypatch, 8, fence)
    work(str(job.root))
    files = {p: p.read_bytes() for p in job.study.trial(2).root.rglob("*") if p.is_file()}
    assert curve(job.study.trial(2)).keys() == {4}
    assert files == before
    assert ended(job, 1) == ("finished", 16)


def test_a_newcomer_that_is_cancelled_says_so(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])
    failed = Control(new.token, "failed")
    at_step(monkeypatch, 8, lambda: job.study.trial(2).write_control(failed))
    work(str(job.root))
    assert ended(job, 2) == ("failed", 6)
    assert ended(job, 1) == ("finished", 16)


def test_one_that_is_told_to_end_while_it_waits_says_so_and_leaves_its_place(pilot) -> None:
    """Before, it said nothing: the driver waited for it as long as the job lived."""
    job, given = pilot([SHORT, LONG], [NEW, {**NEW, "seed": 4}])
    job.study.trial(2).write_control(Control("token-2-1", "pruned"))
    job.write_next(1, given)
    work(str(job.root))
    assert ended(job, 2) == ("pruned", 0)
    assert ended(job, 3) == ("finished", 12)
    assert not job.study.trial(2).metrics.exists()


def test_a_newcomer_that_cannot_begin_ends_alone(pilot, monkeypatch) -> None:
    rules = {"checkpoint.resume": "must"}
    job, _ = pilot([SHORT, LONG], pilot_seconds=0.0)
    work(str(job.root))
    firsts = [{**SHORT, "steps": 8, **rules}, {**LONG, "steps": 32, **rules}]
    job, given = pilot(firsts, [{**NEW, **rules}], attempt=2)
    job.write_next(1, given)
    work(str(job.root))
    found = job.study.trial(2).attempt(2).read_result()
    assert (found.status, found.step) == ("failed", 0)
    assert "checkpoint.resume is must" in found.message
    assert [ended(job, number, 2) for number in (0, 1)] == [("finished", 8), ("finished", 32)]


def test_an_error_of_the_job_is_told_of_newcomers_too(pilot, monkeypatch) -> None:
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])

    def broken() -> None:
        raise RuntimeError("no such thing")

    at_step(monkeypatch, 8, broken)
    with pytest.raises(RuntimeError):
        work(str(job.root))
    assert [ended(job, number) for number in (1, 2)] == [("failed", 8), ("failed", 4)]


def test_a_newcomer_shows_life_before_it_takes_its_row(pilot, monkeypatch) -> None:
    """What then ends the job may be its fault."""
    job, (new,) = pilot([SHORT, LONG], [NEW])
    job.write_next(1, [new])

    def die(self, row, config):
        raise Killed

    monkeypatch.setattr(Trainer, "begin", die)
    with pytest.raises(Killed):
        work(str(job.root))
    assert job.study.trial(2).attempt(1).read_heartbeat().is_busy


@pytest.mark.parametrize("n", [3, 5, 7, 9])
def test_killed_with_newcomers_the_next_attempt_goes_on(pilot, alone, monkeypatch, n) -> None:
    """Each from its own newest checkpoint: nobody goes back for one that came later."""
    changes = [SHORT, LONG, NEW, {**NEW, "seed": 4, "steps": 8}]
    job, given = pilot(changes[:2], changes[2:])
    job.write_next(1, given[:1])
    job.write_next(2, given[1:])
    with monkeypatch.context() as patch:
        save, calls = checkpoint.save, []

        def die_at_last(*arguments):
            calls.append(1)
            if len(calls) == n:
                raise Killed
            return save(*arguments)

        patch.setattr(checkpoint, "save", die_at_last)
        with pytest.raises(Killed):
            work(str(job.root))
    newest = {
        number: max(checkpoint.valid_steps(job.study.trial(number).checkpoints), default=0)
        for number in range(4)
    }
    left = [number for number in range(4) if ended(job, number) is None]
    assert left
    job, _ = pilot(changes, attempt=2)
    plan = job.read()
    job.write(replace(plan, assignments=tuple(a for a in plan.assignments if a.trial in left)))
    loaded = []
    with monkeypatch.context() as patch:
        load = Trainer.load
        patch.setattr(
            Trainer, "load", lambda self, path, row: (loaded.append(path), load(self, path, row))
        )
        work(str(job.root))
    resumed = {number: step for number, step in newest.items() if number in left and step}
    folders = [checkpoint.path_of(job.study.trial(n).checkpoints, s) for n, s in resumed.items()]
    assert sorted(loaded) == sorted(folders)
    for number in left:
        steps = changes[number]["steps"]
        assert ended(job, number, 2) == ("finished", steps)
        assert_same_training(job.study.trial(number), alone(changes[number]), steps)


def test_rows_in_which_nobody_sits_disturb_nobody(pilot, alone, monkeypatch) -> None:
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
