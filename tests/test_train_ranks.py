"""hpsearch train --ranks, as a user meets it."""

import os
import shutil
import signal
import time

import psutil
import pytest
import torch
from cli_tools import refused
from test_train import LONG, Training, tensors, train, write
from tried import tried

from hpsearch.cluster.study_dir import TrialDir
from hpsearch.trainers import checkpoint

__all__ = ["train", "write"]

SHARDED = {**LONG, "shards": 2}
ENDING_SECONDS = 30.0
"""in which a rank that is lost ends all"""


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--ranks", "3", "shards=2"), "--ranks must divide the key shards=2"),
        (("--ranks", "2"), "add shards=2 to the command"),
        (
            ("--ranks", "2", "shards=2", "device=cuda"),
            "each rank needs a GPU of its own, but this machine has 0 GPUs for --ranks 2",
        ),
    ],
)
def test_ranks_that_cannot_train_are_refused(write, monkeypatch, words, says):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert says in refused(write(), "train", "mine.yaml", *words, code=2)


@pytest.mark.parametrize("algorithm", tried(["dqn", "ppo"], slow=["dqn"]))
def test_two_ranks_end_as_one_also_if_interrupted(write, train, algorithm):
    """Interrupted, a run goes on with fewer ranks and comes to the same to rounding."""
    folder = write(SHARDED, algorithm)
    assert train("--name", "whole")[0] == 0
    trial = TrialDir(folder / "runs/mine")
    with Training(folder, "--ranks", "2") as training:
        training.wait_until(lambda: trial.metrics.exists())
        code, output = training.end(signal.SIGINT)
    assert code == 130, output
    step = next(checkpoint.valid_steps(trial.checkpoints))
    assert f"interrupted at step {step} of 300 and saved; the same command goes on\n" in output
    assert train()[0] == 0
    whole, mine = tensors(folder, "whole"), tensors(folder, "mine")
    assert whole.keys() == mine.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(tensor, mine[name], rtol=1e-3, atol=1e-4, msg=name)


@pytest.mark.exhaustive
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch, from its own compiler
@pytest.mark.parametrize(
    ("algorithm", "words"),
    [("dqn", ()), ("dqn", ("host.net_arch=[r16]", "host.optim.args.eps=1e-4")), ("ppo", ())],
)
def test_ranks_train_what_is_compiled(write, train, algorithm, words):
    """Batch norms call the other ranks, which no compiled program does."""
    folder = write({**SHARDED, "steps": 12, "compile": "default"}, algorithm)
    for ranks in ("1", "2"):
        assert train(*words, "--ranks", ranks, "--name", ranks)[0] == 0
    for name, tensor in tensors(folder, "1").items():
        torch.testing.assert_close(tensors(folder, "2")[name], tensor, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("who", "how"),
    [
        pytest.param("first", signal.SIGKILL, marks=pytest.mark.slow),
        pytest.param("first", signal.SIGSTOP, marks=pytest.mark.exhaustive),
        pytest.param("other", signal.SIGKILL, marks=pytest.mark.exhaustive),
        pytest.param("other", signal.SIGSTOP, marks=pytest.mark.slow),
    ],
)
def test_a_lost_rank_ends_all_and_the_same_command_goes_on(write, train, who, how):
    folder = write({**SHARDED, "steps": 10**6})
    trial = TrialDir(folder / "runs/mine")
    with Training(folder, "--ranks", "2") as training:
        training.wait_until(lambda: any(checkpoint.valid_steps(trial.checkpoints)))
        first = psutil.Process(training.process.pid)
        (other,) = first.children()
        lost, left = (first, other) if who == "first" else (other, first)
        os.kill(lost.pid, how)
        began = time.monotonic()
        while left.is_running() and left.status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() - began < ENDING_SECONDS
            time.sleep(0.1)
        code, output = training.end(signal.SIGKILL)
    if who == "other":
        assert code == 8
        gone = "the process of rank 1 ended"
        says = gone if how == signal.SIGKILL else "rank 1 has given no heartbeat for 12 s"
        assert says in output
        assert not other.is_running()
    newest = next(checkpoint.valid_steps(trial.checkpoints))
    assert train(f"steps={newest + 2}")[1].startswith(f"mine goes on from step {newest}\n")


@pytest.mark.slow
def test_a_rank_that_ends_before_it_has_met_the_others_ends_all(write):
    with Training(write(SHARDED), "--ranks", "2") as training:
        first = psutil.Process(training.process.pid)
        training.wait_until(lambda: first.children())
        first.children()[0].kill()
        code, output = training.process.wait(ENDING_SECONDS), training.end(signal.SIGKILL)[1]
    assert (code, "hpsearch: the process of rank 1 ended" in output) == (8, True)


@pytest.mark.slow
def test_games_end_two_ranks_with_the_step_that_ends_one(write, train):
    folder = write(SHARDED, "dqn")
    ends = []
    for ranks in ("1", "2"):
        assert train("--name", ranks, "--ranks", ranks, "end.games=400")[0] == 0
        (attempt,) = TrialDir(folder / "runs" / ranks).attempts
        ended = attempt.read_result()
        ends.append((ended.status, ended.step, ended.ended_by, ended.message))
    assert ends[0] == ends[1]
    assert (ends[0][0], ends[0][2]) == ("finished", "games")
    assert ends[0][1] < 300
