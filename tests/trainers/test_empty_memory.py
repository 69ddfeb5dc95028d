"""Updates that are made while there is nothing to learn from leave no trace in the memory."""

import pytest
import torch

from hpsearch.trainers.algorithms import build_trainer

PRIORITISED = {"alpha": 0.5, "beta": 0.5, "beta_steps": 4, "eps": 0.1}


@pytest.fixture
def trainer(tiny_config):
    """A step of it is one move, of which no other one is known to follow."""
    changes = {"rollout_length": 1, "replay_buffer.prioritised": PRIORITISED}
    return build_trainer([tiny_config({**changes, "seed": seed}) for seed in (1, 2)])


def drawable(buffer) -> torch.Tensor:
    """Return which places hold a move that another one follows, bool (P, R)."""
    num_members, num_places = buffer.state()["done"].shape
    expected = torch.zeros(num_members, num_places, dtype=torch.bool)
    for member, added in enumerate(buffer.added.tolist()):
        last = added - 8  # of each of 8 games the newest
        for move in range(max(0, last - buffer.size), last):
            expected[member, move % num_places] = True
    return expected


def test_only_moves_that_are_there_can_be_drawn(trainer):
    buffer = trainer.host_replay_buffer
    for step in range(12):
        if step == 9:
            trainer.replace_reward_func("step_penalty")  # which forgets all moves
        trainer.train(1)
        assert torch.equal(buffer.state()["priority"] > 0, drawable(buffer))
    assert drawable(buffer).any(dim=1).all()


def test_statistics_follow_nothing_while_nothing_is_there(tiny_config):
    changes = {"rollout_length": 1, "host.net_arch": ["b", 8], "learning_starts": 0}
    trainer = build_trainer([tiny_config(changes)])
    before = [tensor.clone() for tensor in trainer.host_net.state().values()]
    trainer.train(1)
    assert all(map(torch.equal, before, trainer.host_net.state().values()))
    trainer.train(1)
    assert not any(map(torch.equal, before, trainer.host_net.state().values()))
