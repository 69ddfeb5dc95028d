"""Gaussian mutation: as large as asked for, in every layer, and repeatable."""

from statistics import NormalDist

import pytest
import torch
from operator_nets import every_structure, network, stream, tower

from hpsearch.game.kernels.threads import threads
from hpsearch.population.operators.base import layer_sizes, normal
from hpsearch.population.operators.weights import gaussian_mutation
from hpsearch.trainers.networks import Network

STRENGTH = torch.tensor([0.0, 0.1, 1.0])


def mutated(net: Network) -> Network:
    return gaussian_mutation(net, strength=STRENGTH, stream=stream(7, 8, 9))


@every_structure
def test_every_layer_moves_by_its_share(towers):
    """The oracle goes layer by layer as torch lays it out."""
    net = network(*towers)
    before = {name: tensor.clone() for name, tensor in net.state().items()}
    child = mutated(net)
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state().items())
    assert torch.equal(child.statistics, net.statistics)
    assert torch.equal(child.weights[0], net.weights[0])
    scaled = []
    for p in (1, 2):
        old, new = net.layers(p), child.layers(p)
        for name in (name for name in old if name.endswith(("weight", "bias"))):
            rms = old[f"{name.rpartition('.')[0]}.weight"].square().mean().sqrt()
            scaled.append(((new[name] - old[name]) / (rms * STRENGTH[p])).flatten())
    noise = torch.cat(scaled)
    assert noise.mean().abs() < 5 / len(noise) ** 0.5
    assert noise.std() == pytest.approx(1.0, abs=5 / len(noise) ** 0.5)


@pytest.mark.parametrize("strength", [-1.0, float("nan"), float("inf")])
def test_a_strength_that_is_none_is_refused(strength):
    with pytest.raises(ValueError, match="strength must be finite and at least 0"):
        gaussian_mutation(
            network(tower([7])), strength=torch.full((3,), strength), stream=stream(7, 8, 9)
        )


def test_noise_is_normal():
    net = network(tower([200, 200]))
    child = gaussian_mutation(net, strength=torch.ones(3), stream=stream(7, 8, 9))
    noise = ((child.weights - net.weights) / layer_sizes(net)).double().flatten().sort().values
    expected = (torch.arange(len(noise)) + 0.5) / len(noise)
    assert (torch.special.ndtr(noise) - expected).abs().max() < 1.6 / len(noise) ** 0.5


def test_the_number_of_threads_changes_no_digit():
    """From 32,768 weights of a layer on, torch shares out the sum of a member that is alone.

    The last digit differs in some of the sums.
    """
    net = network(tower([256, 256])).like(1)
    for seed in range(20):
        generator = torch.Generator().manual_seed(seed)
        net.weights.copy_(torch.randn(net.weights.shape, generator=generator))
        sizes = []
        for count in (1, 2, 3, 16):
            with threads(count):
                sizes.append(layer_sizes(net))
        assert all(torch.equal(sizes[0], other) for other in sizes[1:])


def test_a_child_depends_on_its_own_seed_and_parent_alone():
    net = network(tower([7, "b"]))
    whole = mutated(net)
    alone = net.like(1)
    alone.weights.copy_(net.weights[2:])
    child = gaussian_mutation(alone, strength=STRENGTH[2:], stream=stream(9))
    assert torch.equal(child.weights[0], whole.weights[2])
    assert torch.equal(mutated(net).weights, whole.weights)


def test_arguments_are_of_every_member():
    net = network(tower([7]))
    with pytest.raises(ValueError, match=r"strength must hold one number for each of 3 members"):
        gaussian_mutation(net, strength=STRENGTH[:2], stream=stream(7, 8, 9))
    with pytest.raises(ValueError, match=r"stream needs a row for each of 3 members, got \(2,\)"):
        gaussian_mutation(net, strength=STRENGTH, stream=stream(7, 8))


def test_normal_numbers_are_finite_and_as_often_above_as_below():
    """The least and the greatest uniform number lie as far from the middle."""

    class Ends:
        def uniform(self, num_numbers):
            return torch.tensor([[0.0, 1.0 - 2.0**-24, 0.5 - 2.0**-24, 0.5]])

    low, high, below, above = normal(Ends(), 4)[0].tolist()
    assert low == pytest.approx(NormalDist().inv_cdf(2.0**-25), rel=1e-6)
    assert high == -low
    assert above == -below > 0
