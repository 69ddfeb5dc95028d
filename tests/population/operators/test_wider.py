"""Widening leaves every function as it is."""

import pytest
import torch
from operator_nets import (
    ENCODERS,
    P,
    assert_same_function,
    network,
    observations,
    outputs,
    stream,
    tower,
)

from hpsearch.population.operators.grow import grow
from hpsearch.trainers.config.weight_layout import Tower
from hpsearch.trainers.networks import Network

MULTIPLE = {
    "hidden": (tower([7, 5]), tower([14, 15])),
    "batch norms": (tower(["b", 7, "b", 5, "b"]), tower(["b", 14, "b", 5, "b"])),
    "layer norms": (tower(["l", 7, "l", 5, "l"]), tower(["l", 14, "l", 15, "l"])),
    "residual": (tower([6, "r6", "r8", "r8"]), tower([12, "r12", "r16", "r16"])),
    "layer norm blocks": (tower([6, "rl6", "rl8", 3]), tower([12, "rl12", "rl24", 5])),
    "attention": (
        tower([5, "r5"], encoder=ENCODERS["attention"]),
        tower([10, "r10"], encoder=ENCODERS["attention"]),
    ),
    "dueling": (tower([7, "r6"], dueling=True), tower([14, "r12"], dueling=True)),
    "tanh": (tower([7, "l", "r6"], activation="tanh"), tower([21, "l", "r6"], activation="tanh")),
}
UNEVEN = {
    "hidden": (tower([7, 5]), tower([9, 11])),
    "batch norms": (tower(["b", 7, "b", 5, "b"]), tower(["b", 8, "b", 9, "b"])),
    "residual": (tower([6, "r6", "r8", "r8"]), tower([7, "r7", "r13", "r13"])),
    "deep sets": (
        tower([5, "r5"], encoder=ENCODERS["deep sets"]),
        tower([7, "r7"], encoder=ENCODERS["deep sets"]),
    ),
    "deep sets max": (
        tower([5], encoder=ENCODERS["deep sets max"]),
        tower([8], encoder=ENCODERS["deep sets max"]),
    ),
    "tanh": (tower([7, "r6"], activation="tanh"), tower([10, "r6"], activation="tanh")),
    "dueling": (tower([7], dueling=True), tower([9], dueling=True)),
}
every_growth = pytest.mark.parametrize(
    ("old", "new"),
    [*MULTIPLE.values(), *UNEVEN.values()],
    ids=[f"multiple {name}" for name in MULTIPLE] + [f"uneven {name}" for name in UNEVEN],
)


def grown(net: Network, *towers: Tower, noise: float = 0.0) -> Network:
    return grow(net, network(*towers, seeds=(8,)), noise=noise, stream=stream(7, 8, 9))


@every_growth
def test_outputs_are_the_same(old, new):
    net = network(old)
    before = {name: tensor.clone() for name, tensor in net.state().items()}
    child = grown(net, new)
    assert child.structure == network(new).structure
    assert_same_function(net, child, observations())
    assert_same_function(net, child, torch.rand(P, 9, 12))
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state().items())


@every_growth
def test_outputs_are_the_same_in_training(old, new):
    net, x = network(old), observations()
    child = grown(net, new)
    with torch.no_grad():
        torch.testing.assert_close(
            child(x, training=True), net(x, training=True), rtol=1e-3, atol=1e-4
        )


def test_both_towers_grow():
    small = tower([6, "l"], encoder=ENCODERS["attention"]), tower([5, "b"], num_outputs=1)
    big = tower([12, "l"], encoder=ENCODERS["attention"]), tower([8, "b"], num_outputs=1)
    net = network(*small)
    assert_same_function(net, grown(net, *big), observations())


def test_new_units_of_an_agent_read_the_subset_too():
    net = network(tower([5], encoder=ENCODERS["attention"]), num_more=3)
    target = network(tower([7], encoder=ENCODERS["attention"]), seeds=(8,), num_more=3)
    child = grow(net, target, noise=0.0, stream=stream(7, 8, 9))
    assert_same_function(net, child, observations(num_more=3))


@every_growth
def test_a_little_noise_tells_copies_apart(old, new):
    net, x = network(old), observations()
    exact, noisy = grown(net, new), grown(net, new, noise=1e-3)
    assert not torch.equal(exact.weights, noisy.weights)
    difference = (outputs(net, x)[0] - outputs(noisy, x)[0]).abs().max()
    assert 0 < difference < 0.1


def test_noise_is_in_what_new_units_read():
    net = network(tower([5, "b"]))
    child, exact = grown(net, tower([8, "b"]), noise=0.1), grown(net, tower([8, "b"]))
    moved = {
        name: own != its
        for (name, own), its in zip(child.layers(1).items(), exact.layers(1).values(), strict=True)
    }
    assert moved["0.weight"][5:].all()
    assert moved["0.bias"][5:].all()
    assert not moved["0.weight"][:5].any()
    assert not any(moved[name].any() for name in moved if name[0] != "0")


def test_a_child_depends_on_its_own_seed_alone():
    net, target = network(tower([7])), network(tower([12]), seeds=(8,))
    whole, again = (
        grow(net, target, noise=0.1, stream=stream(*seeds)) for seeds in ((7, 8, 9), (1, 8, 2))
    )
    assert torch.equal(whole.weights[1], again.weights[1])
    assert not torch.equal(whole.weights[0], again.weights[0])
