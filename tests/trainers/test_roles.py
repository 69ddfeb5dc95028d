"""Host and agent of a trainer: who learns, who stands still, and who begins anew."""

import pytest
import torch

from hpsearch.trainers.algorithms import build_trainer

ALGORITHMS = pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
WHO_LEARNS = {
    "host": {"agent": {"player": "choose_first"}},
    "agent": {"agent": "learn", "host": {"player": "zeillinger"}},
    "both": {"agent": "learn"},
}


@pytest.fixture
def trainer_of(tiny_config):
    def make(algorithm, changes=None, seeds=(1, 2)):
        options = {"agent": "learn", **(changes or {})}
        return build_trainer([tiny_config({**options, "seed": seed}, algorithm) for seed in seeds])

    return make


def copy_of(learner):
    return {name: tensor.clone() for name, tensor in learner.state().items()}


@ALGORITHMS
@pytest.mark.parametrize("who", WHO_LEARNS)
def test_a_role_that_learns_has_games_networks_and_measures(tiny_config, algorithm, who):
    trainer = build_trainer([tiny_config(WHO_LEARNS[who], algorithm)])
    names = ["host", "agent"] if who == "both" else [who]
    assert [learner.name for learner in trainer.learners] == names
    assert trainer.fused_game.num_games == 8 * len(names)
    assert [(t.lanes.start, t.lanes.stop) for t in trainer.roles.groups] == [
        (8 * i, 8 * i + 8) for i in range(len(names))
    ]
    before = {learner.name: learner.net.weights.clone() for learner in trainer.learners}
    trainer.train(3)
    for learner in trainer.learners:
        assert not torch.equal(learner.net.weights, before[learner.name])
    (metrics,) = trainer.evaluate_rho(num_games=5, split="test")
    assert {name.split("/")[1] for name in metrics} == set(names)
    for name in {"host", "agent"} - set(names):
        with pytest.raises(ValueError, match=f"the {name} of this trainer does not learn"):
            getattr(trainer, f"{name}_net")


# Standing still.


@ALGORITHMS
@pytest.mark.parametrize("net_arch", [[8], ["b", 8]])
@pytest.mark.parametrize(("frozen", "learning"), [("host", "agent"), ("agent", "host")])
def test_a_role_that_is_not_trainable_plays_on_as_it_is(
    trainer_of, algorithm, net_arch, frozen, learning
):
    """Weights, averages of the optimizer, and the running statistics of batch norms."""
    changes = {f"{role}.net_arch": net_arch for role in ("host", "agent")}
    trainer = trainer_of(algorithm, changes)
    trainer.train(2)
    trainer.set_trainable([learning])
    before = {learner.name: copy_of(learner) for learner in trainer.learners}
    trainer.train(3)
    for learner in trainer.learners:
        state, was = learner.state(), before[learner.name]
        for name in ("net.weights", "net.statistics", *(n for n in state if "optimizer" in n)):
            if state[name].numel():
                assert torch.equal(state[name], was[name]) == (learner.name == frozen), name
    trainer.set_trainable(["host", "agent"])
    trainer.train(1)
    for learner in trainer.learners:
        assert not torch.equal(learner.net.weights, before[learner.name]["net.weights"])


@ALGORITHMS
def test_who_stands_still_is_saved(trainer_of, algorithm, tmp_path):
    trainer = trainer_of(algorithm)
    trainer.train(2)
    trainer.set_trainable(["host"])
    paths = [trainer.save(tmp_path / str(member), member) for member in range(2)]
    fresh = trainer_of(algorithm)
    for member, path in enumerate(paths):
        fresh.load(path, member)
    copied = trainer.copy()
    still = trainer.agent_net.weights.clone()
    for learner in (trainer, fresh, copied):
        learner.train(2)
        assert torch.equal(learner.agent_net.weights, still)
        assert torch.equal(learner.host_net.weights, trainer.host_net.weights)


@ALGORITHMS
def test_only_learning_roles_can_be_trained(tiny_config, algorithm):
    trainer = build_trainer([tiny_config({"agent": {"player": "random"}}, algorithm)])
    with pytest.raises(ValueError, match="the agent of this trainer does not learn"):
        trainer.set_trainable(["host", "agent"])
    assert trainer.host.trainable.all()  # nothing has changed


# Beginning anew.


@ALGORITHMS
def test_other_nets_begin_with_an_empty_optimizer(trainer_of, algorithm):
    """seeds.md B14: what was learned from the old network is gone with it."""
    changes = {"host.net_arch": ["b", 8]}
    trainer, other = trainer_of(algorithm, changes), trainer_of(algorithm, changes, (3, 4))
    trainer.train(3)
    other.train(2)
    agent = copy_of(trainer.agent)
    trainer.replace_nets(host=other.host_net)
    assert torch.equal(trainer.host_net.weights, other.host_net.weights)
    assert torch.equal(trainer.host_net.statistics, other.host_net.statistics)
    state = trainer.host.state()
    optimizer = [tensor for name, tensor in state.items() if name.startswith("optimizer.")]
    assert len(optimizer) == 3
    assert all((tensor == 0).all() for tensor in optimizer)
    assert all(torch.equal(tensor, agent[n]) for n, tensor in trainer.agent.state().items())
    theirs = other.host_net.weights.clone()
    trainer.train(2)
    assert torch.equal(other.host_net.weights, theirs)  # memory of its own
    assert not torch.equal(trainer.host_net.weights, theirs)


def test_other_nets_bring_their_target_net_and_an_empty_memory(trainer_of):
    """seeds.md B14."""
    prioritised = {"alpha": 0.6, "beta": 0.4, "beta_steps": 8, "eps": 1e-3}
    changes = {"replay_buffer.prioritised": prioritised}
    trainer, other = trainer_of("dqn", changes), trainer_of("dqn", changes, (3, 4))
    trainer.train(3)
    other.train(2)
    trainer.replace_nets(agent=other.agent_net)
    assert torch.equal(trainer.agent.target_net.weights, other.agent_net.weights)
    assert trainer.agent_replay_buffer.added.tolist() == [0, 0]
    assert trainer.host_replay_buffer.added.tolist() == [3 * 2 * 8] * 2
    assert (trainer.agent_replay_buffer.state()["priority"] == 0).all()
    trainer.train(1)
    assert trainer.agent_replay_buffer.added.tolist() == [16, 16]


@ALGORITHMS
def test_nets_that_do_not_fit_are_refused(trainer_of, algorithm):
    trainer = trainer_of(algorithm)
    before = trainer.host_net.weights.clone()
    other = trainer_of(algorithm, {"host.net_arch": [9]})
    with pytest.raises(ValueError, match="same net_arch and members"):
        trainer.replace_nets(host=other.host_net)
    with pytest.raises(ValueError, match="same net_arch and members"):
        trainer.replace_nets(host=trainer_of(algorithm, seeds=(1,)).host_net)
    assert torch.equal(trainer.host_net.weights, before)


@ALGORITHMS
def test_both_nets_are_replaced_or_none(trainer_of, algorithm):
    trainer = trainer_of(algorithm)
    before = trainer.host_net.weights.clone()
    fitting = trainer_of(algorithm, seeds=(7, 8)).host_net
    other = trainer_of(algorithm, {"agent.net_arch": [9]}).agent_net
    with pytest.raises(ValueError, match="network of the agent"):
        trainer.replace_nets(host=fitting, agent=other)
    assert torch.equal(trainer.host_net.weights, before)


def test_moves_that_another_reward_rewarded_are_forgotten(trainer_of):
    trainer = trainer_of("dqn")
    trainer.train(2)
    trainer.replace_reward_func("step_penalty")
    assert trainer.host_replay_buffer.added.tolist() == [0] * trainer.num_members
    trainer.train(1)
    rewards = trainer.host_replay_buffer.state()["reward"][:, : trainer.fused_game.num_games // 2]
    assert (rewards == -1).all()


@ALGORITHMS
def test_another_reward_counts_from_the_next_move(trainer_of, algorithm, tmp_path):
    trainer = trainer_of(algorithm)
    trainer.train(1)
    trainer.replace_reward_func("step_penalty")
    host, agent = next(trainer.rollouts.play(1, looks_ahead=True))
    assert (host.reward == -1).all()
    assert (agent.reward == 1).all()
    assert {config.reward for config in trainer.configs} == {"step_penalty"}
    assert (next(trainer.copy().rollouts.play(1, looks_ahead=True))[0].reward == -1).all()
    # A checkpoint says so too.
    path = trainer.save(tmp_path, 0)
    same = trainer_of(algorithm, {"reward": "step_penalty"})
    same.load(path, 0)
    with pytest.raises(ValueError, match="a reward must be one of"):
        trainer.replace_reward_func("points")
    assert (next(trainer.rollouts.play(1, looks_ahead=True))[0].reward == -1).all()
