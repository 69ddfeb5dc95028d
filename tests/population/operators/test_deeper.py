"""Deepening leaves every function as it is."""

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

GROWTHS = {
    "hidden": (tower([7, 5]), tower([7, 7, 5, 5])),
    "residual": (tower([6, "r6"]), tower([6, "r6", "r6", "r6"])),
    "residual after projection": (tower(["r8", 4]), tower(["r8", "rl8", "r8", 4])),
    "before norms": (tower([7, "b", 5, "l"]), tower([7, "r7", "b", 5, 5, "rl5", "l"])),
    "deep sets": (
        tower([5], encoder=ENCODERS["deep sets"]),
        tower(["r6", 5], encoder=ENCODERS["deep sets"]),
    ),
    "attention": (
        tower([5], encoder=ENCODERS["attention"]),
        tower([5, "r5"], encoder=ENCODERS["attention"]),
    ),
    "dueling": (tower([7], dueling=True), tower([7, "r7"], dueling=True)),
    "orthogonal": (tower([7, 5]), tower([7, "r7", 5], init="orthogonal", last_scale=0.1)),
    "nothing new": (tower([7, "b", "r5"]), tower([7, "b", "r5"])),
}
every_growth = pytest.mark.parametrize(("old", "new"), GROWTHS.values(), ids=GROWTHS)


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
    with torch.no_grad():
        x = observations()
        torch.testing.assert_close(
            child(x, training=True), net(x, training=True), rtol=1e-3, atol=1e-4
        )


@every_growth
def test_new_layers_learn(old, new):
    """What was zeroed gets a gradient, so that blocks do not stay the identity."""
    child, x = grown(network(old), new), observations()
    gradients = child.parts(child.gradients(child(x, training=True).square().sum()))
    zeroed = [name for name, part in child.parts(child.weights).items() if not part.any()]
    assert all(gradients[name].any() for name in zeroed if name.endswith("weight"))


def test_both_towers_grow():
    net = network(tower([6, "l"]), tower([5, "b"], num_outputs=1))
    child = grown(net, tower([6, "r6", "l"]), tower([5, 5, "b"], num_outputs=1))
    assert_same_function(net, child, observations())


def test_noise_moves_new_linear_layers_alone():
    net, x = network(tower([7, "b"])), observations()
    exact, noisy = (grown(net, tower([7, 7, "b", 5][:3]), noise=noise) for noise in (0.0, 1e-3))
    moved = {
        name: own != its
        for (name, own), its in zip(noisy.layers(1).items(), exact.layers(1).values(), strict=True)
    }
    assert moved["1.weight"].all()
    assert not any(moved[name].any() for name in moved if name != "1.weight")
    assert 0 < (outputs(net, x)[0] - outputs(noisy, x)[0]).abs().max() < 0.05


def test_a_child_depends_on_its_own_seed_alone():
    net, target = network(tower([7])), network(tower([7, "r7"]), seeds=(8,))
    whole, again = (
        grow(net, target, noise=0.1, stream=stream(*seeds)) for seeds in ((7, 8, 9), (1, 8, 2))
    )
    assert torch.equal(whole.weights[1], again.weights[1])
    assert not torch.equal(whole.weights[0], again.weights[0])
    assert whole.weights.shape[0] == P
