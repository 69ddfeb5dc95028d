"""The worker, stopped and killed at every point: the next attempt ends as if it had not been.

Most tests run `work` in this process: a kill is an exception that is never caught.
"""

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from working import Killed, die, on_nth_call, terminate, work

from hpsearch.cluster import team
from hpsearch.cluster.failures import StopFlag
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import Control
from hpsearch.cluster.study_dir import AttemptDir, JobDir, StudyDir, TrialDir
from hpsearch.cluster.team import Team
from hpsearch.cluster.worker import run_job
from hpsearch.errors import ConflictError, DiskError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer


@pytest.fixture(scope="module")
def configs(plain_config):
    """Two members of one shape, the second with more steps."""
    return [
        plain_config({"seed": 1, "steps": 12}),
        plain_config({"seed": 2, "steps": 14, "host.optim.args.lr": 3e-3}),
    ]


def curve(study: StudyDir, number: int) -> list[tuple[int, dict]]:
    return [(row["step"], row["metrics"]) for row in study.trial(number).read_metrics()]


def result(study: StudyDir, number: int, attempt: int = 1):
    return study.trial(number).attempt(attempt).read_result()


def unfinished(study: StudyDir, attempt: int) -> list[int]:
    """Return the trials that no attempt so far has finished."""
    numbers = sorted(int(path.name) for path in (study.root / "trials").iterdir())
    return [
        number
        for number in numbers
        if not any(
            (ending := result(study, number, k)) and ending.status == "finished"
            for k in range(1, attempt + 1)
        )
    ]


def outcome(study: StudyDir, number: int, attempt: int):
    """Return what counts in the end: how the trial ended, when, its measures and its curve."""
    for k in range(attempt, 0, -1):
        ended = result(study, number, k)
        if ended and ended.status == "finished":
            return ended.status, ended.step, ended.metrics, curve(study, number)
    raise AssertionError(f"trial {number} has not finished")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory, new_job, configs):
    """The outcomes of a job that nothing disturbed."""
    job = new_job(tmp_path_factory.mktemp("whole"), configs)
    work(str(job.root))
    return [outcome(job.study, number, 1) for number in range(2)]


def go_on(study: StudyDir, new_job, configs, attempt: int) -> None:
    """Give the unfinished trials to a new job, as the driver does, and run it."""
    left = unfinished(study, attempt - 1)
    job = new_job(study.root, configs, attempt)
    plan = job.plan.required()
    job.plan.write(replace(plan, assignments=tuple(a for a in plan.assignments if a.trial in left)))
    if left:
        work(str(job.root))


def test_a_job_trains_measures_saves_and_tells(tmp_path, new_job, configs, uninterrupted):
    job = new_job(tmp_path, configs)
    work(str(job.root))
    for number, steps in enumerate((12, 14)):
        ended = result(job.study, number)
        assert (ended.status, ended.step, ended.kind) == ("finished", steps, None)
        assert ended.token == f"token-{number}-1"
        measured = ended.metrics["rho/host/choose_first"]
        assert measured["games"] == 30
        assert measured["low"] <= measured["value"] <= measured["high"]
        assert [step for step, _ in curve(job.study, number)] == [4, 8, 12]
        folder = job.study.trial(number).checkpoints
        assert list(checkpoint.valid_steps(folder)) == [steps, {12: 8, 14: 12}[steps]]
        assert job.study.trial(number).attempt(1).start.read().step == 0
        assert outcome(job.study, number, 1) == uninterrupted[number]
    said = job.heartbeat.try_read()
    assert said.pid == os.getpid()
    assert {member.trial for member in said.members} <= {0, 1}


def test_the_last_evaluation_is_announced_as_long(tmp_path, monkeypatch, new_job, configs):
    """It may have a hundred times as many games as those before it, none of which was long."""
    job, measure, said = new_job(tmp_path, configs), Team.measure, []

    def measured(team, action, *arguments):
        if arguments[-1] == "final":
            said.append(job.heartbeat.required().is_busy)
        return measure(team, action, *arguments)

    monkeypatch.setattr(Team, "measure", measured)
    work(str(job.root))
    assert said == [True, True]
    assert job.heartbeat.required().has_left


@pytest.mark.parametrize("calls", [1, 2, 5])
def test_sigterm_saves_and_the_next_attempt_goes_on(
    tmp_path, monkeypatch, new_job, configs, uninterrupted, calls
):
    job = new_job(tmp_path, configs)
    on_nth_call(monkeypatch, Trainer, "train", calls, terminate)
    work(str(job.root))
    monkeypatch.undo()
    for number in range(2):
        ended = result(job.study, number)
        if ended.status != "finished":
            assert ended.status == "interrupted"
            steps = checkpoint.valid_steps(job.study.trial(number).checkpoints)
            assert next(steps) == ended.step
    go_on(job.study, new_job, configs, attempt=2)
    for number in range(2):
        assert outcome(job.study, number, 2) == uninterrupted[number]


WRITES = [
    (checkpoint, "write_part"),
    (checkpoint, "keep_last"),
    (checkpoint, "flush"),
    (shutil, "rmtree"),
    (RecordFile, "write"),
    (TrialDir, "append_metrics"),
    (TrialDir, "forget_metrics_after"),
]


@pytest.mark.slow
@pytest.mark.parametrize(("owner", "name"), WRITES, ids=lambda value: str(value)[-20:])
def test_killed_before_any_write_the_next_attempt_ends_the_same(
    tmp_path, monkeypatch, new_job, configs, uninterrupted, owner, name
):
    for n in range(1, 30):
        root = tmp_path / str(n)
        job = new_job(root, configs)
        on_nth_call(monkeypatch, owner, name, n, die)
        try:
            work(str(job.root))
            killed = False
        except Killed:
            killed = True
        monkeypatch.undo()
        go_on(job.study, new_job, configs, attempt=2)
        for number in range(2):
            assert outcome(job.study, number, 2) == uninterrupted[number], (name, n)
        if not killed:
            assert n > 1
            return
    raise AssertionError("the last call was never reached")


def test_killed_again_and_again(tmp_path, monkeypatch, new_job, configs, uninterrupted):
    job = new_job(tmp_path, configs)
    attempt = 1
    while unfinished(job.study, attempt):
        # Each attempt comes one checkpoint further before it dies.
        on_nth_call(monkeypatch, checkpoint, "keep_last", 2, die)
        try:
            go_on(job.study, new_job, configs, attempt)
        except Killed:
            attempt += 1
        monkeypatch.undo()
        assert attempt < 12
    assert attempt > 3
    for number in range(2):
        assert outcome(job.study, number, attempt) == uninterrupted[number]


@pytest.fixture
def interrupted(tmp_path, monkeypatch, new_job, configs):
    """A study whose first attempt was killed after the checkpoints of step 8."""
    job = new_job(tmp_path, configs)

    def train(self, steps):
        if int(self.step[0]) >= 8:
            die()
        original(self, steps)

    original = Trainer.train
    monkeypatch.setattr(Trainer, "train", train)
    with pytest.raises(Killed):
        work(str(job.root))
    monkeypatch.undo()
    for number in range(2):
        assert list(checkpoint.valid_steps(job.study.trial(number).checkpoints)) == [8, 4]
    return job.study


def damage(folder: Path, step: int) -> None:
    path = checkpoint.path_of(folder, step) / checkpoint.TENSORS
    path.write_bytes(path.read_bytes()[:-1] + b"x")


@pytest.mark.parametrize("numbers", [(0,), (1,), (0, 1)])
@pytest.mark.parametrize("how", ["damaged", "absent"])
def test_without_the_newest_checkpoint_it_goes_on_from_an_older_one(
    interrupted, new_job, configs, uninterrupted, numbers, how
):
    """Both members, though one alone lacks it: they repeat what they did side by side."""
    for number in numbers:
        folder = interrupted.trial(number).checkpoints
        if how == "damaged":
            damage(folder, 8)
        else:
            shutil.rmtree(checkpoint.path_of(folder, 8))
    go_on(interrupted, new_job, configs, attempt=2)
    for number in range(2):
        assert outcome(interrupted, number, 2) == uninterrupted[number]


def test_without_any_checkpoint_it_begins_again(interrupted, new_job, configs, uninterrupted):
    for number in range(2):
        for step in (4, 8):
            damage(interrupted.trial(number).checkpoints, step)
    go_on(interrupted, new_job, configs, attempt=2)
    for number in range(2):
        assert outcome(interrupted, number, 2) == uninterrupted[number]


def files_of(study: StudyDir) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in study.root.rglob("*") if path.is_file()}


def test_an_attempt_fenced_from_the_start_writes_nothing(tmp_path, new_job, configs):
    """But the job's own heartbeat, by which it says that it is over."""
    job = new_job(tmp_path, configs)
    for number in range(2):
        job.study.trial(number).control.write(Control("of-another-attempt", None))
    before = files_of(job.study)
    work(str(job.root))
    after = files_of(job.study)
    assert after.pop(job.heartbeat.path)
    assert after == before


def test_an_attempt_fenced_while_it_slept_writes_nothing_more(
    tmp_path, monkeypatch, new_job, configs
):
    """Its node was cut off; meanwhile the trial belongs to another attempt."""
    job, before = new_job(tmp_path, configs), {}

    def fence():
        for number in range(2):
            job.study.trial(number).control.write(Control("of-another-attempt", None))
        before.update(files_of(job.study))

    on_nth_call(monkeypatch, Trainer, "train", 2, fence)
    work(str(job.root))
    after = files_of(job.study)
    assert before
    changed = {path for path in after if after[path] != before.get(path)}
    assert changed == {job.heartbeat.path}  # its own, by which it says that it trains nothing
    assert result(job.study, 0) is None


def test_a_fenced_member_leaves_the_others_alone(
    tmp_path, monkeypatch, new_job, configs, uninterrupted
):
    job = new_job(tmp_path, configs)
    fenced = Control("of-another-attempt", None)
    on_nth_call(monkeypatch, Trainer, "train", 3, lambda: job.study.trial(0).control.write(fenced))
    work(str(job.root))
    assert result(job.study, 0) is None
    assert result(job.study, 1).status == "finished"
    assert [step for step, _ in curve(job.study, 1)] == [4, 8, 12]


def test_stop_ends_a_trial_with_its_reason(tmp_path, monkeypatch, new_job, configs):
    job = new_job(tmp_path, configs)
    pruned = Control("token-1-1", "pruned")
    on_nth_call(monkeypatch, Trainer, "train", 2, lambda: job.study.trial(1).control.write(pruned))
    work(str(job.root))
    ended = result(job.study, 1)
    assert (ended.status, ended.kind) == ("pruned", None)
    assert ended.step < 14
    assert result(job.study, 0).status == "finished"


def test_a_trial_stopped_before_it_began_is_not_trained(tmp_path, new_job, configs):
    job = new_job(tmp_path, configs)
    job.study.trial(0).control.write(Control("token-0-1", "pruned"))
    work(str(job.root))
    assert not job.study.trial(0).metrics.exists()
    assert result(job.study, 1).status == "finished"


def test_a_member_that_diverges_fails_and_the_other_goes_on(tmp_path, new_job, plain_config):
    """Noticed when it would finish; test_evaluation_schedule.py has one that is noticed before."""
    wild = {
        "host.optim.args.lr": 3e38,
        "host.optim.args.eps": 1e-30,
        "host.optim.lr_schedule.initial": 3e38,
        "steps": 10,
    }
    job = new_job(
        tmp_path,
        [
            plain_config({**wild, "evaluation.interval": 1000}),
            plain_config({"seed": 2, "evaluation.interval": 1000}),
        ],
    )
    work(str(job.root))
    ended = result(job.study, 0)
    assert (ended.status, ended.kind) == ("failed", "nan")
    assert "learning rate" in ended.message
    assert result(job.study, 1).status == "finished"


def test_an_error_of_the_code_is_every_members_end(tmp_path, monkeypatch, new_job, configs):
    job = new_job(tmp_path, configs)

    def broken(self, steps):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(Trainer, "train", broken)
    with pytest.raises(RuntimeError):
        work(str(job.root))
    for number in range(2):
        ended = result(job.study, number)
        assert (ended.status, ended.kind, ended.step) == ("failed", "code", 0)
        assert "no such thing" in ended.message
    assert_nothing_is_taken_for_known(job)


def assert_nothing_is_taken_for_known(job: JobDir) -> None:
    """Before, the driver took them for training, while other jobs of the same SLURM job went on."""
    last = job.heartbeat.required().members
    assert [(member.trial, member.measured) for member in last] == [(0, None), (1, None)]


def test_a_full_disk_is_told_as_such(tmp_path, monkeypatch, new_job, configs):
    job = new_job(tmp_path, configs)

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("safetensors.torch.save_file", full)
    with pytest.raises(OSError, match="No space"):
        work(str(job.root))
    for number in range(2):
        ended = result(job.study, number)
        assert (ended.status, ended.kind) == ("failed", "disk")
        assert ended.step >= 4  # that of the checkpoint, which is written while training goes on


def test_a_trial_that_cannot_begin_says_so(tmp_path, monkeypatch, new_job, configs):
    job = new_job(tmp_path, configs)

    def broken(configs, ranks, actors):
        raise ValueError("no such network")

    monkeypatch.setattr(team, "build_trainer", broken)
    with pytest.raises(ValueError, match="no such network"):
        work(str(job.root))
    for number in range(2):
        ended = result(job.study, number)
        assert (ended.status, ended.kind, ended.step) == ("failed", "code", 0)


def test_trials_of_two_shapes_train_one_after_another(tmp_path, new_job, configs, plain_config):
    job = new_job(tmp_path, [configs[0], plain_config({"host.net_arch": [9]}), configs[1]])
    work(str(job.root))
    assert [result(job.study, number).status for number in range(3)] == ["finished"] * 3


def test_a_configuration_that_does_not_read_ends_its_own_trial(
    tmp_path, new_job, configs, plain_config
):
    """For instance one written by an older version."""
    job = new_job(tmp_path, [plain_config({"host.gama": 0.9}), configs[1]])
    work(str(job.root))
    ended = result(job.study, 0)
    assert (ended.status, ended.kind) == ("failed", "code")
    assert "host.gama" in ended.message
    assert result(job.study, 1).status == "finished"


def test_a_trial_of_which_nothing_can_be_told_does_not_end_the_others(
    tmp_path, monkeypatch, new_job, configs, plain_config
):
    job = new_job(tmp_path, [plain_config({"host.gama": 0.9}), configs[1]])

    def full():
        raise DiskError("the disk is full")

    on_nth_call(monkeypatch, AttemptDir, "write_result", 1, full)
    work(str(job.root))
    assert result(job.study, 0) is None
    assert result(job.study, 1).status == "finished"


def test_a_checkpoint_of_another_configuration_is_refused(interrupted, new_job, configs):
    changed = [{**config, "max_value": 7} for config in configs]
    with pytest.raises(ConflictError):
        go_on(interrupted, new_job, changed, attempt=2)
    assert "another configuration" in result(interrupted, 0, 2).message


def test_a_job_that_is_stopped_before_it_trains_says_so(tmp_path, new_job, configs) -> None:
    job, flag = new_job(tmp_path, configs), StopFlag()
    flag.is_set = True
    run_job(job, flag, Team(flag))
    results = [job.study.trial(number).attempt(1).read_result() for number in range(2)]
    assert [(result.status, result.step) for result in results] == [("interrupted", 0)] * 2
