"""What a job says of its training while it trains, which changes nothing of it."""

import json
import math
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from event_files import read_texts
from job_runs import equal, log_steps, result, tensors_of
from working import Killed, die, on_nth_call, work

from hpsearch.cluster import job_training
from hpsearch.cluster.records import ActorHeartbeat, RankHeartbeat, Span, Timeline
from hpsearch.cluster.study_dir import StudyDir
from hpsearch.trainers.actors import WorkSpan
from hpsearch.trainers.trainer import Trainer


def test_actors_are_counted_by_their_states(prepared):
    training, _ = prepared
    team = training._slots.team
    assert training._actors_by_state() == {}
    states = (["running", "stopped"], [], ["running"])
    team.heartbeats = [
        RankHeartbeat("here", 8, 0.0, tuple(ActorHeartbeat(state, 0, 0, 0) for state in of_rank))
        for of_rank in states
    ]
    assert training._actors_by_state() == {
        "actors_running": 2.0, "actors_require_sync": 0.0, "actors_waiting_sync": 0.0,
        "actors_stopped": 1.0,
    }  # fmt: skip


def test_the_timeline_is_written_every_so_many_seconds(prepared, monkeypatch):
    training, job = prepared
    file = job.timeline
    clock, games = SimpleNamespace(now=1000.0), SimpleNamespace(recent=[])
    clock.monotonic = lambda: clock.now
    monkeypatch.setattr(job_training, "time", clock)
    training._slots.team.built = SimpleNamespace(actor_games=None)
    training._write_timeline()
    training._slots.team.built.actor_games = games
    training._write_timeline()
    assert file.read() is None  # there is nothing to tell
    games.recent.append(WorkSpan(None, 3, 50.0, 51.0))
    training._write_timeline()
    learned, played = Span("learner", 3, 50.0, 51.0), Span("actor 1", 2, 51.0, 53.0)
    assert file.required() == Timeline((learned,))
    games.recent.append(WorkSpan(1, 2, 51.0, 53.0))
    for seconds, expected in ((9.5, (learned,)), (0.5, (learned, played))):
        clock.now += seconds
        training._write_timeline()
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
        curve = list(trial.read_metrics())
        assert [row["step"] for row in curve] == [4, 8, 12]
        rows = [json.loads(line) for line in trial.metrics.read_text().splitlines()]
        for row, measured in zip(rows, curve, strict=True):
            pooled, played = {}, row.pop("played")
            assert row == measured
            assert played.keys() == measured["metrics"].keys()
            for name, games in played.items():
                rho = measured["metrics"][name]
                lengths = np.array(games["lengths"])
                assert lengths.sum() + games["unfinished"] == 33 == rho["games"]
                assert games["unfinished"] / 33 == pytest.approx(rho["capped"])
                moves = np.arange(len(lengths)) @ lengths + 10 * games["unfinished"]
                assert 33 / moves == pytest.approx(rho["value"])
                actions = np.zeros(4 if "/host/" in name else 3, dtype=int)
                for action, count in games["actions"].items():
                    actions[int(action)] = count
                assert actions.sum() == moves
                mode, role, _ = name.split("/")
                entropy = f"{mode.replace('rho', 'entropy')}/{role}"
                pooled.setdefault(entropy, []).append(actions)
            assert measured["entropies"].keys() == pooled.keys()
            for name, actions in pooled.items():
                share = np.sum(actions, axis=0) / np.sum(actions)
                expected = -np.sum(share[share > 0] * np.log(share[share > 0]))
                assert measured["entropies"][name] == pytest.approx(expected, abs=1e-12)
                assert measured["entropies"][name] <= math.log(len(share)) + 1e-12
