"""Values kept until the target network moves are what a pass would give, to the last digit."""

import pytest
import torch

from hpsearch.trainers import dqn, networks
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.inheriting import copy_of, take_place
from hpsearch.trainers.target_values import is_worth_it

ROLE = {"batch_size": 12, "rollout_size": 4, "steps_before_update_target": 3}
OFTEN = {  # a step learns from 60 moves, adds 4, and the target values 40 places every 3 steps
    "agent": "learn",
    "rollout_length": 1,
    "updates_per_step": 5,
    "replay_buffer.buffer_size": 36,
    "replay_buffer.save": True,
    **{f"{role}.{name}": value for role in ("host", "agent") for name, value in ROLE.items()},
}


@pytest.fixture
def keeping(monkeypatch, tiny_config):
    """Return a function to a trainer of two members with small layers that pass one by one."""

    def make(changes=None, *, keeps=True, num_members=2):
        monkeypatch.setattr(networks, "WIDE", 1)
        monkeypatch.setattr(dqn, "is_worth_it", is_worth_it if keeps else lambda *_: False)
        configs = [tiny_config({**OFTEN, **(changes or {}), "seed": n}) for n in range(num_members)]
        trainer = build_trainer(configs)
        assert all((learner._kept_values is not None) == keeps for learner in trainer.learners)
        return trainer

    return make


CASES = {
    "double": {},
    "not double, of several steps": {"dqn.double": False, "dqn.n_step": 3},
    "on the way": {"host.tau": 0.3, "agent.tau": 0.3},
    "norms": {"host.net_arch": [8, "b", "r8"], "agent.net_arch": ["rl8"]},
    "dueling": {"dqn.dueling": True},
    "by priority": {
        "replay_buffer.prioritised": {"alpha": 0.6, "beta": 0.4, "beta_steps": 9, "eps": 1e-3}
    },
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("threads", [1, 2])
def test_training_is_the_same_to_the_last_digit(keeping, case, threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        trainers = [keeping(case), keeping(case, keeps=False)]
        for trainer in trainers:
            trainer.train(25)  # memory is full after 10
    finally:
        torch.set_num_threads(before)
    states = [trainer.state() for trainer in trainers]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def is_up_to_date(trainer) -> bool:
    for learner in trainer.learners:
        batch = learner.replay_buffer.sample(12, 1, learner.gamma, trainer.step)
        features = learner.features(batch.next_observation, batch.next_subset)
        with torch.no_grad():
            expected = learner.target_net.update_pass(features)
        if not torch.equal(learner.next_values(batch, features), expected):
            return False
    return True


def test_whatever_changes_networks_or_memory_is_noticed(keeping, tmp_path):
    trainer, other = keeping(), keeping({"host.gamma": 0.3})
    trainer.train(5)
    other.train(8)
    assert is_up_to_date(trainer)
    take_place(trainer, 1, trainer.configs[0], copy_of(trainer, 0))
    assert is_up_to_date(trainer)
    trainer.begin(0, other.configs[0])  # whose memory is empty, while the other member's is not
    trainer.train(2)
    assert is_up_to_date(trainer)
    trainer.host.replace_net(other.host_net)
    trainer.train(1)
    assert is_up_to_date(trainer)
    trainer.agent.begin_with(other.agent_net.like(1), 1)
    assert is_up_to_date(trainer)
    trainer.replace_reward_func("step_penalty")
    trainer.train(1)
    assert is_up_to_date(trainer)
    trainer.host.target_net.weights += 1.0
    assert not is_up_to_date(trainer)  # so that the above can tell


def test_a_resumed_run_goes_on_to_the_last_digit(keeping, tmp_path):
    trainer = keeping(num_members=1)
    trainer.train(10)  # the target moved at 9
    trainer.save(tmp_path, 0)
    resumed = keeping(num_members=1)
    resumed.load(next(tmp_path.iterdir()), 0)
    for each in (trainer, resumed):
        each.train(7)
    assert torch.equal(trainer.host_net.weights, resumed.host_net.weights)
    assert torch.equal(trainer.agent_net.weights, resumed.agent_net.weights)


def test_passes_are_at_least_halved(keeping, monkeypatch):
    def num_rows(trainer) -> int:
        seen = []
        target_net = trainer.host.target_net
        passed = target_net.update_pass
        monkeypatch.setattr(
            target_net, "update_pass", lambda x: seen.append(x.shape[1]) or passed(x)
        )
        trainer.train(30)
        return sum(seen)

    kept, each = num_rows(keeping()), num_rows(keeping(keeps=False))
    assert each == 30 * 5 * 12
    assert kept <= each / 2


@pytest.mark.parametrize(
    "changes",
    [
        {"host.steps_before_update_target": 1, "agent.steps_before_update_target": 1},
        {"updates_per_step": 1},
        {"replay_buffer.buffer_size": 600},
        {"shards": 2},
    ],
)
def test_passes_for_each_where_nothing_is_won_or_rows_depend_on_others(keeping, changes):
    keeping(changes, keeps=False)
    with pytest.raises(AssertionError):
        keeping(changes)


def test_members_whose_targets_move_apart_value_all_for_each():
    assert is_worth_it(36, 4, [3, 3], 32)
    assert not is_worth_it(36, 4, [3, 3], 31)
    assert is_worth_it(36, 4, [3, 4], 50)
    assert not is_worth_it(36, 4, [3, 4], 49)


def test_hosts_that_look_at_all_replies_keep_nothing(keeping):
    with pytest.raises(AssertionError):
        keeping({"dqn.minimax": True})
