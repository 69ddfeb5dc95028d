"""Values kept until the target network moves are what a pass would give, to the last digit."""

import pytest
import torch
from batches import drawn

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
        return build_trainer(configs)

    return make


def who_keeps(trainer) -> list[str]:
    return [each.name for each in trainer.learners if each._kept_values is not None]


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
    assert [len(who_keeps(trainer)) for trainer in trainers] == [2, 0]
    states = [trainer.state() for trainer in trainers]
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        assert torch.equal(tensor, states[1][name]), name


def is_up_to_date(trainer) -> bool:
    """Return whether each place in memory has the value that a pass of all gives."""
    for learner in trainer.learners:
        buffer = learner.replay_buffer
        batch = drawn(trainer, learner, 12)
        places = torch.arange(buffer.num_places).expand(2, -1)
        features = learner.features(*buffer.positions(places))
        with torch.no_grad():
            expected = learner.target_net.update_pass(features)
        kept = learner.next_values(batch._replace(next_places=places), features)
        is_filled = (places < buffer.added[:, None])[..., None]
        if not torch.equal(kept * is_filled, expected * is_filled):
            return False
    return True


@pytest.mark.parametrize("moves", [1, 2])
def test_whatever_changes_networks_or_memory_is_noticed(keeping, tmp_path, moves):
    changes = {"rollout_length": moves, "updates_per_step": 5 * moves}
    trainer, other = keeping(changes), keeping({**changes, "host.gamma": 0.3})
    assert who_keeps(trainer) == ["host", "agent"]
    trainer.train(5)
    other.train(8)
    other.save(tmp_path, 0)
    assert is_up_to_date(trainer)
    trainer.train(1)  # one step before the targets move
    assert is_up_to_date(trainer)
    take_place(trainer, 1, trainer.configs[0], copy_of(other, 0))
    assert is_up_to_date(trainer)
    trainer.begin(0, other.configs[0])  # whose memory is empty, while the other member's is not
    assert is_up_to_date(trainer)
    trainer.train(2)
    assert is_up_to_date(trainer)
    trainer.load(next(tmp_path.iterdir()), 0)
    assert is_up_to_date(trainer)
    trainer.replace_nets(host=other.host_net)
    assert is_up_to_date(trainer)
    trainer.replace_reward_func("step_penalty")
    for _ in range(3):  # as many moves as there were before
        trainer.train(1)
        assert is_up_to_date(trainer)
    trainer.set_trainable(["agent"])
    trainer.train(4)
    assert is_up_to_date(trainer)
    trainer.host.target_net.weights += 1.0
    assert not is_up_to_date(trainer)  # so that the above can tell


def test_what_was_kept_before_the_memory_was_emptied_is_forgotten(keeping):
    """The ring then holds as many moves as when its places were valued."""
    trainer = keeping({"rollout_length": 2, "updates_per_step": 10})
    trainer.train(1)
    trainer.replace_reward_func("step_penalty")
    trainer.train(1)
    assert is_up_to_date(trainer)


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


OTHERWISE = {
    "a target that always moves": {
        "host.steps_before_update_target": 1,
        "agent.steps_before_update_target": 1,
    },
    "few updates": {"updates_per_step": 1},
    "many moves a step": {"rollout_length": 8},
    "a large memory": {"replay_buffer.buffer_size": 600},
    "shards": {"shards": 2},
}


@pytest.mark.parametrize("changes", OTHERWISE.values(), ids=OTHERWISE)
def test_where_it_is_not_worth_it_each_batch_has_its_own_pass(keeping, changes):
    assert who_keeps(keeping(changes)) == []


def test_members_whose_targets_move_apart_value_all_for_each():
    assert is_worth_it(36, 4, [3, 3], 32)
    assert not is_worth_it(36, 4, [3, 3], 31)
    assert is_worth_it(36, 4, [3, 4], 50)
    assert not is_worth_it(36, 4, [3, 4], 49)


def test_hosts_that_look_at_all_replies_keep_nothing(keeping):
    assert who_keeps(keeping({"dqn.minimax": True})) == ["agent"]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
@pytest.mark.parametrize("net_arch", [[128, 128], [1024, 256], ["b", "r256"], [2048, 8]])
def test_rows_are_alike_in_any_batch(tiny_config, net_arch, activation):
    changes = {"host.net_arch": net_arch, "host.activation": activation}
    net = build_trainer([tiny_config(changes)]).host_net
    assert net.has_independent_rows == (2048 not in net_arch)
    if not net.has_independent_rows:
        return
    x = torch.rand(1, 1025, net.observation_size)
    with torch.no_grad():
        whole = net.update_pass(x)
        for first, count in ((0, 1), (3, 1), (1024, 1), (7, 2), (1, 31), (500, 256), (1, 1024)):
            rows = slice(first, first + count)
            assert torch.equal(net.update_pass(x[:, rows]), whole[:, rows])
