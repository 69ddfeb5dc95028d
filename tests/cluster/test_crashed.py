"""An error that leaves the state whole: it is saved, and the next attempt ends as if nothing were.

Faults are injected into what surrounds a step, into the step itself, and into the saving.
"""

import pytest
import torch
from working import on_nth_call, work

from hpsearch.cluster.member import Member
from hpsearch.cluster.records import Control
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.monitor.monitor import JobMonitor
from hpsearch.trainers import checkpoint
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.trainer import Trainer

RULES = {"steps": 16, "checkpoint.interval": 100, "monitor.interval": 100}
TWO = ({**RULES, "seed": 1}, {**RULES, "seed": 2, "steps": 14})


def broken():
    raise ZeroDivisionError("division by zero")


def no_memory():
    raise torch.OutOfMemoryError("CUDA out of memory")


@pytest.fixture
def run(tmp_path, new_job, plain_config):
    """Return a function (changes of each member, attempt, root, error) -> the job's study."""

    def run(*members, attempt=1, root=tmp_path / "study", error=None):
        job = new_job(root, [plain_config(changes) for changes in members], attempt)
        if error is None:
            work(str(job.root))
        else:
            with pytest.raises(error):
                work(str(job.root))
        return job.study

    return run


def saved(study, number=0):
    """Return the kinds of the checkpoints of a trial, by step."""
    folder = study.trial(number).checkpoints
    paths = {step: checkpoint.path_of(folder, step) for step in checkpoint.valid_steps(folder)}
    return {step: checkpoint.load(path).kind for step, path in paths.items()}


def outcome(study, number):
    ended = study.trial(number).attempts[-1].read_result()
    curve = [(row["step"], row["metrics"]) for row in study.trial(number).read_metrics()]
    folder = study.trial(number).checkpoints
    tensors = checkpoint.load(checkpoint.path_of(folder, ended.step)).tensors
    weights = {name: tensor.tolist() for name, tensor in tensors.items()}
    return (ended.status, ended.step, ended.metrics), curve, weights


@pytest.mark.parametrize(
    ("owner", "name", "calls", "action", "error", "kind"),
    [
        (JobMonitor, "after_steps", (1, 3, 5), broken, ZeroDivisionError, "code"),
        (Trainer, "evaluate", (1, 2, 3), broken, ZeroDivisionError, "code"),
        (Trainer, "evaluate", (3,), no_memory, torch.OutOfMemoryError, "oom_gpu"),
        (Member, "report", (2, 3), broken, ZeroDivisionError, "code"),
        (JobMonitor, "beat", (4,), broken, ZeroDivisionError, "code"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_was_whole_is_saved_and_the_next_attempt_ends_the_same(
    run, monkeypatch, tmp_path, owner, name, calls, action, error, kind
):
    whole = run(*TWO, root=tmp_path / "whole")
    for n in calls:
        root = tmp_path / str(n)
        on_nth_call(monkeypatch, owner, name, n, action)
        study = run(*TWO, root=root, error=error)
        monkeypatch.undo()
        for number in range(2):
            ended = study.trial(number).attempt(1).read_result()
            assert (ended.status, ended.kind) == ("failed", kind)
            assert saved(study, number) == {ended.step: "crashed"}
            assert ended.step > 0
        run(*TWO, root=root, attempt=2)
        for number in range(2):
            began = study.trial(number).attempt(2).start.read().step
            assert began == study.trial(number).attempt(1).read_result().step
            assert outcome(study, number) == outcome(whole, number), (n, number)


def test_a_step_that_was_torn_is_not_saved(run, monkeypatch):
    rules = {**RULES, "checkpoint.interval": 4}
    on_nth_call(monkeypatch, DQNTrainer, "_learn", 7, broken)
    study = run(rules, error=ZeroDivisionError)
    assert saved(study) == {4: "periodic"}


def test_older_checkpoints_stay(run, monkeypatch):
    rules = {**RULES, "checkpoint.interval": 4, "checkpoint.keep_last": 2}
    on_nth_call(monkeypatch, Trainer, "evaluate", 3, broken)
    study = run(rules, error=ZeroDivisionError)
    assert saved(study) == {12: "crashed", 8: "periodic", 4: "periodic"}


def test_one_of_this_step_stays_as_it_is(run, monkeypatch):
    on_nth_call(monkeypatch, JobMonitor, "beat", 8, broken)
    study = run({**RULES, "checkpoint.interval": 1, "checkpoint.keep_last": 9}, error=Exception)
    assert set(saved(study).values()) == {"periodic"}


def test_weights_that_are_no_numbers_are_not_saved(run, monkeypatch):
    def spoil(self, *arguments, **options):
        self.learners[0].net.weights[0].fill_(torch.nan)
        broken()

    monkeypatch.setattr(Trainer, "evaluate", spoil)
    study = run(*TWO, error=ZeroDivisionError)
    assert (saved(study, 0), saved(study, 1)) == ({}, {4: "crashed"})


def test_a_member_that_was_replaced_writes_nothing(run, monkeypatch, tmp_path):
    study = StudyDir(tmp_path / "study")

    def replaced():
        study.trial(0).control.write(Control("of-another-attempt", None))
        broken()

    on_nth_call(monkeypatch, Trainer, "evaluate", 1, replaced)
    run(*TWO, error=ZeroDivisionError)
    assert (saved(study, 0), saved(study, 1)) == ({}, {4: "crashed"})


def test_a_disk_that_is_full_hides_no_error(run, monkeypatch):
    def full(path, tensors):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    on_nth_call(monkeypatch, Trainer, "evaluate", 1, broken)
    study = run(RULES, error=ZeroDivisionError)
    ended = study.trial(0).attempt(1).read_result()
    assert (ended.kind, ended.message) == ("code", "ZeroDivisionError: division by zero")
    assert saved(study) == {}
    assert list(study.trial(0).checkpoints.iterdir()) == []
