"""Offspring: every operator does what it says to each role of saved players."""

from dataclasses import replace

import pytest
import torch

from hpsearch.game.kernels import BACKENDS
from hpsearch.game.kernels.threads import threads
from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream
from hpsearch.population.offspring import offspring
from hpsearch.population.operators.alignment import permuted
from hpsearch.population.operators.options import (
    AlignedAverage,
    Clone,
    Distillation,
    DistillationCrossover,
    GaussianMutation,
    HostAndAgent,
    LayerCrossover,
    SafeMutation,
    UnitCrossover,
)
from hpsearch.population.operators.weights import gaussian_mutation
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config.weight_layout import VALUE, WeightLayout
from hpsearch.trainers.opponents import load_player
from hpsearch.trainers.policies import Position, Turn

CPU, ROLES = torch.device("cpu"), ("host", "agent")
LEARNING = Distillation(
    num_steps=200,
    batch_size=64,
    lr=1e-2,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    temperature=0.1,
    value_weight=0.0,
    compare="raw",
)


@pytest.fixture(scope="module")
def families(tmp_path_factory, tiny_config):
    """Two parents of each algorithm, by role."""
    loaded = {}
    for algorithm in ("dqn", "ppo"):
        configs = [tiny_config({"agent": "learn", "seed": seed}, algorithm) for seed in (1, 2)]
        trainer = build_trainer(configs)
        trainer.train(40)
        paths = [trainer.save(tmp_path_factory.mktemp(algorithm), member) for member in range(2)]
        loaded[algorithm] = [{r: load_player(p, r, CPU) for r in ROLES} for p in paths]
    return loaded


def starts(num_games=500):
    """Positions that no parent has seen: starts, as the rules draw them."""
    points = BACKENDS["reference"].random_starts(
        torch.tensor([derive_key("somewhere else")]),
        torch.zeros((1, num_games), dtype=torch.int64),
        num_points=4,
        dimension=3,
        max_value=5,
    )
    return Position.of(points)


def chosen(host):
    return host.policy(Turn(starts(), None, torch.zeros(1, 500, 2), torch.zeros(1, 500)))


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_clone_plays_as_its_parent(families, algorithm):
    parent = families[algorithm][0]
    for role, net in offspring(Clone(), [parent], 5).items():
        assert torch.equal(net.weights, parent[role].net.weights)
        assert net.weights.data_ptr() != parent[role].net.weights.data_ptr()


def test_host_and_agent_come_from_one_parent_each(families):
    parents = families["dqn"]
    nets = offspring(HostAndAgent(), parents, 5)
    for role, parent in zip(ROLES, parents, strict=True):
        assert torch.equal(nets[role].weights, parent[role].net.weights)


def test_each_role_draws_by_the_seed_and_its_name(families):
    parent = families["dqn"][0]
    nets = offspring(GaussianMutation("gaussian_mutation", 0.3), [parent], 5)
    for role in ROLES:
        key = torch.tensor([derive_key(5, "birth", role)])
        stream, strength = Stream(key, torch.zeros_like(key)), torch.tensor([0.3])
        expected = gaussian_mutation(parent[role].net, strength=strength, stream=stream)
        assert torch.equal(nets[role].weights, expected.weights)


@pytest.mark.parametrize("bound", [0.05, 0.2])
def test_a_safe_mutation_of_a_greedy_host_changes_few_moves(families, bound):
    """Also where it was not looked at, though not to the letter."""
    parent = families["dqn"][0]
    net = offspring(SafeMutation("safe_mutation", bound), [parent], 5)["host"]
    child = replace(parent["host"], net=net)
    changed = float((chosen(child) != chosen(parent["host"])).float().mean())
    assert 0 < changed < 2 * bound


def test_a_safe_mutation_of_a_policy_leaves_the_value(families):
    parent = families["ppo"][0]
    for role, net in offspring(SafeMutation("safe_mutation", 0.1), [parent], 5).items():
        value = net.layout.columns(VALUE)
        is_same = net.weights == parent[role].net.weights
        assert is_same[:, value].all()
        assert not is_same.all()


def shuffled(body: WeightLayout):
    """Return another order of every group of hidden units."""
    orders = [(group, torch.arange(group.width)[None]) for group in body.groups]
    return [order.flip(1) if group.is_hidden else order for group, order in orders]


@pytest.mark.parametrize(
    "operator", [UnitCrossover("unit_crossover", 0.5), AlignedAverage("aligned_average", 0.5)]
)
@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_a_parent_in_another_order_is_put_in_order_first(families, algorithm, operator):
    """The child of a player and the same one with its units reordered is that player."""
    parent = families[algorithm][0]
    other = {
        role: replace(player, net=permuted(player.net, shuffled(player.net.layout)))
        for role, player in parent.items()
    }
    assert not torch.equal(other["host"].net.weights, parent["host"].net.weights)
    for role, net in offspring(operator, [parent, other], 5).items():
        torch.testing.assert_close(net.weights, parent[role].net.weights)


def test_a_layer_comes_whole_from_one_parent(families):
    parents = families["dqn"]
    seeds = range(8)
    sources = set()
    for seed in seeds:
        net = offspring(LayerCrossover("layer_crossover", 0.5), parents, seed)["host"]
        own, *theirs = (
            bank.parts(bank.weights) for bank in (net, *(p["host"].net for p in parents))
        )
        whose = [[torch.equal(own[name], their[name]) for their in theirs] for name in own]
        assert all(any(equal) for equal in whose)
        # A weight and its bias go together.
        assert whose[::2] == whose[1::2]
        sources.add(tuple(map(tuple, whose)))
    assert len(sources) > 1


def test_a_distilled_child_plays_like_either_parent(families):
    first, second = families["dqn"]
    nets = offspring(DistillationCrossover("distillation", LEARNING), [first, second], 5)
    child = replace(first["host"], net=nets["host"])
    own, *parents = (chosen(host) for host in (child, first["host"], second["host"]))
    assert ((own == parents[0]) | (own == parents[1])).float().mean() > 0.8
    assert (own != parents[0]).any()


def test_a_child_may_learn_from_a_parent_of_another_algorithm(families):
    first, second = families["dqn"][0], families["ppo"][0]
    nets = offspring(DistillationCrossover("distillation", LEARNING), [first, second], 5)
    for role, net in nets.items():
        assert net.structure == first[role].net.structure
        assert net.weights.isfinite().all()
        assert not torch.equal(net.weights, first[role].net.weights)


@pytest.mark.parametrize(
    "operator",
    [
        DistillationCrossover("distillation", replace(LEARNING, num_steps=20, batch_size=256)),
        SafeMutation("safe_mutation", 0.1),
    ],
    ids=lambda operator: operator.name,
)
def test_the_number_of_threads_changes_no_digit(tiny_config, tmp_path, operator):
    """It follows how busy a machine is, and a birth that was killed is repeated."""
    changes = {"host.net_arch": [64, 64]}
    trainer = build_trainer([tiny_config({**changes, "seed": seed}, "dqn") for seed in (1, 2)])
    trainer.train(20)
    parents = [
        {"host": load_player(trainer.save(tmp_path / f"{row}", row), "host", CPU)} for row in (0, 1)
    ]
    children = []
    for count in (1, 2, 3, 4):
        with threads(count):
            children.append(offspring(operator, parents, 5)["host"].weights)
    assert all(torch.equal(children[0], child) for child in children[1:])
