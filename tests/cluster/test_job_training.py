"""A population's rules of going on, its observers, and the ends that are no fault of the code.

Kills stand in tests/cluster/test_worker.py; here they meet what configurations switch on.
"""

import dataclasses
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from functools import partial
from itertools import count
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from event_files import read_texts
from working import RUN_JOB, Killed, die, on_nth_call, terminate, work

from hpsearch import yaml_file
from hpsearch.cluster import job_training
from hpsearch.cluster.failures import RankLostError, StopFlag
from hpsearch.cluster.heartbeats import SHORTEST_SECONDS, Heartbeats
from hpsearch.cluster.job_training import JobTraining
from hpsearch.cluster.member import Member
from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.records import ActorHeartbeat, Control, RankHeartbeat, Span, Timeline
from hpsearch.cluster.study_dir import AttemptDir, StudyDir
from hpsearch.cluster.team import Team
from hpsearch.errors import ConflictError, CorruptError, DiskError
from hpsearch.files import read_json
from hpsearch.monitor.snapshot import JobPlace
from hpsearch.trainers import checkpoint
from hpsearch.trainers.actors import WorkSpan
from hpsearch.trainers.algorithms import build
from hpsearch.trainers.trainer import Trainer

METRIC = "rho/host/choose_first"
SAVING = {"checkpoint.interval": 2, "checkpoint.keep_last": 99}


def result(job, number=0, attempt=1):
    return job.study.trial(number).attempt(attempt).read_result()


def tensors_of(job, number: int, step: int) -> dict:
    folder = job.study.trial(number).checkpoints
    return checkpoint.load(checkpoint.path_of(folder, step)).tensors


def equal(tensors: dict, other: dict) -> bool:
    return tensors.keys() == other.keys() and all(
        torch.equal(tensors[name].view(torch.uint8), other[name].view(torch.uint8))
        if tensors[name].dim()
        else torch.equal(tensors[name], other[name])
        for name in tensors
    )


def steps_of(job, number: int = 0) -> list[int]:
    return sorted(checkpoint.valid_steps(job.study.trial(number).checkpoints))


def log_steps(job, number: int = 0) -> list[int]:
    lines = job.study.trial(number).training_log.read_text().splitlines()
    return [json.loads(line)["step"] for line in lines]


def full_disk():
    raise DiskError("the disk is full")


@pytest.fixture
def run(tmp_path, new_job, plain_config):
    """Return a function (changes of each member, algorithm, attempt) -> job that has run."""

    def run(*members, algorithm="dqn", attempt=1, root=tmp_path / "study"):
        job = new_job(root, [plain_config(member, algorithm) for member in members], attempt)
        work(str(job.root))
        return job

    return run


@pytest.fixture
def training(tmp_path, new_job, plain_config):
    """The training of a job of one trial, before it begins, and the job."""
    job = new_job(tmp_path, [plain_config()])
    members = [Member.open(job.study, given) for given in job.plan.required().assignments]
    place = JobPlace("study", job.name, job.textfile, job.traces)
    heartbeats, flag = Heartbeats(job.heartbeat, 2.0), StopFlag()
    return JobTraining(members, flag, place, heartbeats, job.timeline, Team(flag)), job


# Kinds.


def test_a_signal_leaves_a_preempted_checkpoint(run, monkeypatch):
    on_nth_call(monkeypatch, Trainer, "train", 3, terminate)
    job = run({"checkpoint.interval": 100})
    (step,) = steps_of(job)
    folder = job.study.trial(0).checkpoints
    state = json.loads((checkpoint.path_of(folder, step) / "state.json").read_text())
    assert (state["kind"], state["step"]) == ("preempted", step)
    assert (result(job).status, result(job).step) == ("interrupted", step)


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


# Going on.


def test_what_a_killed_attempt_left_is_removed_or_told_of(run, capsys):
    """A folder that was half-written goes, a damaged checkpoint stays for people to look at."""
    job = run({**SAVING, "steps": 4})
    folder = job.study.trial(0).checkpoints
    half_written, damaged = folder / f".step-000000006-{'0' * 32}", checkpoint.path_of(folder, 4)
    half_written.mkdir()
    (damaged / checkpoint.TENSORS).write_bytes(b"x")
    capsys.readouterr()
    run({**SAVING, "steps": 3}, attempt=2)
    assert f"the checkpoint {damaged} is damaged and left out\n" in capsys.readouterr().out
    assert not half_written.exists()
    assert steps_of(job) == [2, 3]


def test_never_removes_what_the_run_before_left(run):
    rules = {**SAVING, "checkpoint.best": METRIC, "monitor.training_log": True}
    whole = run(rules)
    before = {step: tensors_of(whole, 0, step) for step in steps_of(whole)}
    other = run(
        {
            **rules,
            "seed": 5,
            "steps": 6,
            "checkpoint.resume": "never",
            "evaluation.interval": 3,
            "max_value": 7,
        },
        attempt=2,
    )
    trial = other.study.trial(0)
    assert steps_of(other) == [2, 3, 4, 6]
    assert not any(equal(before[step], tensors_of(other, 0, step)) for step in (2, 4, 6))
    assert [row["step"] for row in trial.read_metrics()] == [3, 6]
    games = [json.loads(line) for line in trial.games.read_text().splitlines()]
    assert [row["step"] for row in games] == [3, 6]
    assert log_steps(other) == [2, 4, 6]
    assert result(other, attempt=2).status == "finished"


def test_never_forgets_the_best_of_the_run_before(run, monkeypatch):
    """Before, its value stood against the new run's, as soon as that had a checkpoint there."""
    with_values(monkeypatch, {4: 0.2, 8: 0.9, 10: 0.3, 12: 0.5})
    rules = {**SAVING, "checkpoint.best": METRIC}
    job = run(rules)
    assert checkpoint.read_best(job.study.trial(0).checkpoints).step == 8
    again = run(
        {**rules, "evaluation.interval": 10, "checkpoint.resume": "never"},
        attempt=2,
    )
    assert checkpoint.read_best(again.study.trial(0).checkpoints).step == 10


def test_must_needs_a_checkpoint(run, tmp_path, new_job, plain_config):
    rules = {**SAVING, "checkpoint.resume": "must"}
    with pytest.raises(ConflictError, match=r"checkpoint\.resume is must, but .* auto"):
        run(rules)
    ended = StudyDir(tmp_path / "study").trial(0).attempt(1).read_result()
    assert (ended.status, ended.step) == ("failed", 0)
    run({**SAVING, "steps": 6}, attempt=2)
    job = run(rules, attempt=3)
    assert (result(job, attempt=3).status, steps_of(job)[-1]) == ("finished", 12)


def test_auto_goes_on_bitwise_with_more_steps_and_other_measures(run, tmp_path):
    run({**SAVING, "steps": 6})
    later = {
        "steps": 12,
        "evaluation.num_games": 7,
        "evaluation.interval": 3,
        "checkpoint.seconds": 50.0,
        "monitor.interval": 5,
        "monitor.training_log": True,
    }
    on = run({**SAVING, **later}, attempt=2)
    whole = run(SAVING, root=tmp_path / "whole")
    assert result(on, attempt=2).status == "finished"
    assert equal(tensors_of(on, 0, 12), tensors_of(whole, 0, 12))
    assert log_steps(on) == [10]


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({"seed": 2}, "seed"),
        ({"max_value": 7}, "max_value"),
        ({"host.gamma": 0.8}, "host"),
        ({"reward": "step_penalty", "agent.player": "choose_last"}, "agent, reward"),
        ({"replay_buffer.save": False}, "replay_buffer"),
        ({"dqn.double": False, "rollout_length": 1}, "dqn, rollout_length"),
    ],
)
def test_a_key_that_trains_differently_is_refused_by_name(run, changes, names):
    job = run({**SAVING, "steps": 4})
    before = tensors_of(job, 0, 4)
    with pytest.raises(ConflictError, match=f"differs in {names};"):
        run({**SAVING, **changes}, attempt=2)
    assert equal(before, tensors_of(job, 0, 4))


# Warm starts.


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_warm_start_begins_with_the_networks_of_the_checkpoint(
    run, tmp_path, plain_config, tiny_config, algorithm
):
    source = run({**SAVING, "agent": "learn"}, algorithm=algorithm, root=tmp_path / "source")
    path = checkpoint.path_of(source.study.trial(0).checkpoints, 12)
    saved = checkpoint.load(path).tensors
    config = tiny_config({"seed": 9, "agent": "learn", "max_value": 9}, algorithm)
    trainer = build([config, config])
    fresh = build([config, config]).state()
    trainer.warm_start(path, 1)
    state = trainer.state()
    for role in ("host", "agent"):
        weights = saved[f"{role}.net.weights"]
        assert torch.equal(state[f"{role}.net.weights"][1], weights)
        if algorithm == "dqn":
            assert torch.equal(state[f"{role}.target_net.weights"][1], weights)
    changed = {name for name in state if not torch.equal(state[name][1], fresh[name][1])}
    assert all(".net." in name or ".target_net." in name for name in changed)
    assert all(torch.equal(state[name][0], fresh[name][0]) for name in state)


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_warm_start_is_for_step_0_alone(run, tmp_path, monkeypatch, algorithm):
    source = run({**SAVING, "seed": 7}, algorithm=algorithm, root=tmp_path / "source")
    path = checkpoint.path_of(source.study.trial(0).checkpoints, 12)
    warm = {**SAVING, "checkpoint.warm_start": str(path)}
    whole = run(warm, algorithm=algorithm, root=tmp_path / "whole")
    cold = run(SAVING, algorithm=algorithm, root=tmp_path / "cold")
    assert not equal(tensors_of(whole, 0, 2), tensors_of(cold, 0, 2))
    run({**warm, "steps": 4}, algorithm=algorithm)
    starts = on_nth_call(monkeypatch, Trainer, "warm_start", 1, die)
    on = run(warm, algorithm=algorithm, attempt=2)
    assert starts == []
    assert equal(tensors_of(on, 0, 12), tensors_of(whole, 0, 12))


def test_a_warm_start_that_does_not_fit_or_is_damaged_is_refused(run, tmp_path):
    source = run({**SAVING, "steps": 4}, root=tmp_path / "source")
    path = checkpoint.path_of(source.study.trial(0).checkpoints, 4)
    for number, (changes, sentence) in enumerate(
        (
            ({"host.net_arch": [9]}, "same structure, but those of the host"),
            ({"max_num_points": 5}, "max_num_points=[0-9]+ instead of 5"),
            ({"agent": "learn"}, "the agent of the checkpoint .* is no learned player"),
            ({"checkpoint.warm_start": str(tmp_path / "x")}, "there is no checkpoint at .*x"),
        )
    ):
        warm = {**SAVING, "checkpoint.warm_start": str(path), **changes}
        with pytest.raises(ConflictError, match=sentence):
            run(warm, root=tmp_path / str(number))
    (path / "state.json").write_text("{}")
    with pytest.raises(CorruptError, match=path.name):
        run({**SAVING, "checkpoint.warm_start": str(path)})


# The best checkpoint.


def with_values(monkeypatch, values: dict[int, float]) -> None:
    """Let every member measure ``values`` by step."""
    original = Trainer.evaluate

    def evaluate(self, **options):
        evaluations = original(self, **options)
        for member, (evaluation, step) in enumerate(
            zip(evaluations, self.step.tolist(), strict=True)
        ):
            own = {METRIC: dataclasses.replace(evaluation.metrics[METRIC], value=values[step])}
            evaluations[member] = dataclasses.replace(
                evaluation, metrics={**evaluation.metrics, **own}
            )
        return evaluations

    monkeypatch.setattr(Trainer, "evaluate", evaluate)


def test_the_best_outlives_newer_ones(run, monkeypatch):
    with_values(monkeypatch, {2: 0.1, 4: 0.7, 6: 0.2, 8: 0.7, 10: 0.6, 12: 0.3})
    rules = {"checkpoint.interval": 3, "evaluation.interval": 2, "checkpoint.best": METRIC}
    job = run(rules)
    folder = job.study.trial(0).checkpoints
    assert read_json(folder / "best.json") == {"step": 4, "metric": METRIC, "value": 0.7}
    assert steps_of(job) == [4, 9, 12]
    kinds = [checkpoint.load(checkpoint.path_of(folder, step)).kind for step in steps_of(job)]
    assert kinds == ["best", "periodic", "final"]


@pytest.mark.parametrize("owner", [checkpoint, RecordFile])
def test_killed_before_any_write_the_best_is_the_same(
    run, tmp_path, new_job, plain_config, monkeypatch, owner
):
    """Before, a kill between the best checkpoint and its record lost it for ever."""
    values = {2: 0.1, 4: 0.7, 6: 0.2, 8: 0.9, 10: 0.6, 12: 0.3}
    rules = {"checkpoint.interval": 5, "evaluation.interval": 2, "checkpoint.best": METRIC}
    name = "flush" if owner is checkpoint else "write"
    for n in range(1, 40):
        root = tmp_path / str(n)
        with_values(monkeypatch, values)
        on_nth_call(monkeypatch, owner, name, n, die)
        killed = False
        try:
            run(rules, root=root)
        except Killed:
            killed = True
        monkeypatch.undo()
        with_values(monkeypatch, values)
        job = run(rules, root=root, attempt=2)
        monkeypatch.undo()
        folder = job.study.trial(0).checkpoints
        assert read_json(folder / "best.json") == {"step": 8, "metric": METRIC, "value": 0.9}, n
        assert steps_of(job) == [8, 10, 12], n
        if not killed:
            return
    raise AssertionError("the last call was never reached")


def test_a_save_that_fails_leaves_the_best_so_far(run, tmp_path, monkeypatch):
    with_values(monkeypatch, {2: 0.1, 4: 0.7, 6: 0.2, 8: 0.9, 10: 0.6, 12: 0.3})
    rules = {"checkpoint.interval": 5, "evaluation.interval": 2, "checkpoint.best": METRIC}
    folder = StudyDir(tmp_path / "study").trial(0).checkpoints
    on_nth_call(monkeypatch, checkpoint, "write_tensors", 4, full_disk)  # of the steps 2, 4, 5, 8
    with pytest.raises(DiskError):
        run(rules)
    assert checkpoint.read_best(folder).step == 4
    on_nth_call(monkeypatch, Trainer, "train", 1, die)
    with pytest.raises(Killed):
        run(rules, attempt=2)
    assert checkpoint.read_best(folder).step == 4
    assert {path.name for path in folder.glob("*.json")} == {"best.json"}


def test_what_is_made_again_after_a_common_step_replaces_the_best(run, tmp_path, monkeypatch):
    """A member goes back to the newest step that all have, and may measure something else there."""
    study = StudyDir(tmp_path / "study")
    with_values(monkeypatch, {2: 0.1, 4: 0.2, 6: 0.7})
    rules = {**SAVING, "evaluation.interval": 2, "checkpoint.best": METRIC}
    members = [{**rules, "replay_buffer.save": False, "seed": seed} for seed in (1, 2)]
    on_nth_call(monkeypatch, Trainer, "evaluate", 4, die)
    with pytest.raises(Killed):
        run(*members)
    shutil.rmtree(checkpoint.path_of(study.trial(1).checkpoints, 6))
    monkeypatch.undo()
    on_nth_call(monkeypatch, Trainer, "train", 1, die)
    with pytest.raises(Killed):
        run(*members, attempt=2)
    folder = study.trial(0).checkpoints
    assert list(checkpoint.valid_steps(folder)) == [4, 2]
    assert checkpoint.read_best(folder) is None


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
        (ZeroDivisionError("division"), ("failed", "code", 5)),
    ],
)
def test_an_error_is_told_unless_the_job_is_as_one_that_is_killed(training, error, ended):
    told, job = training
    told._slots.steps[0] = 5  # as last read
    told._fail(error)
    said = result(job)
    assert (said and (said.status, said.kind, said.step)) == ended


def test_a_rank_that_is_stuck_tells_it_of_its_members_while_they_train(training, monkeypatch):
    told, job = training
    group = told._slots.team.group = SimpleNamespace(on_stuck=None)
    lost = RankLostError("rank 1: too much", "oom_host")
    on_nth_call(monkeypatch, Trainer, "train", 2, lambda: (group.on_stuck(lost), die()))
    with pytest.raises(Killed):
        told.run()
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


# Observers.


def test_actors_are_counted_by_their_states(training):
    told, _ = training
    team = told._slots.team
    assert told._actors_by_state() == {}
    states = (["running", "stopped"], [], ["running"])
    team.heartbeats = [
        RankHeartbeat("here", 8, 0.0, tuple(ActorHeartbeat(state, 0, 0, 0) for state in of_rank))
        for of_rank in states
    ]
    assert told._actors_by_state() == {
        "actors_running": 2.0, "actors_require_sync": 0.0, "actors_waiting_sync": 0.0,
        "actors_stopped": 1.0,
    }  # fmt: skip


def test_the_timeline_is_written_every_so_many_seconds(training, monkeypatch):
    told, job = training
    file = job.timeline
    clock, games = SimpleNamespace(now=1000.0), SimpleNamespace(recent=[])
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(job_training, "time", clock)
    told._slots.team.built = SimpleNamespace(actor_games=None)
    told._write_timeline()
    told._slots.team.built.actor_games = games
    told._write_timeline()
    assert file.read() is None  # there is nothing to tell
    games.recent.append(WorkSpan(None, 3, 50.0, 51.0))
    told._write_timeline()
    learned, played = Span("learner", 3, 50.0, 51.0), Span("actor 1", 2, 51.0, 53.0)
    assert file.required() == Timeline((learned,))
    games.recent.append(WorkSpan(1, 2, 51.0, 53.0))
    for seconds, expected in ((9.5, (learned,)), (0.5, (learned, played))):
        clock.now += seconds
        told._write_timeline()
        assert file.required() == Timeline(expected)


OBSERVED = {
    "monitor.training_log": True,
    "monitor.tensorboard": True,
    "monitor.layer_statistics": True,
    "monitor.timings": True,
    "monitor.prometheus": {"textfile": True, "port": None},
    "monitor.interval": 2,
    "checkpoint.interval": 3,
    "checkpoint.keep_last": 9,
}


def test_snapshots_are_of_whole_intervals_and_know_the_speed(run):
    rules = {"monitor.training_log": True, "monitor.interval": 2, "evaluation.interval": 100}
    job = run({**rules, "steps": 4})
    assert log_steps(job) == [2, 4]
    lines = map(json.loads, job.study.trial(0).training_log.read_text().splitlines())
    assert all(line["job"]["steps_per_second"] > 0 for line in lines)


def test_a_job_says_that_it_lives_before_it_trains(run, tmp_path, monkeypatch):
    """Where its first steps take long, the driver would believe that it never began."""
    heartbeat, said = StudyDir(tmp_path / "study").job("job-1").heartbeat, []
    on_nth_call(monkeypatch, Trainer, "train", 1, lambda: said.append(heartbeat.try_read()))
    run({"steps": 2}, {"steps": 2, "seed": 2})
    (first,) = said
    assert [(member.trial, member.step, member.saved) for member in first.members] == [
        (0, 0, 0),
        (1, 0, 0),
    ]
    assert not first.is_busy


def test_observers_of_a_job_that_was_killed_again_and_again(
    tmp_path, run, new_job, plain_config, monkeypatch
):
    members = [{**OBSERVED, "seed": seed} for seed in (1, 2)]
    whole = run(*members, root=tmp_path / "whole")
    attempt, seen = 1, []
    while True:
        job = new_job(tmp_path / "killed", [plain_config(member) for member in members], attempt)
        on_nth_call(monkeypatch, Trainer, "train", 5, die)
        original = Trainer.evaluate
        monkeypatch.setattr(
            Trainer,
            "evaluate",
            lambda *a, job=job, original=original, **k: (
                seen.append(job.textfile.read_text()),
                original(*a, **k),
            )[1],
        )
        try:
            work(str(job.root))
            break
        except Killed:
            attempt += 1
            assert attempt < 12
        finally:
            monkeypatch.undo()
        assert not job.textfile.exists()
    assert attempt > 2
    assert seen
    assert all('trial="trial 1"' in text for text in seen[3:])
    for number in (0, 1):
        assert log_steps(job, number) == log_steps(whole, number) == [2, 4, 6, 8, 10, 12]
        assert equal(tensors_of(job, number, 12), tensors_of(whole, number, 12))
        scalars = read_scalars(job.study.trial(number).tensorboard)
        assert [step for step, _ in scalars["host/loss"]] == [2, 4, 6, 8, 10, 12]
        assert dict(scalars["host/loss"]) == pytest.approx(logged(job, number), rel=1e-6)
        games = read_texts(job.study.trial(number).tensorboard)
        steps = [row["step"] for row in job.study.trial(number).read_metrics()]
        assert [step for step, _ in games["games/host"]] == steps
        assert games == read_texts(whole.study.trial(number).tensorboard)


def logged(job, number):
    lines = map(json.loads, job.study.trial(number).training_log.read_text().splitlines())
    return {line["step"]: line["scalars"]["host/loss"] for line in lines}


def read_scalars(folder):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of the reader's own imports
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
    events = EventAccumulator(str(folder))
    events.Reload()
    return {
        tag: [(event.step, event.value) for event in events.Scalars(tag)]
        for tag in events.Tags()["scalars"]
    }


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_observing_changes_no_number(run, tmp_path, algorithm):
    seen = run(OBSERVED, algorithm=algorithm, root=tmp_path / "seen")
    blind = run({"checkpoint.interval": 3}, algorithm=algorithm, root=tmp_path / "blind")
    assert equal(tensors_of(seen, 0, 12), tensors_of(blind, 0, 12))
    assert result(seen).metrics == result(blind).metrics


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_the_games_behind_the_curve_add_up(run, algorithm):
    job = run(
        {"agent": "learn", "evaluation.num_games": 33},
        {"agent": "learn", "seed": 2, "evaluation.num_games": 33},
        algorithm=algorithm,
    )
    for number in (0, 1):
        trial = job.study.trial(number)
        rows = [json.loads(line) for line in trial.games.read_text().splitlines()]
        curve = list(trial.read_metrics())
        assert [row["step"] for row in rows] == [row["step"] for row in curve] == [4, 8, 12]
        for row, measured in zip(rows, curve, strict=True):
            pooled = {}
            assert row["games"].keys() == measured["metrics"].keys()
            for name, games in row["games"].items():
                rho = measured["metrics"][name]
                lengths = np.array(games["lengths"])
                assert lengths.sum() + games["unfinished"] == 33 == rho["games"]
                assert games["unfinished"] / 33 == pytest.approx(rho["capped"])
                moves = np.arange(len(lengths)) @ lengths + 10 * games["unfinished"]
                assert 33 / moves == pytest.approx(rho["value"])
                assert sum(games["actions"]) == moves
                mode, role, _ = name.split("/")
                entropy = f"{mode.replace('rho', 'entropy')}/{role}"
                pooled.setdefault(entropy, []).append(games["actions"])
            assert measured["entropies"].keys() == pooled.keys()
            for name, actions in pooled.items():
                share = np.sum(actions, axis=0) / np.sum(actions)
                expected = -np.sum(share[share > 0] * np.log(share[share > 0]))
                assert measured["entropies"][name] == pytest.approx(expected, abs=1e-12)
                assert measured["entropies"][name] <= math.log(len(share)) + 1e-12


def test_the_configuration_of_a_checkpoint_is_the_trials(run):
    job = run(SAVING)
    folder = job.study.trial(0).checkpoints
    saved = checkpoint.load(checkpoint.path_of(folder, 12)).config
    assert saved == yaml_file.load(job.study.trial(0).config)
