"""What an actor says of the rollouts that it plays; who learns from them stands elsewhere."""

import math
import time

import pytest
import torch

from hpsearch.trainers.acting import GAMES, STARTS, RolloutPlayer, Setup
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.ranks import ALONE


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_rollout_tells_by_which_weights_which_games_were_played_and_when(tiny_config, algorithm):
    config = tiny_config({"agent": "learn", "rollout_length": 3}, algorithm)
    learner, playing = build_trainer([config, config]), build_trainer([config, config])
    player = RolloutPlayer(playing)
    learner.train(2)
    games = {name: tensor.clone() for name, tensor in learner.rollouts.state().items()}
    weights = {name: tensor.clone() for name, tensor in learner.playing_state().items()}
    setup = Setup([config, config], ALONE, games, weights, 2, math.inf, math.inf)
    first = list[dict[str, torch.Tensor]]()
    for _ in range(2):  # the same again
        player.set_up(setup)
        began = time.time()
        played = player.play()
        assert (played.version, played.number) == (2, 0)
        assert began <= played.began < played.ended <= time.time()
        first.append({name: tensor.clone() for name, tensor in played.tensors.items()})
        assert player.play().number == 1
        assert playing.step.tolist() == [4, 4]  # by which exploration goes
    assert all(torch.equal(first[0][name], tensor) for name, tensor in first[1].items())
    player.take(7, weights)
    played = player.play()
    assert (played.version, played.number) == (7, 2)
    num_games = config.host.rollout_size + config.agent.rollout_size
    assert first[0][STARTS].shape == (2, 3, num_games)
    assert torch.equal(first[0][STARTS][:, 0], learner.fused_game.starts)
    assert first[0]["log_prob"].any() == (algorithm == "ppo")
    assert sum(name.startswith(GAMES) for name in first[0]) == len(games)
