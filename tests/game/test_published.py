"""The numbers that are known of the scripted players, at 20 points in three coordinates."""

import pytest
import torch

from hpsearch.game import FusedGame, GameConfig, HostActionEncoder
from hpsearch.game.players import agent_player, host_player
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.trainers.published import RHOS


def rho(host: str, agent: str, num_points: int, num_games: int) -> float:
    """Return finished games per move, over the first game of each lane and at most 100 moves."""
    config = GameConfig(
        dimension=3,
        max_num_points=num_points,
        max_value=20,
        max_steps=100,
        reposition=True,
        reward="terminal",
    )
    keys = torch.tensor([derive_key("published", host, agent)])
    game = FusedGame(config, keys, num_games, "cpu", "cpu", observes=False)
    encoder = HostActionEncoder(3)
    noise = Stream(keys + 1, torch.zeros_like(keys))
    num_done = num_moves = 0
    for _ in range(100):
        first = game.starts == 0
        action = host_player(host)(game.points, noise.uniform(num_games))
        axis = agent_player(agent)(game.points, encoder.decode(action), noise.uniform(num_games))
        step = game.step(action, axis)
        num_done += int((step.done & first).sum())
        num_moves += int(first.sum())
    return num_done / num_moves


SCRIPTED = {
    ("zeillinger", "choose_first", 20): 0.079,
    ("zeillinger", "choose_last", 20): 0.081,
    ("zeillinger", "random", 20): 0.186,
    ("all_coord", "random", 20): 0.215,
    ("random", "random", 20): 0.166,
    ("zeillinger", "choose_first", 5): 0.147,
    ("zeillinger", "random", 5): 0.245,
}
TRAINED = {  # which are not available
    ("published DQN", "choose_first", 20): 0.050,
    ("published DQN", "random", 20): 0.175,
    ("published AlphaZero", "choose_first", 5): 0.14,
}


@pytest.mark.parametrize(("pair", "expected"), SCRIPTED.items(), ids=str)
def test_rho(pair, expected):
    assert rho(*pair, num_games=4000) == pytest.approx(expected, rel=0.06)


def test_ours_are_compared_with_what_was_published():
    known = {(row.host, row.agent, row.num_points): row.value for row in RHOS}
    assert known.items() <= (SCRIPTED | TRAINED).items()
    assert known.keys() >= TRAINED.keys()
