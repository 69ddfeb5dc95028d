"""Requests, lengths and ends of a population's training that are no fault of the code.

Kills stand in test_worker.py, going on in test_job_going_on.py, observers in test_job_observers.py.
"""

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from itertools import count
from types import SimpleNamespace

import pytest
from job_runs import SAVING, equal, full_disk, result, steps_of, tensors_of
from working import RUN_JOB, Killed, die, on_nth_call, terminate, work

from hpsearch import yaml_file
from hpsearch.cluster import job_training
from hpsearch.cluster.failures import RankLostError
from hpsearch.cluster.heartbeats import SHORTEST_SECONDS
from hpsearch.cluster.job_training import JobTraining
from hpsearch.cluster.records import Control
from hpsearch.cluster.study_dir import AttemptDir, StudyDir
from hpsearch.cluster.team import Team
from hpsearch.errors import DiskError
from hpsearch.trainers import checkpoint
from hpsearch.trainers.trainer import Trainer

# Kinds.


def test_a_signal_leaves_a_preempted_checkpoint(run, monkeypatch):
    on_nth_call(monkeypatch, Trainer, "train", 3, terminate)
    job = run({"checkpoint.interval": 100})
    (step,) = steps_of(job)
    folder = job.study.trial(0).checkpoints
    state = json.loads((checkpoint.path_of(folder, step) / "state.json").read_text())
    assert (state["kind"], state["step"]) == ("preempted", step)
    assert (result(job).status, result(job).step) == ("interrupted", step)


def test_a_job_says_that_it_compiles_while_it_does(run, monkeypatch, tmp_path, capsys):
    seen = []
    file = StudyDir(tmp_path / "study").job("job-1").compiles
    monkeypatch.setattr(job_training, "is_compiled", lambda dimension: False)
    monkeypatch.setattr(Team, "compile", lambda team, dimension: seen.append(file.exists()))
    assert result(run({})).status == "finished"
    assert (seen, file.exists()) == ([True], False)
    assert capsys.readouterr().out.splitlines()[0] == "compiling kernels (first run only)"


def test_usr1_saves_every_trial_and_trains_on(run, monkeypatch):
    """In one process, as in the ranks of a job, of which any may get it."""
    ask = partial(os.kill, os.getpid(), signal.SIGUSR1)
    on_nth_call(monkeypatch, Trainer, "train", 2, ask)
    rules = {"checkpoint.interval": 100, "checkpoint.keep_last": 9}
    job = run(rules, {**rules, "seed": 2})
    for trial in (0, 1):
        (step, last) = steps_of(job, trial)
        assert last == 12
        path = checkpoint.path_of(job.study.trial(trial).checkpoints, step)
        assert checkpoint.load(path).kind == "requested"


def test_a_request_is_met_for_the_trial_that_it_names(run, monkeypatch, tmp_path):
    study = StudyDir(tmp_path / "study")
    on_nth_call(monkeypatch, Trainer, "train", 2, lambda: study.trial(1).request_save())
    rules = {"checkpoint.interval": 100, "checkpoint.keep_last": 9}
    job = run(rules, {**rules, "seed": 2})
    assert steps_of(job, 0) == [12]
    (step, last) = steps_of(job, 1)
    assert last == 12
    folder = study.trial(1).checkpoints
    assert checkpoint.load(checkpoint.path_of(folder, step)).kind == "requested"
    assert not (study.trial(1).root / "save").exists()


def test_the_configuration_of_a_checkpoint_is_the_trials(run):
    job = run(SAVING)
    folder = job.study.trial(0).checkpoints
    saved = checkpoint.load(checkpoint.path_of(folder, 12)).config
    assert saved == yaml_file.load(job.study.trial(0).config)


# How long.


def test_no_member_trains_longer_than_its_steps(run, monkeypatch):
    """Not even if nothing else is due there, and the next look is far away."""
    monkeypatch.setattr(job_training, "STRIDE_SECONDS", 1e9)
    intervals = {"evaluation.interval": 8, "checkpoint.interval": 8, "monitor.interval": 100}
    job = run({**intervals, "steps": 11}, {**intervals, "steps": 13, "seed": 2})
    assert [(result(job, n).status, result(job, n).step) for n in (0, 1)] == [
        ("finished", 11),
        ("finished", 13),
    ]
    assert [steps_of(job, n)[-1] for n in (0, 1)] == [11, 13]


def test_a_stride_lasts_about_half_a_second(run, monkeypatch):
    """By the speed of the last one, where every training takes a quarter of a second."""
    ticks, train, made = count(step=0.25), Trainer.train, []
    clock = SimpleNamespace(perf_counter=lambda: next(ticks), monotonic=time.monotonic)
    monkeypatch.setattr(job_training, "time", clock)
    monkeypatch.setattr(Trainer, "train", lambda self, n: (made.append(n), train(self, n)))
    far = {"evaluation.interval": 100, "checkpoint.interval": 100, "monitor.interval": 100}
    run({**far, "steps": 20})
    assert made == [1, 2, 4, 8, 5]


# Ends.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_loss_above_max_loss_is_one_members_end(run, tmp_path, algorithm):
    wild = {
        "host.optim.args.lr": 30.0,
        "host.optim.lr_schedule.initial": 30.0,
    }
    others = [{"seed": 2, **SAVING}, {"seed": 3, **SAVING}]
    limit = {"monitor.max_loss": 5.0, "monitor.interval": 1}
    alone = run(
        *[{**other, **limit} for other in others], algorithm=algorithm, root=tmp_path / "alone"
    )
    first, other = ({**other, **limit} for other in others)
    job = run(first, {**SAVING, **wild, **limit}, other, algorithm=algorithm)
    ended = result(job, 1)
    assert (ended.status, ended.kind) == ("failed", "diverged")
    assert ended.step < 12
    assert "the loss host/loss is" in ended.message
    assert "monitor.max_loss" in ended.message
    for number, own in ((0, 0), (2, 1)):
        assert result(job, number).status == result(alone, own).status == "finished"
        assert result(job, number).metrics == result(alone, own).metrics
        for step in (2, 4, 8, 12):
            assert equal(tensors_of(job, number, step), tensors_of(alone, own, step))


ENDS = {
    "finished": ({}, lambda study: None),
    "pruned": (
        {},
        lambda study: [
            study.trial(number).control.write(Control(f"token-{number}-1", "pruned"))
            for number in (0, 1)
        ],
    ),
    "failed": ({"monitor.max_loss": 1e-12}, lambda study: None),
    "interrupted": ({}, lambda study: terminate()),
}


@pytest.mark.parametrize("status", ENDS)
def test_what_one_member_told_stays_if_another_cannot_tell_its_end(
    run, tmp_path, monkeypatch, status
):
    changes, act = ENDS[status]
    study = StudyDir(tmp_path / "study")
    on_nth_call(monkeypatch, Trainer, "train", 2, lambda: act(study))
    on_nth_call(monkeypatch, AttemptDir, "write_result", 2, full_disk)
    with pytest.raises(DiskError):
        run(changes, {**changes, "seed": 2})
    first, second = (study.trial(number).attempt(1).read_result() for number in (0, 1))
    assert (first.status, first.kind) == (status, "diverged" if status == "failed" else None)
    assert (second.status, second.kind) == ("failed", "disk")


def test_all_members_may_diverge(run):
    job = run(*[{"seed": seed, "monitor.max_loss": 1e-12} for seed in (1, 2)])
    assert {result(job, number).kind for number in (0, 1)} == {"diverged"}


def test_a_hang_is_every_members_end(run, monkeypatch, tmp_path, capsys):
    """The process ends at once, so what is told must have been written before."""
    codes, stuck = [], []

    def end(code):
        codes.append(code)
        raise Killed

    def hang():
        (training,) = stuck
        training._hang("no step for 5 seconds", "Thread 1: time.sleep(1000)")

    train_all = JobTraining._train_all
    monkeypatch.setattr(
        JobTraining, "_train_all", lambda self: stuck.append(self) or train_all(self)
    )
    monkeypatch.setattr(os, "_exit", end)
    on_nth_call(monkeypatch, Trainer, "train", 3, hang)
    with pytest.raises(Killed):
        run({"checkpoint.interval": 1}, {"checkpoint.interval": 1, "seed": 2})
    assert codes == [8]
    study = StudyDir(tmp_path / "study")
    for number in (0, 1):
        told = study.trial(number).attempt(1).read_result()
        assert (told.status, told.kind, told.message) == ("failed", "hung", "no step for 5 seconds")
        assert told.step == max(checkpoint.valid_steps(study.trial(number).checkpoints))
    printed = capsys.readouterr()
    assert "time.sleep(1000)" in printed.out
    assert "training failed (hung): no step for 5 seconds" in printed.err


@pytest.mark.parametrize(
    ("error", "ended"),
    [
        (RankLostError("rank 1 is gone"), None),  # the cluster may know why
        (RankLostError("rank 1: too much", "oom_host"), ("failed", "oom_host", 5)),
    ],
)
def test_an_error_is_told_unless_the_job_is_as_one_that_is_killed(prepared, error, ended):
    training, job = prepared
    training._slots.steps[0] = 5  # as last read
    training._fail(error)
    said = result(job)
    assert (said and (said.status, said.kind, said.step)) == ended


def test_a_rank_that_is_stuck_tells_it_of_its_members_while_they_train(prepared, monkeypatch):
    training, job = prepared
    group = training._slots.team.group = SimpleNamespace(on_stuck=None)
    lost = RankLostError("rank 1: too much", "oom_host")
    on_nth_call(monkeypatch, Trainer, "train", 2, lambda: (group.on_stuck(lost), die()))
    with pytest.raises(Killed):
        training.run()
    assert (result(job).kind, result(job).message) == ("oom_host", "rank 1: too much")
    assert group.on_stuck is None


HANG = """
import sys, time
from hpsearch.trainers.trainer import Trainer

original, calls = Trainer.{method}, []

def hang(self, *arguments, **options):
    calls.append(1)
    if len(calls) == {call}:
        with self.sections("rollout"):
            time.sleep(1000)
    return original(self, *arguments, **options)

Trainer.{method} = hang
from hpsearch.cluster.job_entry import train as work
work(sys.argv[1])
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("method", "section"), [("train", "in rollout"), ("evaluate", "in evaluation/rollout")]
)
def test_a_hang_ends_the_process_and_says_where(tmp_path, new_job, plain_config, method, section):
    rules = {"monitor.hang_timeout": 5.0, "checkpoint.interval": 1}
    job = new_job(tmp_path, [plain_config({**rules, "seed": seed}) for seed in (1, 2)])
    script = tmp_path / "hang.py"
    script.write_text(HANG.format(method=method, call=2))
    command = [sys.executable, str(script), str(job.root)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 8, done.stdout + done.stderr
    assert "time.sleep(1000)" in done.stdout
    for number in (0, 1):
        ended = result(job, number)
        assert (ended.status, ended.kind) == ("failed", "hung")
        assert section in ended.message
        assert ended.message in done.stderr
    assert steps_of(job)  # from which the next attempt goes on
    work(str(new_job(tmp_path, [plain_config({**rules, "seed": s}) for s in (1, 2)], 2).root))
    assert result(job, 0, attempt=2).status == "finished"


# A process of its own.


@pytest.mark.slow
def test_a_request_reaches_the_worker_of_a_study(tmp_path, new_job, plain_config):
    endless = {"steps": 10**8, "checkpoint.interval": 10**8, "evaluation.interval": 10**8}
    job = new_job(tmp_path, [plain_config(endless)])
    trial = job.study.trial(0)
    worker = subprocess.Popen(
        [sys.executable, "-c", RUN_JOB, str(job.root)], stdout=subprocess.DEVNULL
    )
    try:
        wait_until(lambda: job.study.heartbeat(0, 1) is not None, worker)
        ask = [sys.executable, "-m", "hpsearch.cli", "checkpoint", str(trial.root)]
        done = subprocess.run(ask, capture_output=True, text=True, check=True)
        assert str(trial.checkpoints) in done.stdout
        wait_until(lambda: list(checkpoint.valid_steps(trial.checkpoints)), worker)
        (step,) = checkpoint.valid_steps(trial.checkpoints)
        path = checkpoint.path_of(trial.checkpoints, step)
        assert checkpoint.load(path).kind == "requested"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(60) == 0
    finally:
        worker.kill()
        worker.wait()
    ended = result(job)
    assert ended.status == "interrupted"
    path = checkpoint.path_of(trial.checkpoints, ended.step)
    # Unless it has made no step since: what is saved already is not saved again.
    assert checkpoint.load(path).kind == ("requested" if ended.step == step else "preempted")
    assert job.study.heartbeat(0, 1).at > time.time() - 60 * SHORTEST_SECONDS


def wait_until(condition, process) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert process.poll() is None, "the process ended before its time"
        assert time.monotonic() < deadline, "waited too long"
        time.sleep(0.01)
