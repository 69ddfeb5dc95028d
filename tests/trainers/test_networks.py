"""Stacked networks against torch.nn modules, one a member, in float64."""

import math
import shutil
from functools import partial

import pytest
import torch
import torch._dynamo
from torch import Tensor, nn

from hpsearch.game.stream import Stream
from hpsearch.trainers import layers_cpu, networks
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.config.weight_layout import (
    SUMMED_IN_ORDER,
    Inputs,
    Tower,
    weight_layout,
)
from hpsearch.trainers.first_weights import first_statistics, first_weights
from hpsearch.trainers.layers import Reader, apply_layer
from hpsearch.trainers.networks import Arithmetic, Network

NUM_MEMBERS, NUM_GAMES, NUM_INPUTS, NUM_OUTPUTS = 3, 10, 6, 4
INPUTS = Inputs(num_points=2, dimension=3, num_more=0)
NET_ARCHES = {
    "linear": [],
    "hidden": [7, 5],
    "of one": [5, 1],
    "norm first": ["b", 5],
    "norms": [7, "b", {"repeat": 2, "net_arch": [5, "b"]}],
    "residual same width": [6, "r6"],
    "residual projected": ["r8", "r8", "b", "r3"],
    "layer norm first": ["l", 5],
    "layer norms": [7, "l", {"repeat": 2, "net_arch": [5, "l"]}],
    "residual with layer norms": ["rl6", "rl8", "rl8", "l", "rl3"],
    "all kinds": ["b", "rl5", "l", 4, "r7", "l"],
}
every_net_arch = pytest.mark.parametrize("net_arch", NET_ARCHES.values(), ids=NET_ARCHES)
both_ways = pytest.mark.parametrize("wide", [1, 1000], ids=["by member", "stacked"])
all_ways = pytest.mark.parametrize(
    ("wide", "many_rows"),
    [(1, 1000), (1000, 1000), (1000, 1)],
    ids=["by member", "stacked", "stacked, few outputs transposed"],
)
both_activations = pytest.mark.parametrize("activation", ["relu", "tanh"])
ACTIVATIONS = {"relu": nn.ReLU, "tanh": nn.Tanh}
FP32, BF16 = Arithmetic("fp32", "off"), Arithmetic("bf16", "off")
ENCODERS = {
    "flatten": FlattenEncoder("flatten", 2),
    "deep sets": DeepSetsEncoder("deep_sets", (7, 5), "mean"),
    "attention": AttentionEncoder("attention", width=6, heads=2, blocks=2),
}
every_encoder = pytest.mark.parametrize("encoder", ENCODERS.values(), ids=ENCODERS)


class ResidualBlock(nn.Module):
    """Linear, norm, activation, linear, norm, plus the input, projected to another width."""

    def __init__(self, num_inputs: int, width: int, norm, activation: str) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Linear(num_inputs, width),
            norm(width),
            ACTIVATIONS[activation](),
            nn.Linear(width, width),
            norm(width),
        )
        self.skip = nn.Sequential()
        if num_inputs != width:
            self.skip = nn.Sequential(nn.Linear(num_inputs, width), norm(width))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, x: Tensor) -> Tensor:
        return self.activation(self.body(x) + self.skip(x))


def unrolled(net_arch) -> list:
    flat = []
    for item in net_arch:
        flat += unrolled(item["net_arch"]) * item["repeat"] if isinstance(item, dict) else [item]
    return flat


def torch_module(net_arch, activation="relu", num_outputs=NUM_OUTPUTS) -> nn.Sequential:
    layers, width = [], NUM_INPUTS
    for item in unrolled(net_arch):
        if item in ("b", "l"):
            layers.append(nn.BatchNorm1d(width) if item == "b" else nn.LayerNorm(width))
        elif isinstance(item, str):
            norm = nn.LayerNorm if item[1] == "l" else nn.BatchNorm1d
            new_width = int(item.lstrip("rl"))
            layers.append(ResidualBlock(width, new_width, norm, activation))
            width = new_width
        else:
            layers += [nn.Linear(width, item), ACTIVATIONS[activation]()]
            width = item
    return nn.Sequential(*layers, nn.Linear(width, num_outputs)).double()


LEAVES = nn.Linear | nn.BatchNorm1d | nn.LayerNorm


def leaf_modules(module: nn.Module) -> list[nn.Module]:
    """Return linear layers and norms in the order of the forward pass."""
    return [m for m in module.modules() if isinstance(m, LEAVES)]


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
            width = leaf.weight.numel()
            scale, shift, weights = weights.split([width, width, rest(weights, leaf)])
            leaf.weight.copy_(scale)
            leaf.bias.copy_(shift)
        if isinstance(leaf, nn.BatchNorm1d):
            mean, var, statistics = statistics.split([width, width, len(statistics) - 2 * width])
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
    norms = [m for m in module.modules() if isinstance(m, nn.BatchNorm1d)]
    parts = [part for norm in norms for part in (norm.running_mean, norm.running_var)]
    return torch.cat(parts) if parts else torch.zeros(0, dtype=torch.float64)


def tower(net_arch, **changes) -> Tower:
    fields = {
        "encoder": ENCODERS["flatten"],
        "layers": parse(net_arch),
        "activation": "relu",
        "num_outputs": NUM_OUTPUTS,
        "init": "uniform",
        "last_scale": 1.0,
        "dueling": False,
    }
    return Tower(**fields | changes)


def stream(seeds) -> Stream:
    keys = torch.as_tensor(seeds)
    return Stream(keys, torch.zeros_like(keys))


def network(*towers, seeds=(1, 2, 3), arithmetic=FP32, seen=INPUTS) -> Network:
    """Return a network whose norms are not the identity, as after some training."""
    net = Network(seen, towers, arithmetic, stream(seeds))
    generator = torch.Generator().manual_seed(0)
    net.weights += 0.1 * torch.randn(net.weights.shape, generator=generator)
    net.statistics += 0.5 * torch.rand(net.statistics.shape, generator=generator)
    return net


def inputs() -> Tensor:
    shape = NUM_MEMBERS, NUM_GAMES, NUM_INPUTS
    return 2 * torch.randn(shape, generator=torch.Generator().manual_seed(1))


@every_net_arch
@both_activations
@pytest.mark.parametrize("training", [False, True])
@all_ways
def test_values_gradients_and_statistics_are_those_of_torch(
    monkeypatch, net_arch, activation, training, wide, many_rows
):
    monkeypatch.setattr(networks, "WIDE", wide)
    monkeypatch.setattr(layers_cpu, "MANY_ROWS", many_rows)
    net, x = network(tower(net_arch, activation=activation)), inputs()
    modules = [
        fill(torch_module(net_arch, activation), net.weights[p], net.statistics[p]).train(training)
        for p in range(NUM_MEMBERS)
    ]
    out = net.update_pass(x, training=training)
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
def test_statistics_begin_as_those_of_torch(net_arch):
    net = Network(INPUTS, [tower(net_arch)], FP32, stream(range(NUM_MEMBERS)))
    fresh = statistics_of(torch_module(net_arch, "relu"))
    assert torch.equal(net.statistics.double(), fresh.expand(NUM_MEMBERS, -1))


@every_net_arch
def test_weights_begin_as_torch_draws_them(net_arch):
    """Linear layers uniform on +-1/sqrt(I), norms the identity."""
    net = Network(INPUTS, [tower(net_arch)], FP32, stream(range(200)))
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


@pytest.mark.parametrize("init", ["uniform", "orthogonal"])
def test_a_members_first_weights_depend_on_its_seed_alone(init):
    net, alone = (
        Network(INPUTS, [tower([7], init=init)], FP32, stream(seeds)) for seeds in ([5, 6, 5], [6])
    )
    assert torch.equal(net.weights[0], net.weights[2])
    assert torch.equal(net.weights[1], alone.weights[0])
    assert not torch.equal(net.weights[0], net.weights[1])


@every_encoder
@pytest.mark.parametrize("training", [False, True])
def test_layers_by_member_are_stacked_ones(monkeypatch, encoder, training):
    structure = tower([40, "b", "rl5"], encoder=encoder, dueling=True)
    net, other = networks_of_both_ways(monkeypatch, structure)
    x = inputs().abs()
    outs = net.update_pass(x, training=training), other.update_pass(x, training=training)
    torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)
    losses = [out.square().mean(dim=(1, 2)).sum() for out in outs]
    gradients = net.gradients(losses[0]), other.gradients(losses[1])
    # Rounding follows the largest gradient, which is large with attention.
    largest = gradients[0].abs().max().item()
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5 * max(largest, 1.0))
    torch.testing.assert_close(net.statistics, other.statistics)
    with torch.no_grad():
        outs = net.update_pass(x), other.update_pass(x)
        torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("num_more", [0, 3])
def test_layers_by_member_that_see_the_first_points_alone(monkeypatch, num_more):
    seen = Inputs(num_points=4, dimension=3, num_more=num_more)
    structure = tower([40], encoder=FlattenEncoder("flatten", 2))
    nets = networks_of_both_ways(monkeypatch, structure, seen)
    x = torch.randn(3, 9, 12 + num_more, generator=torch.Generator().manual_seed(1))
    outs = [net.update_pass(x) for net in nets]
    torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)
    gradients = [net.gradients(out.square().sum()) for net, out in zip(nets, outs, strict=True)]
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-4)
    with torch.no_grad():
        torch.testing.assert_close(*(net.update_pass(x) for net in nets), rtol=1e-4, atol=1e-5)


def test_gradients_whose_rows_are_one_memory_pass_layers_by_member(monkeypatch):
    nets, x = networks_of_both_ways(monkeypatch, tower([40])), inputs()
    gradients = [net.gradients(net.update_pass(x).sum()) for net in nets]
    torch.testing.assert_close(*gradients, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("index", [0, 1])
@pytest.mark.parametrize(("more", "is_by_member"), [(-1, False), (0, True)])
def test_many_games_pass_as_those_of_an_update(monkeypatch, training, index, more, is_by_member):
    towers = tower([40, "b", "r8"]), tower([40, "b"])
    monkeypatch.setattr(networks, "WIDE", 1000)
    stacked = network(*towers)
    monkeypatch.setattr(networks, "WIDE", 1)
    net, other = network(*towers), network(*towers)
    shape = NUM_MEMBERS, networks.MANY_GAMES + more, NUM_INPUTS
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    out, expected = (each(x, tower=index, training=training) for each in (net, stacked))
    torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(net.statistics, stacked.statistics)
    of_update = other.update_pass(x, tower=index, training=training)
    assert torch.equal(out, of_update if is_by_member else expected)


def test_layers_whose_digits_may_depend_on_threads_pass_stacked_in_play(monkeypatch):
    """As a saved opponent may have them: sums of more numbers than are known to be in order."""
    stacked, net = networks_of_both_ways(monkeypatch, tower([2 * SUMMED_IN_ORDER, 8]))
    shape = NUM_MEMBERS, networks.MANY_GAMES, NUM_INPUTS
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    assert torch.equal(net(x), stacked(x))
    assert not torch.equal(net.update_pass(x), stacked(x))


def networks_of_both_ways(
    monkeypatch, structure: Tower, seen: Inputs = INPUTS
) -> tuple[Network, Network]:
    """Return two networks of the same weights, whose layers are stacked and by member."""
    monkeypatch.setattr(networks, "WIDE", 1000)
    stacked = network(structure, seen=seen)
    monkeypatch.setattr(networks, "WIDE", 1)
    return stacked, network(structure, seen=seen)


def test_evaluation_leaves_statistics_alone():
    net, x = network(tower([7, "b"])), inputs()
    before = net.statistics.clone()
    whole = net(x)
    assert torch.equal(net.statistics, before)
    # Without batch statistics a game's value does not depend on the other games.
    torch.testing.assert_close(net(x[:, :1]), whole[:, :1])


def test_statistics_follow_by_each_members_share():
    net, other = network(tower([7, "b"])), network(tower([7, "b"]), seeds=(4, 5, 6))
    other.statistics += 1
    weights, statistics = net.weights.clone(), net.statistics.clone()
    net.follow_statistics(other, torch.tensor([0.0, 0.25, 1.0]))
    assert torch.equal(net.weights, weights)
    assert torch.equal(net.statistics[0], statistics[0])
    expected = 0.75 * statistics[1] + 0.25 * other.statistics[1]
    torch.testing.assert_close(net.statistics[1], expected)
    assert torch.equal(net.statistics[2], other.statistics[2])


def test_padding_differs_from_a_point_at_the_origin():
    """The first layer sees the observation itself, not its ReLU (seeds.md B6)."""
    net = network(tower([7]))
    padding, origin = torch.full((2, NUM_MEMBERS, 1, NUM_INPUTS), -1.0).unbind(0)
    origin = origin.clone()
    origin[..., :3] = 0.0
    assert not torch.allclose(net(padding), net(origin))


TWO = (["b", 7, "rl5"], [5, "l", "r4", "b"])


def two_towers() -> Network:
    return network(tower(TWO[0]), tower(TWO[1], activation="tanh", num_outputs=1))


def twins(net: Network, p: int) -> list[nn.Module]:
    """Return member p's two towers as modules of torch, the first one's weights first."""
    modules = [torch_module(TWO[0]), torch_module(TWO[1], "tanh", 1)]
    sizes = [sum(weight.numel() for weight in module.parameters()) for module in modules]
    widths = [len(statistics_of(module)) for module in modules]
    weights, statistics = net.weights[p].split(sizes), net.statistics[p].split(widths)
    return [fill(*row) for row in zip(modules, weights, statistics, strict=True)]


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("index", [0, 1], ids=["policy", "value"])
def test_each_tower_is_a_network_of_its_own(index, training):
    net, x = two_towers(), inputs()
    modules = [twins(net, p) for p in range(NUM_MEMBERS)]
    before = net.statistics.clone()
    out = net(x, tower=index, training=training)
    gradients = net.gradients(out.square().mean(dim=(1, 2)).sum())
    first = sum(weight.numel() for weight in modules[0][0].parameters())
    for p, towers in enumerate(modules):
        own = towers[index].train(training)
        expected = own(x[p].double())
        expected.square().mean().backward()
        torch.testing.assert_close(out[p].double(), expected, rtol=1e-4, atol=1e-5)
        mine, others = gradients[p, :first], gradients[p, first:]
        if index == 1:
            mine, others = others, mine
        torch.testing.assert_close(mine.double(), gradients_of(own), rtol=1e-3, atol=1e-5)
        assert not others.any()
        running = torch.cat([statistics_of(module) for module in towers])
        torch.testing.assert_close(net.statistics[p].double(), running, rtol=1e-5, atol=1e-6)
    assert torch.equal(net.statistics, before) != training


def test_a_loss_of_both_towers_is_the_sum_of_their_gradients():
    net, x = two_towers(), inputs()
    policy, value = (net.gradients(net(x, tower=t).square().sum()) for t in (0, 1))
    loss = net(x, tower=0).square().sum() + net(x, tower=1).square().sum()
    torch.testing.assert_close(net.gradients(loss), policy + value)


@every_encoder
def test_a_members_gradient_is_its_own(encoder):
    """A loss of one member alone moves no other, and sees no other's games."""
    net, x = network(tower(["l", "r4"], encoder=encoder)), inputs().abs()
    together = net.gradients(net(x, training=True).square().mean(dim=(1, 2)).sum())
    other = x.clone()
    other[[0, 2]] += 1.0
    only = net.gradients(net(other, training=True).square().mean(dim=(1, 2))[1])
    torch.testing.assert_close(only[1], together[1])
    assert together[[0, 2]].any(dim=1).all()
    assert not only[[0, 2]].any()


@both_activations
@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("item", [5, "b", "l", "r4", "r5", "rl4", "rl5"])
def test_every_layers_derivative_is_the_limit_of_its_differences(item, activation, training):
    """By weights and inputs, in float64."""
    structure = tower([item], encoder=FlattenEncoder("flatten", 1))
    layout, (layer,) = weight_layout(Inputs(1, 4, 0), (structure,)), structure.layers
    generator = torch.Generator().manual_seed(0)
    weights = first_weights(layout, stream([1, 2])).double()
    weights += 0.1 * torch.randn(weights.shape, generator=generator, dtype=torch.float64)
    x = torch.randn(2, 6, 4, generator=generator, dtype=torch.float64, requires_grad=True)
    statistics = first_statistics(layout, 2, torch.device("cpu")).double()
    views = [
        weights[:, place].unflatten(1, (rows, -1)).requires_grad_()
        for affine in layout.affines[:-1]
        for place, rows in ((affine.weight, affine.shape[0]), (affine.bias, 1))
    ]

    def function(x, *views):
        rest = iter(views)
        reader = Reader(rest, statistics.clone(), activation=activation, training=training)
        out = apply_layer(reader, layer, x)
        assert next(rest, None) is None
        return out

    assert torch.autograd.gradcheck(function, (x, *views))


@every_net_arch
def test_dueling_outputs_are_a_value_plus_centred_advantages(net_arch):
    """The oracle's last layer gives the value first, then an advantage for each output."""
    net, x = network(tower(net_arch, dueling=True)), inputs()
    out = net(x)
    gradients = net.gradients(out.square().mean(dim=(1, 2)).sum())
    for p in range(NUM_MEMBERS):
        module = torch_module(net_arch, num_outputs=NUM_OUTPUTS + 1)
        last = fill(module, net.weights[p], net.statistics[p]).eval()(x[p].double())
        value, advantages = last[:, :1], last[:, 1:]
        centred = advantages - advantages.mean(dim=1, keepdim=True)
        own = out[p].double()
        torch.testing.assert_close(own.mean(dim=1, keepdim=True), value, rtol=1e-4, atol=1e-5)
        centred_advantages = own - own.mean(dim=1, keepdim=True)
        torch.testing.assert_close(centred_advantages, centred, rtol=1e-4, atol=1e-5)
        (value + centred).square().mean().backward()
        expected = gradients_of(module)
        torch.testing.assert_close(gradients[p].double(), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("net_arch", [["b", 5], [7, "l", 5, "b"], []])
def test_layers_are_named_and_laid_out_as_in_torch(net_arch):
    net, x = network(tower(net_arch)), inputs()
    for p in range(NUM_MEMBERS):
        # Layers are counted without their activations.
        module = nn.Sequential(*leaf_modules(torch_module(net_arch)))
        expected = [name for name in module.state_dict() if "num_batches" not in name]
        layers = net.layers(p)
        assert list(layers) == expected
        problems = module.load_state_dict(layers, strict=False)
        assert all(name.endswith("num_batches_tracked") for name in problems.missing_keys)
        parts = [m if isinstance(m, nn.Linear) else [m] for m in module]
        y = x[p].double()
        for index, layer in enumerate(module.eval()):
            y = layer(y)
            is_hidden = isinstance(layer, nn.Linear) and index < len(parts) - 1
            y = torch.relu(y) if is_hidden else y
        torch.testing.assert_close(net(x)[p].double(), y, rtol=1e-4, atol=1e-5)


def test_layers_of_several_towers_begin_with_the_towers_number():
    net = network(tower([7, "b"]), tower(["l"], num_outputs=1))
    assert list(net.layers(1)) == [
        *("0.0.weight", "0.0.bias", "0.1.weight", "0.1.bias"),
        *("0.1.running_mean", "0.1.running_var", "0.2.weight", "0.2.bias"),
        *("1.0.weight", "1.0.bias", "1.1.weight", "1.1.bias"),
    ]
    assert net.layers(1)["1.1.weight"].shape == (1, NUM_INPUTS)
    for p, (policy, value) in ((p, (net.layers(p), net.layers(p))) for p in range(NUM_MEMBERS)):
        assert torch.equal(policy["0.1.running_mean"], net.statistics[p, :7])
        assert torch.equal(value["1.1.bias"], net.weights[p, -1:])


def test_parts_are_views_in_the_order_of_the_bank():
    net = network(tower([7, "b"]), tower(["l"], num_outputs=1))
    bank = torch.arange(net.weights.numel()).reshape(net.weights.shape).float()
    parts = net.parts(bank)
    assert list(parts) == [name for name in net.layers(0) if "running" not in name]
    assert torch.equal(torch.cat([part.flatten(1) for part in parts.values()], dim=1), bank)
    assert all(part.shape[0] == NUM_MEMBERS for part in parts.values())
    for p, layers in enumerate(map(net.layers, range(NUM_MEMBERS))):
        for name, part in net.parts(net.weights).items():
            expected = layers[name].T if layers[name].ndim == 2 else layers[name][None]
            assert torch.equal(part[p], expected), name
    parts["1.0.bias"].zero_()
    assert (bank == 0).sum() == NUM_MEMBERS * NUM_INPUTS + 1  # bank[0, 0] was 0


def test_copies_and_likes_have_the_same_structure_and_their_own_memory():
    net, x = two_towers(), inputs()
    other = net.like(NUM_MEMBERS)
    assert not other.weights.any()
    other.copy_(net)
    for index in (0, 1):
        assert torch.equal(other(x, tower=index), net(x, tower=index))
    before = net.weights.clone()
    other.weights += 1.0
    assert torch.equal(net.weights, before)
    assert net.like(5).weights.shape == (5, net.weights.shape[1])


ARCHES = [["l", 16, "rl16"], ["b", "r16", 8]]


@every_encoder
@pytest.mark.parametrize("net_arch", ARCHES, ids=["layer norms", "batch norms"])
@pytest.mark.parametrize("training", [False, True])
def test_bf16_is_close_to_fp32(encoder, net_arch, training):
    """To some of bf16's steps of 2^-8, of which batch norms of small variance make more."""
    nets = [network(tower(net_arch, encoder=encoder), arithmetic=a) for a in (FP32, BF16)]
    x = torch.rand(NUM_MEMBERS, 256, NUM_INPUTS, generator=torch.Generator().manual_seed(2))
    outs = [net(x, training=training) for net in nets]
    grads = [
        net.gradients(out.square().mean(dim=(1, 2)).sum())
        for net, out in zip(nets, outs, strict=True)
    ]
    statistics = [net.statistics for net in nets]
    for (exact, rounded), tolerance in ((outs, 0.05), (grads, 0.1), (statistics, 0.05)):
        assert rounded.dtype == torch.float32
        assert rounded.isfinite().all()
        assert (exact - rounded).norm() <= tolerance * exact.norm()
    assert nets[1].weights.dtype == torch.float32
    assert not torch.equal(*outs)  # else nothing was rounded


@every_encoder
def test_bf16_needs_no_loss_scaling(encoder):
    """Its exponents are fp32's: a loss as small as 1e-30 has its gradients all the same."""
    net, x = network(tower(["l", 16], encoder=encoder), arithmetic=BF16), inputs().abs()
    usual, tiny = (
        net.gradients(scale * net(x).square().mean(dim=(1, 2)).sum()) for scale in (1.0, 1e-30)
    )
    assert tiny.isfinite().all()
    assert ((tiny != 0) == (usual != 0)).float().mean() > 0.99
    assert (1e30 * tiny - usual).norm() <= 0.02 * usual.norm()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs g++ on a CPU")
# Raised inside torch while it imports its own compiler.
@pytest.mark.filterwarnings("ignore:.*torch.jit.script_method:DeprecationWarning")
# torch's compiler makes an object of a function of autograd, which torch itself deprecates.
@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")
@pytest.mark.parametrize(
    "encoder",
    [
        pytest.param(
            config, marks=pytest.mark.slow if name == "flatten" else pytest.mark.exhaustive
        )
        for name, config in ENCODERS.items()
    ],
    ids=ENCODERS,
)
def test_a_compiled_network_computes_the_same(encoder):
    torch._dynamo.reset()  # a limit on compilations counts those of all networks
    towers = (
        tower(["l", "r6", "b", 5], encoder=encoder),
        tower(["rl5"], num_outputs=1, activation="tanh"),
    )
    plain, compiled = (
        network(*towers, arithmetic=Arithmetic("fp32", compile)) for compile in ("off", "default")
    )
    x = inputs().abs()
    with torch._dynamo.config.patch(fail_on_recompile_limit_hit=True):
        # The last minibatch of a pass holds fewer games.
        for num_games, index in ((NUM_GAMES, 0), (NUM_GAMES, 1), (NUM_GAMES - 3, 0)):
            outs = [
                net.update_pass(x[:, :num_games], tower=index, training=True)
                for net in (plain, compiled)
            ]
            torch.testing.assert_close(*outs, rtol=1e-4, atol=1e-5)
            gradients = [
                net.gradients(out.square().mean(dim=(1, 2)).sum())
                for net, out in zip((plain, compiled), outs, strict=True)
            ]
            torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)
            torch.testing.assert_close(plain.statistics, compiled.statistics)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0
    with torch.no_grad():
        torch.testing.assert_close(plain(x), compiled.update_pass(x))


@pytest.mark.parametrize("num_outputs", [1, NUM_OUTPUTS])
def test_a_transposed_layer_and_its_derivatives(num_outputs):
    generator = torch.Generator().manual_seed(1)
    shapes = (NUM_MEMBERS, 5, 7), (NUM_MEMBERS, 7, num_outputs), (NUM_MEMBERS, 1, num_outputs)
    x, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).requires_grad_()
        for shape in shapes
    )
    expected = torch.baddbmm(bias, x, weight)
    torch.testing.assert_close(layers_cpu.transposed_linear(x, weight, bias), expected)
    assert torch.autograd.gradcheck(layers_cpu.transposed_linear, (x, weight, bias))


@pytest.mark.parametrize(("arithmetic", "tolerance"), [(FP32, 1e-5), (BF16, 2e-2)])
def test_many_rows_give_what_a_few_at_a_time_do(arithmetic, tolerance):
    """Where rows are many, few outputs are found in another way, in full precision alone."""
    net = network(tower([7]), arithmetic=arithmetic)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(NUM_MEMBERS, layers_cpu.MANY_ROWS, NUM_INPUTS, generator=generator)
    y = net.update_pass(x)
    parts = [net.update_pass(rows) for rows in x.split(100, dim=1)]
    assert_near = partial(torch.testing.assert_close, atol=tolerance, rtol=tolerance)
    assert_near(y, torch.cat(parts, dim=1))
    assert_near(net.gradients(y.mean()), net.gradients(torch.cat(parts, dim=1).mean()))
