"""The baselines of the trainers compute what the trainers compute: losses, gradients, weights."""

from pathlib import Path

import pytest
import torch
from configurations import dqn_config, ppo_config
from plain import see
from plain_dqn import Memory, PlainDQN
from plain_ppo import Moves, PlainPPO, Rollout
from torch import nn

from hpsearch import yaml_file
from hpsearch.schema import leaves
from hpsearch.trainers.config import MAY_CHANGE, read_config
from hpsearch.trainers.dqn import DQNTrainer
from hpsearch.trainers.ppo import PPOTrainer, _as_it_went_on, normalized
from hpsearch.trainers.ranks import ALONE
from hpsearch.trainers.rollouts import Transitions, stack

TRAINERS = Path(__file__).parents[2] / "studies/trainers"
CLIPS = pytest.mark.parametrize("max_grad_norm", [1e-3, 1e3])


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-6)


def clipped(gradients: torch.Tensor, max_grad_norm: float) -> torch.Tensor:
    """Return gradients (1, W) as torch.nn.utils.clip_grad_norm_ leaves them."""
    norm = gradients.square().sum().sqrt()
    return gradients * min(1.0, max_grad_norm / (norm.item() + 1e-6))


def same_as_ours(net: nn.Module, learner, tower: str, max_grad_norm: float) -> None:
    """Compare weights and the gradients of the last update, which were clipped."""
    weights = learner.net.parts(learner.net.weights)
    gradients = learner.net.parts(clipped(learner.gradients, max_grad_norm))
    linears = [module for module in net.modules() if isinstance(module, nn.Linear)]
    for index, linear in enumerate(linears):
        for name, own in linear.named_parameters():
            key = f"{tower}{index}.{name}"
            close(own.grad, gradients[key][0].T.reshape_as(own))
            close(own.detach(), weights[key][0].T.reshape_as(own))


@CLIPS
def test_an_update_of_dqn(max_grad_norm):
    changes = {
        "learning_starts": 0,
        "replay_buffer": {"buffer_size": 500, "save": True, "prioritised": None},
    }
    config = dqn_config(changes, {"max_grad_norm": max_grad_norm, "batch_size": 64})
    trainer = DQNTrainer([config])
    learner = trainer.host
    moves = [seen for (seen,) in trainer.rollouts.play(3, looks_ahead=False)]
    for seen in moves:
        learner.replay_buffer.add(seen)
    learner.target_net.weights.mul_(0.9)
    (batch,) = learner.replay_buffer.sample(
        1, batch_size=64, n_step=1, gamma=learner.gamma, step=trainer.step
    )
    plain = PlainDQN(config)
    plain.take_over(trainer)
    # Of 768 moves, the last 500 that another one follows; they lie where they were written first.
    places = batch.places[0]
    assert 12 <= places.min() <= places.max() < 512
    seen = Transitions(*(torch.cat(parts, dim=1)[:, places] for parts in zip(*moves, strict=True)))
    assert not seen.truncated.any()
    loss = plain.update(
        Memory(
            see(seen.points[0], 8),
            seen.action[0],
            seen.reward[0],
            see(seen.next_points[0], 8),
            seen.done[0],
        )
    )
    trainer._update(learner, batch, learner.lr_scheduler(trainer.step), None)
    assert seen.done.any()
    close(loss, learner.statistics["loss"][0])
    same_as_ours(plain.net, learner, "", max_grad_norm)


@CLIPS
def test_an_update_of_ppo(max_grad_norm):
    changes = {"rollout_length": 8}
    config = ppo_config(changes, {"max_grad_norm": max_grad_norm, "rollout_size": 256})
    trainer = PPOTrainer([config])
    trainer.train(1)  # the policy that learns is no more the one that played
    learner = trainer.host
    learner.optimizer.forget()
    played = stack([seen for (seen,) in trainer.rollouts.play(8, looks_ahead=True)])
    moves = trainer._moves(trainer.roles.groups[0], _as_it_went_on(played))
    moves = moves._replace(log_prob=moves.log_prob + 0.3 * torch.randn_like(moves.log_prob))
    plain = PlainPPO(config)
    plain.take_over(trainer)
    parts = (moves.action, moves.log_prob, moves.advantage, moves.target)
    loss = plain.update(Moves(see(played.points[0].flatten(0, 1), 8), *(part[0] for part in parts)))
    active = torch.ones(1, dtype=torch.bool)
    advantage = normalized(moves.advantage, ALONE)
    moves = moves._replace(advantage=advantage)
    trainer._update(learner, moves, active, learner.lr_scheduler(trainer.step))
    assert learner.statistics["clipped"] > 0
    close(loss, learner.statistics["loss"][0])
    same_as_ours(plain.policy, learner, "0.", max_grad_norm)
    same_as_ours(plain.value, learner, "1.", max_grad_norm)


def test_advantages_of_ppo():
    config = ppo_config({"max_steps": 3}, {"rollout_size": 64})
    trainer = PPOTrainer([config])
    plain = PlainPPO(config)
    plain.take_over(trainer)
    moves = trainer.rollouts.play(config.rollout_length, looks_ahead=True)
    played = stack([seen for (seen,) in moves])
    moves = trainer._moves(trainer.roles.groups[0], _as_it_went_on(played))
    rollout = [
        see(played.points[0].flatten(0, 1), 8).unflatten(0, (-1, 64)),
        played.action[0],
        moves.log_prob[0].unflatten(0, (-1, 64)),
        played.reward[0],
        see(played.next_points[0].flatten(0, 1), 8).unflatten(0, (-1, 64)),
        played.done[0],
        played.truncated[0],
    ]
    plain_moves = plain.moves(Rollout(*rollout))
    assert played.truncated.any()
    close(plain_moves.advantage, moves.advantage[0])
    close(plain_moves.target, moves.target[0])


def test_both_learn_in_a_loop():
    dqn = PlainDQN(dqn_config({"learning_starts": 0}, {}))
    ppo = PlainPPO(ppo_config({}, {"rollout_size": 64}))
    for plain, net in ((dqn, dqn.net), (ppo, ppo.policy)):
        before = nn.utils.parameters_to_vector(net.parameters()).clone()
        plain.train(3)
        assert not torch.equal(nn.utils.parameters_to_vector(net.parameters()), before)


@pytest.mark.parametrize(
    ("config", "name"),
    [(dqn_config({}, {}), "choose_first"), (ppo_config({}, {}), "ppo_20x3")],
    ids=["dqn", "ppo"],
)
def test_configurations_are_those_that_are_shipped(config, name):
    path = TRAINERS / f"{name}.yaml"
    shipped = read_config(yaml_file.load(path), source=str(path))
    theirs = {leaf.path: leaf.value for leaf in leaves(shipped)}
    ours = {leaf.path: leaf.value for leaf in leaves(config)}
    differing = {key for key in theirs.keys() | ours.keys() if theirs.get(key) != ours.get(key)}
    trained = {key for key in differing if key.partition(".")[0] not in MAY_CHANGE}
    assert all(key.startswith("host.optim.lr_schedule.") for key in trained), trained
