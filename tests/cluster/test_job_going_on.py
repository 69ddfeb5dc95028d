"""How a job goes on: by which rules, from a warm start, and what becomes of the best checkpoint."""

import dataclasses
import shutil

import pytest
import torch
from job_runs import METRIC, SAVING, equal, full_disk, log_steps, result, steps_of, tensors_of
from working import Killed, die, on_nth_call

from hpsearch.cluster.record_files import RecordFile
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.errors import ConflictError, CorruptError, DiskError
from hpsearch.files import read_json
from hpsearch.trainers import checkpoint
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.trainer import Trainer


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
    trainer = build_trainer([config, config])
    fresh = build_trainer([config, config]).state()
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
