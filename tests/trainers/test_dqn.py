"""Q-learning against slow loops over single transitions, in plain Python and numpy."""

import numpy as np
import pytest
import torch
from batches import drawn

from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.dqn import huber

PAIRS_AND_MORE = ((0, 1), (0, 2), (1, 2), (0, 1, 2))  # all subsets that a host may choose for D = 3
BOTH_LEARN = {"agent": "learn"}


@pytest.fixture(scope="module")
def played(tiny_config):
    """Two members whose host and agent have learned a little; target nets differ from nets."""

    def make(changes):
        members = [
            tiny_config({**BOTH_LEARN, **changes, "seed": seed, "host.gamma": gamma})
            for seed, gamma in ((1, 0.9), (2, 0.5))
        ]
        trainer = build_trainer(members)
        trainer.train(3)
        generator = torch.Generator().manual_seed(0)
        for learner in trainer.learners:
            shape = learner.target_net.weights.shape
            learner.target_net.weights += torch.randn(shape, generator=generator)
        return trainer

    return make


def inputs(observation, subset=None) -> list[float]:
    """Return what a network takes in, for the agent with its subset.

    Of the four points the network of tests/conftest.py takes in the first three.
    """
    seen = observation[:9].tolist()
    return seen if subset is None else seen + [float(k in subset) for k in range(3)]


def values_of(weights, features, num_actions, dueling=False) -> np.ndarray:
    """Return the values of one hidden layer of 8, from one member's bank of weights."""
    num_actions += dueling
    weights, features = np.asarray(weights, np.float64), np.asarray(features)
    size, start = 8, len(features) * 8
    hidden = features @ weights[:start].reshape(len(features), size)
    hidden = np.maximum(hidden + weights[start : start + size], 0)
    start += size
    out = hidden @ weights[start : start + size * num_actions].reshape(size, num_actions)
    out = out + weights[start + size * num_actions :]
    return out[0] + out[1:] - out[1:].mean() if dueling else out


def slow_target(learner, batch, member, place, double, dueling=False) -> float:
    """Return r + gamma^n * Q_target(s', best legal action), without the last term where done."""
    reward = float(batch.reward[member, place])
    discount = float(batch.discount[member, place])
    seen = batch.next_observation[member, place]
    if learner.name == "host":
        features, legal, num_actions = inputs(seen), range(4), 4
    else:
        subset = PAIRS_AND_MORE[int(batch.next_subset[member, place])]
        features, legal, num_actions = inputs(seen, subset), subset, 3
    target = values_of(learner.target_net.weights[member], features, num_actions, dueling)
    online = values_of(learner.net.weights[member], features, num_actions, dueling)
    best = max(legal, key=(online if double else target).__getitem__)
    return reward + discount * target[best]


def sample(trainer, learner, n_step=1):
    return drawn(trainer, learner, 30, n_step)


@pytest.mark.parametrize("n_step", [1, 3])
@pytest.mark.parametrize("dueling", [True, False])
@pytest.mark.parametrize("double", [True, False])
@pytest.mark.parametrize("role", ["host", "agent"])
def test_target_by_hand(played, role, double, dueling, n_step):
    trainer = played({"dqn.double": double, "dqn.dueling": dueling, "dqn.n_step": n_step})
    learner = {"host": trainer.host, "agent": trainer.agent}[role]
    batch = sample(trainer, learner, n_step)
    targets = trainer._target(learner, batch)
    is_over = batch.discount == 0
    assert is_over.any()
    assert not is_over.all()
    assert (len(batch.discount[0][~is_over[0]].unique()) > 1) == (n_step > 1)
    for member in range(2):
        for place in range(30):
            expected = slow_target(learner, batch, member, place, double, dueling)
            assert targets[member, place].item() == pytest.approx(expected, rel=1e-4, abs=1e-5)


def test_double_and_single_disagree_somewhere(played):
    """So that the test above can tell them apart (seeds.md B7)."""
    trainer = played({})
    batch = sample(trainer, trainer.host)
    single, double = (
        [slow_target(trainer.host, batch, 0, place, double) for place in range(30)]
        for double in (False, True)
    )
    assert not np.allclose(single, double)


def test_an_axis_outside_the_subset_never_backs_up(played):
    """However highly it is valued (seeds.md B2)."""
    trainer = played({})
    learner = trainer.agent
    num_actions = 3
    for net in (learner.net, learner.target_net):
        net.weights[:, -num_actions:] = torch.tensor([0.0, 0.0, 1000.0])
    batch = sample(trainer, learner)
    batch = batch._replace(next_subset=torch.zeros_like(batch.subset))  # {0, 1}
    assert trainer._target(learner, batch).max() < 500


def test_a_finished_game_does_not_bootstrap(played):
    trainer = played({})
    batch = sample(trainer, trainer.host)
    over = batch._replace(discount=torch.zeros_like(batch.discount))
    assert torch.equal(trainer._target(trainer.host, over), batch.reward)
    going = batch._replace(discount=torch.ones_like(batch.discount))
    assert (trainer._target(trainer.host, going) != batch.reward).all()


def test_a_game_that_was_broken_off_is_not_taken_for_over(played):
    """What it led to is not stored, so its last move has no target and counts nothing."""
    trainer = played({})
    learner = trainer.host
    batch = sample(trainer, learner)
    half = torch.arange(30).expand(2, -1) % 2 == 0
    wild = torch.where(half, batch.reward, 1e6)
    seen = []
    learner.replay_buffer.reprioritise = lambda places, errors: seen.append(errors)
    losses = []
    for reward in (wild, batch.reward):
        given = batch._replace(reward=reward, known=half)
        kept = learner.net.weights.clone()
        trainer._update(learner, given, learner.lr_scheduler(trainer.step), None)
        learner.net.weights.copy_(kept)
        losses.append(learner.statistics["loss"])
        assert (seen.pop()[~half] == 0).all()
    assert torch.equal(*losses)


@pytest.mark.parametrize("delta", [0.1, 1.0, 3.0])
def test_huber_is_torch_huber_loss(delta):
    error = torch.linspace(-5, 5, 101)
    expected = torch.nn.functional.huber_loss(
        error, torch.zeros_like(error), reduction="none", delta=delta
    )
    torch.testing.assert_close(huber(error, torch.tensor(delta)), expected)


def test_a_step_updates_by_batches_as_the_configuration_says(played):
    trainer = played({"updates_per_step": 3, "dqn.n_step": 2, "host.batch_size": 7})
    before, seen, update = trainer.copy(), [], trainer._update

    def watched(learner, batch, lr, target_weights):
        seen.append((learner.name, batch))
        update(learner, batch, lr, target_weights)

    trainer._update = watched
    trainer.train(1)
    before._play()
    memory, gamma = before.host.replay_buffer, before.host.gamma
    expected = memory.sample(3, batch_size=7, n_step=2, gamma=gamma, step=before.step)
    hosts = [batch for name, batch in seen if name == "host"]
    for batch, other in zip(hosts, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(batch, other, strict=True))


@pytest.mark.parametrize("role", ["host", "agent"])
def test_an_update_is_that_of_torch(played, role):
    """One gradient step of torch modules and torch's Adam on the same transitions."""
    trainer = played({})
    learner = {"host": trainer.host, "agent": trainer.agent}[role]
    learner.optimizer.forget()
    batch = sample(trainer, learner)
    before = learner.net.weights.clone()
    places = range(batch.action.shape[1])
    target_before = learner.target_net.weights.clone()
    trainer._update(learner, batch, learner.lr_scheduler(trainer.step), None)
    assert torch.equal(learner.target_net.weights, target_before)
    after = learner.net.weights.clone()
    learner.net.weights.copy_(before)
    targets = [[slow_target(learner, batch, m, place, True) for place in places] for m in range(2)]
    learner.net.weights.copy_(after)
    assert batch.known.all()
    for member in range(2):
        expected = torch_update(trainer, learner, batch, member, before[member], targets[member])
        after = learner.net.weights[member].double()
        torch.testing.assert_close(after, expected, rtol=1e-4, atol=1e-5)


def torch_update(trainer, learner, batch, member, weights, targets):
    num_actions = 4 if learner.name == "host" else 3
    features = []
    for place, observation in enumerate(batch.observation[member]):
        subset = PAIRS_AND_MORE[int(batch.subset[member, place])]
        features.append(inputs(observation, None if learner.name == "host" else subset))
    x = torch.tensor(features, dtype=torch.float64)
    bank = weights.double().clone().requires_grad_()
    sizes = [x.shape[1] * 8, 8, 8 * num_actions, num_actions]
    w1, b1, w2, b2 = bank.split(sizes)
    values = torch.relu(x @ w1.view(-1, 8) + b1) @ w2.view(8, -1) + b2
    chosen = values[torch.arange(len(x)), batch.action[member]]
    loss = torch.nn.functional.huber_loss(
        chosen, torch.tensor(targets), delta=learner.config.huber_delta
    )
    loss.backward()
    args = learner.config.optim.args
    lr = learner.lr_scheduler(trainer.step)[member].item()
    adam = torch.optim.Adam([bank], lr=lr, betas=(args.beta1, args.beta2), eps=args.eps)
    torch.nn.utils.clip_grad_norm_([bank], learner.config.max_grad_norm)
    adam.step()
    return bank.detach()


def test_nothing_is_learned_before_learning_starts(tiny_config):
    trainer = build_trainer([tiny_config({"learning_starts": 3})])
    before = trainer.host_net.weights.clone()
    trainer.train(3)
    assert torch.equal(trainer.host_net.weights, before)
    trainer.train(1)
    assert not torch.equal(trainer.host_net.weights, before)


def test_target_nets_move_every_so_many_steps_by_each_members_tau(tiny_config):
    rules = ((0.25, 2), (1.0, 3))
    members = [
        tiny_config({"host.tau": tau, "host.steps_before_update_target": interval})
        for tau, interval in rules
    ]
    trainer = build_trainer(members)
    for step in range(1, 8):
        old = trainer.host.target_net.weights.clone()
        trainer.train(1)
        for member, (tau, interval) in enumerate(rules):
            share = tau if step % interval == 0 else 0.0
            expected = old[member].lerp(trainer.host_net.weights[member], share)
            torch.testing.assert_close(trainer.host.target_net.weights[member], expected)


def test_a_target_that_follows_all_the_way_is_a_copy(tiny_config):
    """Weights and statistics of one moment."""
    changes = {"host.net_arch": ["b", 8], "host.tau": 1.0, "host.steps_before_update_target": 1}
    trainer = build_trainer([tiny_config({**changes, "learning_starts": 0})])
    trainer.train(6)
    for name, tensor in trainer.host.target_net.state().items():
        assert torch.equal(tensor, trainer.host_net.state()[name]), name


def test_the_target_of_a_role_that_is_not_trainable_stands_still(tiny_config):
    trainer = build_trainer(
        [tiny_config({**BOTH_LEARN, "host.net_arch": ["b", 8], "host.tau": 0.5})]
    )
    trainer.train(3)
    target = trainer.host.target_net
    before = [tensor.clone() for tensor in target.state().values()]
    trainer.set_trainable(["agent"])
    trainer.train(5)
    assert all(map(torch.equal, before, target.state().values()))


def test_target_nets_use_running_statistics_and_leave_them_alone(tiny_config):
    """seeds.md B8."""
    changes = {"host.net_arch": [8, "b"], "host.steps_before_update_target": 1000}
    trainer = build_trainer([tiny_config(changes)])
    target_net = trainer.host.target_net
    before = target_net.statistics.clone()
    trainer.train(5)
    assert torch.equal(target_net.statistics, before)
    assert not torch.equal(trainer.host_net.statistics, before)
    batch = sample(trainer, trainer.host)
    single = type(batch)(*(field[:, :1] for field in batch))
    whole, alone = (trainer._target(trainer.host, some) for some in (batch, single))
    torch.testing.assert_close(alone, whole[:, :1])
    assert torch.equal(target_net.statistics, before)


def test_playing_uses_running_statistics_and_leaves_them_alone(tiny_config):
    trainer = build_trainer([tiny_config({"host.net_arch": ["b", 8]})])
    trainer.train(3)
    before = trainer.host_net.statistics.clone()
    next(trainer.rollouts.play(1, looks_ahead=True))
    trainer._target(trainer.host, sample(trainer, trainer.host))
    trainer.evaluate_rho(num_games=5, split="evaluation")
    assert torch.equal(trainer.host_net.statistics, before)
