"""Checkpoints are written beside training: the same bytes, in order, before any result says so.

Those of several ranks stand in test_saving_ranks.py.
"""

import threading
from contextlib import contextmanager

import pytest
from working import on_nth_call, terminate, work

from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.member import Member, Slots
from hpsearch.cluster.records import Assignment, Fresh, Lineage
from hpsearch.cluster.schedule import CheckpointPolicy
from hpsearch.cluster.study_dir import AttemptDir, TrialDir
from hpsearch.cluster.team import Team
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer


class Saving:
    """A policy with one member, and a disk that may be held."""

    def __init__(self, folder, config, monkeypatch) -> None:
        trial = TrialDir(folder)
        lineage = Lineage(Fresh(), config.seed)
        member = Member(Assignment(0, 1, "t"), trial, trial.attempt(1), config, "m", lineage, ())
        team = Team(StopFlag())
        team.build([config])
        self.slots, self.policy = Slots([member], team), CheckpointPolicy(config, team)
        self.trainer, self.folder = team.trainer, trial.checkpoints
        self._free, self.threads = threading.Event(), []
        self._free.set()
        write = checkpoint.write_tensors

        def held(path, tensors):
            self.threads.append(threading.current_thread())
            assert self._free.wait(30)
            write(path, tensors)

        monkeypatch.setattr(checkpoint, "write_tensors", held)

    @contextmanager
    def held(self):
        self._free.clear()
        try:
            yield
        finally:
            self._free.set()

    def train(self, steps: int) -> None:
        self.slots.team.train(steps)
        self.slots.read_steps()

    def save(self) -> None:
        self.policy.save(self.slots, 0, checkpoint.PERIODIC)

    def steps(self) -> list[int]:
        return list(checkpoint.valid_steps(self.folder))


@pytest.fixture(params=["dqn", "ppo"])
def saving(tmp_path, tiny_config, monkeypatch, request):
    saving = Saving(tmp_path / "trial", tiny_config({}, request.param), monkeypatch)
    yield saving
    saving.policy.close()


def files_of(path):
    return {file.name: file.read_bytes() for file in path.iterdir()}


def test_what_is_saved_is_of_its_step_bit_for_bit(saving, tmp_path):
    saving.train(3)
    expected = saving.trainer.save(tmp_path / "at once", 0)
    before = files_of(expected)
    with saving.held():
        saving.save()
        saving.train(4)  # changes every tensor in place
        assert saving.steps() == []
    saving.policy.wait()
    assert saving.steps() == [3]
    assert files_of(checkpoint.path_of(saving.folder, 3)) == before
    after = files_of(saving.trainer.save(tmp_path / "at once", 0))
    assert after["tensors.safetensors"] != before["tensors.safetensors"]


def test_it_counts_as_saved_once_it_is_written(saving):
    saving.train(2)
    with saving.held():
        saving.save()
        saving.policy.settle()
        assert saving.policy.saved == {}
    saving.policy.wait()
    assert saving.policy.saved == {0: 2}
    assert {thread is threading.main_thread() for thread in saving.threads} == {False}


def test_the_next_save_of_a_member_waits_for_the_last(saving):
    saving.train(1)
    with saving.held():
        saving.save()
        saving.train(1)
        threading.Timer(0.2, saving._free.set).start()
        saving.save()
        assert saving.policy.saved == {0: 1}
        assert saving.steps()[-1] == 1
    saving.policy.wait()
    assert saving.steps() == [2, 1]


def test_what_the_disk_refuses_is_raised_and_older_checkpoints_stay(saving, monkeypatch):
    saving.train(1)
    saving.save()
    saving.policy.wait()

    def full(path, tensors):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    saving.train(1)
    saving.save()
    with pytest.raises(OSError, match="No space left"):
        saving.policy.wait()
    assert saving.policy.saved == {0: 1}
    assert saving.steps() == [1]
    assert [path.name for path in saving.folder.iterdir()] == ["step-000000001"]
    saving.policy.wait()  # it is told once


# In a job.


@pytest.fixture
def told(monkeypatch):
    """By status of each result: its step, and the checkpoints that were whole by then."""
    write, told = AttemptDir.write_result, {}

    def noted(self, result):
        folder = TrialDir(self.root.parent).checkpoints
        told[result.status] = (result.step, list(checkpoint.valid_steps(folder)))
        write(self, result)

    monkeypatch.setattr(AttemptDir, "write_result", noted)
    return told


def slow_disk(monkeypatch):
    write = checkpoint.write_tensors
    monkeypatch.setattr(
        checkpoint,
        "write_tensors",
        lambda path, tensors: (threading.Event().wait(0.3), write(path, tensors)),
    )


def test_a_result_comes_after_the_last_checkpoint(
    tmp_path, new_job, plain_config, monkeypatch, told
):
    slow_disk(monkeypatch)
    work(str(new_job(tmp_path, [plain_config({})]).root))
    assert told == {"finished": (12, [12, 8])}


def test_an_interruption_waits_for_the_checkpoint_in_flight(
    tmp_path, new_job, plain_config, monkeypatch, told
):
    slow_disk(monkeypatch)
    on_nth_call(monkeypatch, Trainer, "train", 3, terminate)
    work(str(new_job(tmp_path, [plain_config({"checkpoint.interval": 1})]).root))
    ((step, saved),) = told.values()
    assert (list(told), saved[0]) == (["interrupted"], step)


def test_a_full_disk_ends_the_attempt_as_before(tmp_path, new_job, plain_config, monkeypatch):
    def full(path, tensors):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "write_tensors", full)
    job = new_job(tmp_path, [plain_config({}), plain_config({"seed": 2})])
    with pytest.raises(OSError, match="No space left"):
        work(str(job.root))
    for number in range(2):
        result = job.study.trial(number).attempt(1).read_result()
        assert (result.status, result.kind) == ("failed", "disk")
    assert not any("checkpoints" in thread.name for thread in threading.enumerate())
