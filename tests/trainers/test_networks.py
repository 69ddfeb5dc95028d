"""Stacked networks against torch.nn modules, one a member, in float64."""

import math

import pytest
import torch
from torch import Tensor, nn

from hpsearch.game.philox import Stream
from hpsearch.trainers.net_arch import parse
from hpsearch.trainers.networks import Network

NUM_MEMBERS, NUM_GAMES, NUM_INPUTS, NUM_OUTPUTS = 3, 10, 6, 4
NET_ARCHES = {
    "linear": [],
    "hidden": [7, 5],
    "norm first": ["b", 5],
    "norms": [7, "b", {"repeat": 2, "net_arch": [5, "b"]}],
    "residual same width": [6, "r6"],
    "residual projected": ["r8", "r8", "b", "r3"],
}
every_net_arch = pytest.mark.parametrize("net_arch", NET_ARCHES.values(), ids=NET_ARCHES)


class ResidualBlock(nn.Module):
    """Linear, norm, ReLU, linear, norm, plus the input, projected where the width changes."""

    def __init__(self, num_inputs: int, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(num_inputs, width),
            nn.BatchNorm1d(width),
            nn.ReLU(),
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
        )
        self.skip = nn.Sequential()
        if num_inputs != width:
            self.skip = nn.Sequential(nn.Linear(num_inputs, width), nn.BatchNorm1d(width))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.body(x) + self.skip(x))


def unrolled(net_arch) -> list:
    flat = []
    for item in net_arch:
        flat += unrolled(item["net_arch"]) * item["repeat"] if isinstance(item, dict) else [item]
    return flat


def torch_module(net_arch) -> nn.Module:
    layers, width = [], NUM_INPUTS
    for item in unrolled(net_arch):
        if item == "b":
            layers.append(nn.BatchNorm1d(width))
        elif isinstance(item, str):
            layers.append(ResidualBlock(width, int(item[1:])))
            width = int(item[1:])
        else:
            layers += [nn.Linear(width, item), nn.ReLU()]
            width = item
    return nn.Sequential(*layers, nn.Linear(width, NUM_OUTPUTS)).double()


def leaf_modules(module: nn.Module) -> list[nn.Module]:
    """Return linear layers and norms in the order of the forward pass."""
    return [m for m in module.modules() if isinstance(m, nn.Linear | nn.BatchNorm1d)]


@torch.no_grad()
def fill(module: nn.Module, weights: Tensor, statistics: Tensor) -> nn.Module:
    """Give ``module`` one member's row of the bank and of the running statistics."""
    weights, statistics = weights.double(), statistics.double()
    for leaf in leaf_modules(module):
        if isinstance(leaf, nn.Linear):
            shape = leaf.in_features, leaf.out_features
            weight, bias, weights = weights.split([math.prod(shape), shape[1], rest(weights, leaf)])
            leaf.weight.copy_(weight.reshape(shape).T)
            leaf.bias.copy_(bias)
        else:
            width = leaf.num_features
            scale, shift, weights = weights.split([width, width, rest(weights, leaf)])
            mean, var, statistics = statistics.split([width, width, len(statistics) - 2 * width])
            leaf.weight.copy_(scale)
            leaf.bias.copy_(shift)
            leaf.running_mean.copy_(mean)
            leaf.running_var.copy_(var)
    assert len(weights) == len(statistics) == 0
    return module


def rest(weights: Tensor, leaf: nn.Module) -> int:
    return len(weights) - leaf.weight.numel() - leaf.bias.numel()


def gradients_of(module: nn.Module) -> Tensor:
    parts = []
    for leaf in leaf_modules(module):
        weight = leaf.weight.grad
        parts += [weight.T.flatten() if weight.ndim == 2 else weight, leaf.bias.grad]
    return torch.cat(parts)


def statistics_of(module: nn.Module) -> Tensor:
    norms = [m for m in leaf_modules(module) if isinstance(m, nn.BatchNorm1d)]
    parts = [part for norm in norms for part in (norm.running_mean, norm.running_var)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def network(net_arch, seeds=(1, 2, 3)) -> Network:
    """Return a network whose norms are not the identity, as after some training."""
    keys = torch.tensor(seeds)
    net = Network(NUM_INPUTS, parse(net_arch), NUM_OUTPUTS, Stream(keys, torch.zeros_like(keys)))
    generator = torch.Generator().manual_seed(0)
    net.weights += 0.1 * torch.randn(net.weights.shape, generator=generator)
    net.statistics += 0.5 * torch.rand(net.statistics.shape, generator=generator)
    return net


def inputs() -> Tensor:
    shape = NUM_MEMBERS, NUM_GAMES, NUM_INPUTS
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(1))


@every_net_arch
@pytest.mark.parametrize("training", [False, True])
def test_values_gradients_and_statistics_are_those_of_torch(net_arch, training):
    net, x = network(net_arch), inputs()
    modules = [
        fill(torch_module(net_arch), net.weights[p], net.statistics[p]).train(training)
        for p in range(NUM_MEMBERS)
    ]
    out = net(x, training=training)
    gradients = net.gradients(out.square().mean(dim=(1, 2)).sum())
    for p, module in enumerate(modules):
        expected = module(x[p].double())
        expected.square().mean().backward()
        torch.testing.assert_close(out[p].double(), expected, rtol=1e-4, atol=1e-5)
        own = gradients[p].double()
        torch.testing.assert_close(own, gradients_of(module), rtol=1e-3, atol=1e-5)
        running = net.statistics[p].double()
        torch.testing.assert_close(running, statistics_of(module), rtol=1e-5, atol=1e-6)


@every_net_arch
def test_weights_begin_as_torch_draws_them(net_arch):
    """Linear layers uniform on +-1/sqrt(I), norms the identity."""
    keys = torch.arange(200)
    net = Network(NUM_INPUTS, parse(net_arch), NUM_OUTPUTS, Stream(keys, torch.zeros_like(keys)))
    start = 0
    for leaf in leaf_modules(torch_module(net_arch)):
        size = leaf.weight.numel() + leaf.bias.numel()
        drawn = net.weights[:, start : start + size]
        start += size
        if isinstance(leaf, nn.Linear):
            bound = leaf.in_features**-0.5
            assert drawn.abs().max() <= bound
            assert drawn.mean().abs() < bound * 5 / math.sqrt(3 * drawn.numel())
            assert drawn.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
        else:
            ones, zeros = drawn.chunk(2, dim=1)
            assert (ones == 1).all()
            assert (zeros == 0).all()
    assert start == net.weights.shape[1]


def test_a_members_first_weights_depend_on_its_seed_alone():
    keys = torch.tensor([5, 6, 5])
    net = Network(NUM_INPUTS, parse([7]), NUM_OUTPUTS, Stream(keys, torch.zeros_like(keys)))
    alone = Network(NUM_INPUTS, parse([7]), NUM_OUTPUTS, Stream(keys[1:2], keys[1:2] * 0))
    assert torch.equal(net.weights[0], net.weights[2])
    assert torch.equal(net.weights[1], alone.weights[0])
    assert not torch.equal(net.weights[0], net.weights[1])


def test_evaluation_leaves_statistics_alone():
    net, x = network([7, "b"]), inputs()
    before = net.statistics.clone()
    whole = net(x)
    assert torch.equal(net.statistics, before)
    # Without batch statistics a game's value does not depend on the other games.
    torch.testing.assert_close(net(x[:, :1]), whole[:, :1])


def test_move_towards_mixes_by_each_members_share():
    net, other = network([7, "b"]), network([7, "b"], seeds=(4, 5, 6))
    other.statistics += 1
    share = torch.tensor([0.0, 0.25, 1.0])
    weights, statistics = net.weights.clone(), net.statistics.clone()
    net.move_towards(other, share)
    for own, old, new in (
        (net.weights, weights, other.weights),
        (net.statistics, statistics, other.statistics),
    ):
        assert torch.equal(own[0], old[0])
        torch.testing.assert_close(own[1], 0.75 * old[1] + 0.25 * new[1])
        assert torch.equal(own[2], new[2])


def test_padding_differs_from_a_point_at_the_origin():
    """The first layer sees the observation itself, not its ReLU (seeds.md B6)."""
    net = network([7])
    padding, origin = torch.full((2, NUM_MEMBERS, 1, NUM_INPUTS), -1.0).unbind(0)
    origin = origin.clone()
    origin[..., :3] = 0.0
    assert not torch.allclose(net(padding), net(origin))
