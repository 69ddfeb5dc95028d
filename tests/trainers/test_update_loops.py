"""The loops of an update on a CPU compute what the formulas do that other devices follow."""

from functools import partial

import pytest
import torch

from hpsearch.game.stream import Stream
from hpsearch.trainers import (
    dqn,
    dqn_cpu,
    moves,
    moves_cpu,
    networks,
    policies,
    ppo,
    ppo_cpu,
    ppo_loss,
)
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.config.weight_layout import Inputs, Tower
from hpsearch.trainers.networks import Arithmetic, Network

NUM_RINGS, NUM_PLACES, NUM_GAMES = 3, 35, 5


def random_rings(generator: torch.Generator, num_points: int) -> moves.Rings:
    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(NUM_RINGS, NUM_PLACES, *shape, generator=generator)

    return moves.Rings(
        points=(numbers(num_points, 3) * 100).int(),
        observation=numbers(7),
        subset=(numbers() * 100).long(),
        action=(numbers() * 100).long(),
        reward=numbers().where(numbers() < 2.0, torch.inf),
        done=numbers() > 0.8,
        last=numbers() > 1.0,
    )


@pytest.mark.parametrize("num_points", [0, 2])
def test_moves_are_written_as_by_tensors(num_points):
    rings = random_rings(torch.Generator().manual_seed(0), num_points)
    newest = moves.Rings(*(ring[:, 20 : 20 + NUM_GAMES] for ring in rings))
    first = torch.tensor([0, NUM_PLACES - 2, 20 * NUM_PLACES + 3])  # the second ones wrap around
    expected, found = (moves.Rings(*(ring.clone() for ring in rings)) for _ in range(2))
    moves.write(expected, newest, first)
    moves_cpu.write(found, newest, first)
    for name, ring in expected._asdict().items():
        assert torch.equal(getattr(found, name), ring), name
        assert torch.equal(ring[1, -2:], getattr(newest, name)[1, :2]), name
        assert torch.equal(ring[1, : NUM_GAMES - 2], getattr(newest, name)[1, 2:]), name


@pytest.mark.parametrize("num_batches", [1, 3])
def test_moves_are_drawn_as_by_tensors_batch_by_batch(num_batches):
    generator = torch.Generator().manual_seed(0)
    added = torch.tensor([0, 4, 5, 6, 20, 34, 35, 36, 1005])
    noise = torch.rand(num_batches * len(added), 300, generator=generator)
    noise[:, 0], noise[:, 1] = 0.0, 1 - 2**-24
    rings = added, NUM_PLACES - NUM_GAMES, NUM_GAMES
    expected = torch.cat([moves.draw(each, *rings) for each in noise.chunk(num_batches)])
    assert torch.equal(moves.draw(noise, *rings), expected)
    assert torch.equal(moves_cpu.draw(noise, *rings), expected)


@pytest.mark.parametrize("num_batches", [1, 3])
@pytest.mark.parametrize("n_step", [1, 2, 7])
@pytest.mark.parametrize("num_points", [0, 2])
def test_moves_are_found_as_by_tensors(n_step, num_points, num_batches):
    generator = torch.Generator().manual_seed(n_step)
    rings = random_rings(generator, num_points)
    drawn = torch.randint(NUM_PLACES, (num_batches * NUM_RINGS, 200), generator=generator)
    arguments = {
        "places": drawn,
        "weight": torch.rand(drawn.shape, generator=generator),
        "added": torch.tensor([20, 35, 1005]),
        "gamma": torch.tensor([0.0, 0.9, 1.0]),
        "n_step": n_step,
    }
    expected = moves.look_up(rings, NUM_GAMES, **arguments)
    found = moves_cpu.look_up(rings, NUM_GAMES, **arguments)
    for name, part in expected._asdict().items():
        same = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}
        torch.testing.assert_close(getattr(found, name), part, **same, msg=name)


def test_targets_back_up_the_value_of_argmax():
    generator = torch.Generator().manual_seed(0)
    choices = torch.tensor([-1.0, 0.0, 2.0, torch.inf, -torch.inf, torch.nan])
    index = torch.randint(len(choices), (4, 500, 5), generator=generator)
    values, chooser = torch.randn(index.shape, generator=generator), choices[index]
    legal = torch.rand(index.shape, generator=generator) > 0.4
    reward, discount = torch.randn(2, 4, 500, generator=generator)
    arguments = values, chooser, legal, reward, discount.relu()
    assert torch.equal(dqn_cpu.backed_up(*arguments), dqn.backed_up(*arguments))


def random_targets(generator: torch.Generator, num_members: int) -> moves.Targets:
    shape = num_members, 64
    targets = moves.Targets(
        action=torch.randint(3, shape, generator=generator),
        target=torch.randn(shape, generator=generator),
        weight=torch.rand(shape, generator=generator),
        known=torch.rand(shape, generator=generator) > 0.2,
        delta=torch.tensor([0.1, 1.0, 3.0])[:num_members],
    )
    targets.target[:, 0], targets.target[:, 3] = 100.0, -3.0
    return targets


def test_errors_losses_and_slopes_are_those_of_autograd():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 64, 4, generator=generator).requires_grad_()
    targets = random_targets(generator, 3)
    targets.target[0, 0], targets.target[1, 3], targets.delta[2] = torch.nan, torch.inf, torch.inf
    expected = dqn.temporal_difference(values, targets)
    found = dqn_cpu.temporal_difference(values.detach(), targets)
    (slope,) = torch.autograd.grad(expected[0].sum(), values)
    for own, other in zip(found, (*expected, slope), strict=True):
        torch.testing.assert_close(own, other, equal_nan=True)


def random_moves(generator: torch.Generator, values: torch.Tensor) -> ppo_loss.Moves:
    """Return moves whose policy has moved on both sides, some beyond what is clipped."""
    shape = values.shape[:2]
    legal = torch.rand(values.shape, generator=generator) > 0.3
    legal[..., 1] = True
    action = torch.multinomial(legal.flatten(0, 1).float(), 1, generator=generator).view(shape)
    log_prob = policies.legal_values(values, legal).log_softmax(2).gather(2, action[..., None])
    advantage, value, moved, target = torch.randn(4, *shape, generator=generator)
    advantage[:, 5] = 0.0
    log_prob = log_prob.squeeze(2) + 0.3 * moved
    features = torch.rand(*shape, 6, generator=generator)
    return ppo_loss.Moves(features, legal, action, log_prob, value, advantage, target)


COEFFICIENTS = ppo_loss.LossCoefficients(
    clip=torch.tensor([0.1, 0.2, 0.3])[:, None],
    value_clip=torch.tensor([torch.inf, 0.5, 0.0])[:, None],
    vf_coef=torch.tensor([0.5, 1.0, 2.0]),
    ent_coef=torch.tensor([0.0, 0.01, 1.0]),
)


@pytest.mark.parametrize("is_broken", [False, True])
def test_losses_of_a_policy_and_their_slopes_are_those_of_autograd(is_broken):
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 64, 4, generator=generator)
    batch = random_moves(generator, values)
    value = torch.randn(3, 64, generator=generator)
    values[0, 0] = torch.tensor([1e3, -1e3, torch.inf, -torch.inf])
    batch.legal[0, 0] = torch.tensor([True, True, False, False])
    values[0, 1], values[0, 2], batch.legal[0, 1:3] = 1e20, -torch.inf, True
    batch.action[0, :3], batch.log_prob[0, :3] = 0, torch.tensor([0.0, -1.5, -1.5])
    if is_broken:  # of a member alone
        values[1, 2, 1], value[2, 3] = torch.nan, torch.inf
    values.requires_grad_(), value.requires_grad_()
    expected = ppo_loss.losses(values, value, batch, COEFFICIENTS)
    slopes = torch.autograd.grad(expected.loss.sum(), [values, value])
    found, *own_slopes = ppo_cpu.losses(values.detach(), value.detach(), batch, COEFFICIENTS)
    if is_broken:  # torch's clamp gives what is no number a slope of 0; the others' are none
        assert own_slopes[0][1, 2, 1].isnan()
        own_slopes[0][1, 2, 1] = slopes[0][1, 2, 1]
    for own, other in zip((*found, *own_slopes), (*expected, *slopes), strict=True):
        torch.testing.assert_close(own, other, equal_nan=True, rtol=1e-5, atol=1e-6)
    assert 0 < found.clipped[0] < 1
    is_bounded = (value - batch.value).abs() > COEFFICIENTS.value_clip
    assert 0 < is_bounded[1].sum() < 64


NETWORKS = {
    "plain": {"net_arch": [32, 5]},
    "tanh": {"net_arch": [32, 5], "activation": "tanh"},
    "agent": {"net_arch": [32], "num_more": 3},
    "no hidden layer": {"net_arch": []},
    "residual": {"net_arch": ["b", "r32", "r32", "rl5"]},
    "residual around what is given": {"net_arch": ["r6", 5]},
    "dueling": {"net_arch": ["l", 32, "b"], "dueling": True},
    "deep sets": {"net_arch": [32], "encoder": DeepSetsEncoder("deep_sets", (7, 5), "mean")},
}


@pytest.mark.parametrize("case", NETWORKS.values(), ids=NETWORKS)
@pytest.mark.parametrize("num_members", [1, 2, 3])
@pytest.mark.parametrize("wide", [1, 1000], ids=["by member", "stacked"])
def test_gradients_by_hand_are_those_of_autograd(monkeypatch, case, num_members, wide):
    num_unread = 3 * (case.keys() == {"net_arch"})  # numbers after those that the encoder reads
    net_arch, how = case["net_arch"], {key: case[key] for key in case.keys() - {"net_arch"}}
    nets = [random_network(num_members, net_arch, **how)]
    monkeypatch.setattr(networks, "WIDE", wide)
    nets.append(random_network(num_members, net_arch, **how))
    generator = torch.Generator().manual_seed(1)
    targets = random_targets(generator, num_members)
    for fault in (0.0, torch.nan):
        width = 6 + nets[0].inputs.num_more + num_unread
        features = torch.rand(num_members, 64, width, generator=generator)
        for net in nets:
            net.weights[-1, -1] += fault  # a bias of the values
        banks = [torch.full_like(net.weights, 7.0) for net in nets]
        expected = dqn.differentiate(dqn.temporal_difference, nets[0], features, targets, banks[0])
        told = dqn_cpu.differentiate(nets[1], features, targets, banks[1])
        for own, other in zip(told, expected, strict=True):
            torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5, equal_nan=True)
        torch.testing.assert_close(banks[1], banks[0], rtol=1e-3, atol=1e-5, equal_nan=True)
        statistics = [net.statistics for net in nets]
        torch.testing.assert_close(*statistics, equal_nan=True)
        assert banks[0][:-1].isfinite().all()


ACTOR_CRITICS = {
    "alike": ([32, 5], [32, 5], {}),
    "norms": (["b", "r32"], ["l", 32], {}),
    "one hidden layer, none": ([32], [], {}),
    "tanh": ([32], [32, 7], {"activation": "tanh"}),
    "deep sets": ([32], [32], {"encoder": DeepSetsEncoder("deep_sets", (7, 5), "mean")}),
}


@pytest.mark.parametrize(("policy", "value", "how"), ACTOR_CRITICS.values(), ids=ACTOR_CRITICS)
@pytest.mark.parametrize("wide", [1, 1000], ids=["by member", "stacked"])
def test_gradients_of_two_towers_are_those_of_autograd(monkeypatch, policy, value, how, wide):
    monkeypatch.setattr(networks, "WIDE", wide)
    net = random_network(3, policy, value, **how)
    generator = torch.Generator().manual_seed(1)
    batch = random_moves(generator, torch.randn(3, 64, 3, generator=generator))
    banks = [torch.full_like(net.weights, 7.0) for _ in range(2)]
    expected = ppo.differentiate(ppo_loss.losses, net, batch, COEFFICIENTS, banks[0])
    found = ppo_cpu.differentiate(net, batch, COEFFICIENTS, banks[1])
    for own, other in zip((*found, banks[1]), (*expected, banks[0]), strict=True):
        torch.testing.assert_close(own, other, rtol=1e-4, atol=1e-5)


def random_network(
    num_members, *net_archs, activation="relu", num_more=0, encoder=None, dueling=False
) -> Network:
    """Return a network whose towers, a policy and a value where there are two, have `net_archs`."""
    encoder = encoder or FlattenEncoder("flatten", 2)
    towers = [
        Tower(encoder, parse(net_arch), activation, outputs, dueling=dueling)
        for net_arch, outputs in zip(net_archs, (3, 1), strict=False)
    ]
    seeds = Stream(torch.arange(num_members))
    net = Network(Inputs(2, 3, num_more), towers, Arithmetic("fp32", "off"), seeds)
    noise = torch.randn(net.weights.shape, generator=torch.Generator().manual_seed(0))
    net.weights += 0.1 * noise
    return net


CASES = {
    "plain": ("dqn", {}),
    "single, of several steps": ("dqn", {"dqn.n_step": 3, "dqn.double": False}),
    "minimax": ("dqn", {"dqn.minimax": True}),
    "norms": ("dqn", {"host.net_arch": [8, "b", "r8"], "agent.net_arch": ["rl8"]}),
    "policy and value": ("ppo", {}),
}
BY_AUTOGRAD = {
    "dqn": partial(dqn.differentiate, dqn.temporal_difference),
    "ppo": partial(ppo.differentiate, ppo_loss.losses),
}


@pytest.mark.parametrize(("algorithm", "case"), CASES.values(), ids=CASES)
@pytest.mark.parametrize("num_members", [1, 3])
def test_training_by_hand_is_that_by_autograd(
    monkeypatch, tiny_config, algorithm, case, num_members
):
    changes = {"agent": "learn", **case}
    configs = [tiny_config({**changes, "seed": n}, algorithm) for n in range(num_members)]
    trainers = [build_trainer(configs)]
    trainers[0]._differentiate = BY_AUTOGRAD[algorithm]
    monkeypatch.setattr(networks, "WIDE", 1)
    trainers.append(build_trainer(configs))
    for trainer in trainers:
        trainer.train(2)  # beyond that, roundings may choose other moves
    for own, other in zip(*(trainer.learners for trainer in trainers), strict=True):
        torch.testing.assert_close(own.gradients, other.gradients, rtol=1e-3, atol=1e-5)


def test_who_looks_for_anomalies_finds_them(tiny_config):
    """Autograd tells them, so gradients are not computed by hand."""
    trainer = build_trainer(
        [tiny_config({"detect_anomaly": True, "host.net_arch": [networks.WIDE]})]
    )
    try:
        trainer.train(2)
        trainer.host_net.weights.fill_(torch.nan)
        with pytest.raises(RuntimeError, match="nan"):
            trainer.train(1)
    finally:
        torch.autograd.set_detect_anomaly(False)
