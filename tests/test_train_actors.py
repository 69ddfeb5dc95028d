"""hpsearch train where actors play, as a user meets it."""

import signal
from dataclasses import replace

import psutil
import pytest
import torch
from cli_tools import refused
from fake_actors import FIXED
from test_train import LONG, Training, tensors, train, write

from hpsearch.cluster.study_dir import TrialDir
from hpsearch.schema import to_plain
from hpsearch.trainers import checkpoint

__all__ = ["train", "write"]

ACTORS = {**LONG, "shards": 2, "rollouts": to_plain(FIXED)}


def test_actors_that_cannot_share_the_games_out_are_refused(write):
    words = ("--ranks", "2", "shards=2")
    assert "2 ranks of 2 actors each must divide the key shards=2" in refused(
        write(ACTORS), "train", "mine.yaml", *words, code=2
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("algorithm", "method", "number"),
    [("dqn", "memory", signal.SIGINT), ("ppo", "checkpoint", signal.SIGKILL)],
)
def test_in_step_they_end_as_one_process_also_if_interrupted(
    write, train, algorithm, method, number
):
    how = to_plain(replace(FIXED, sync_method=method))
    folder = write({**ACTORS, "rollouts": how}, algorithm)
    assert train("--name", "whole", "rollouts={mode: inline}")[0] == 0
    trial = TrialDir(folder / "runs/mine")
    with Training(folder) as training:
        training.wait_until(lambda: next(checkpoint.valid_steps(trial.checkpoints), 0) > 0)
        actors = psutil.Process(training.process.pid).children()
        (rank,) = trial.heartbeat.required().ranks
        assert len(rank.actors) == 2
        code, output = training.end(number)
    assert code == (130 if number == signal.SIGINT else -number), output
    _, alive = psutil.wait_procs(actors, timeout=10)
    assert not alive
    assert trial.weights.exists() == (method == "checkpoint" and number == signal.SIGKILL)
    assert train()[0] == 0
    assert not trial.weights.exists()
    assert {span.process for span in trial.timeline.required().spans} == {
        *("learner", "actor 0", "actor 1")
    }
    whole, mine = tensors(folder, "whole"), tensors(folder, "mine")
    assert whole.keys() == mine.keys()
    for name, tensor in whole.items():
        torch.testing.assert_close(tensor, mine[name], rtol=1e-3, atol=1e-4, msg=name)
