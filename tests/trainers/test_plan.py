"""How first weights are drawn, and where they lie."""

from math import sqrt

import pytest
import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.net_arch import parse
from hpsearch.trainers.config.players import FlattenEncoder
from hpsearch.trainers.config.weight_layout import POLICY, VALUE, Inputs, Tower, weight_layout
from hpsearch.trainers.first_weights import first_statistics, first_weights, orthogonal, uniform
from hpsearch.trainers.policies import build_net

CPU = torch.device("cpu")
SEEN = Inputs(num_points=1, dimension=3, num_more=0)
SHAPES = {"tall": (9, 4), "square": (6, 6), "wide": (3, 8), "one row": (1, 5), "one column": (5, 1)}
every_shape = pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)


def noise(num_members: int, shape: tuple[int, int]) -> Tensor:
    return torch.rand(num_members, *shape, generator=torch.Generator().manual_seed(0))


def stream(seeds) -> Stream:
    keys = torch.as_tensor(seeds)
    return Stream(keys, torch.zeros_like(keys))


def gram(weights: Tensor) -> Tensor:
    """Return the inner products of the shorter side's vectors, (P, k, k)."""
    weights = weights.double()
    is_wide = weights.shape[1] < weights.shape[2]
    return weights @ weights.mT if is_wide else weights.mT @ weights


def assert_orthogonal(weights: Tensor, gain: float) -> None:
    products = gram(weights)
    expected = gain**2 * torch.eye(products.shape[1], dtype=torch.float64)
    torch.testing.assert_close(products, expected.expand_as(products), rtol=0, atol=1e-5 * gain**2)


@every_shape
@pytest.mark.parametrize("gain", [1.0, sqrt(2.0), 0.01])
def test_orthogonal_rows_or_columns_are_of_length_gain(shape, gain):
    drawn = orthogonal(noise(50, shape), gain)
    assert drawn.dtype == torch.float32
    assert_orthogonal(drawn, gain)


def test_no_orthogonal_matrix_is_preferred():
    """Haar: an entry of an orthogonal 3 x 3 matrix has mean 0, variance 1/3, fourth moment 1/5."""
    drawn = orthogonal(noise(20_000, (3, 3)), 1.0).double()
    for power, moment in ((1, 0.0), (2, 1 / 3), (3, 0.0), (4, 1 / 5)):
        mean = drawn.pow(power).mean(dim=0)
        torch.testing.assert_close(mean, torch.full_like(mean, moment), rtol=0, atol=0.02)
    determinants = torch.linalg.det(drawn)
    assert abs((determinants > 0).double().mean().item() - 0.5) < 0.02


@every_shape
def test_the_ends_of_the_noise_give_finite_weights(shape):
    extremes = noise(3, shape)
    extremes[0, 0, 0], extremes[1, -1, -1] = 0.0, 1.0 - 2.0**-24
    extremes[2, 0, 0] = 0.5
    assert orthogonal(extremes, 1.0).isfinite().all()


@every_shape
def test_each_member_has_an_orthogonal_matrix_of_its_own(shape):
    drawn = noise(4, shape)
    together = orthogonal(drawn, 1.0)
    for p in range(4):
        assert torch.equal(together[p], orthogonal(drawn[p : p + 1], 1.0)[0])
    if 1 not in shape:
        assert not torch.equal(together[0], together[1])


def test_uniform_weights_fill_their_bounds():
    drawn = uniform(noise(100, (10, 10)), 0.25)
    assert -0.25 <= drawn.min() < -0.249
    assert 0.249 < drawn.max() < 0.25
    assert uniform(torch.tensor([0.0, 0.5, 0.75]), 2.0).tolist() == [-2.0, 0.0, 1.0]


def tower(*net_arch, **changes) -> Tower:
    fields = {
        "encoder": FlattenEncoder("flatten", 1),
        "layers": parse(net_arch),
        "activation": "relu",
        "num_outputs": 2,
        "init": "uniform",
        "last_scale": 1.0,
        "dueling": False,
    }
    return Tower(**fields | changes)


def test_layers_lie_one_behind_the_other():
    layout = weight_layout(SEEN, (tower(5, "l", "b", init="orthogonal", last_scale=0.5),))
    affines = layout.affines
    assert [affine.kind for affine in affines] == ["linear", "layer_norm", "batch_norm", "linear"]
    assert [affine.shape for affine in affines] == [(3, 5), (1, 5), (1, 5), (5, 2)]
    places = [
        range(layout.size)[place] for layer in affines for place in (layer.weight, layer.bias)
    ]
    assert [place for part in places for place in part] == list(range(layout.size))
    assert layout.size == 3 * 5 + 5 + 4 * 5 + 5 * 2 + 2
    drawn = first_weights(layout, stream([3, 4]))
    assert drawn.shape == (2, layout.size)
    assert_orthogonal(drawn[:, affines[0].weight].unflatten(1, (3, 5)), sqrt(2.0))
    assert_orthogonal(drawn[:, affines[3].weight].unflatten(1, (5, 2)), 0.5)
    for affine in affines[1:3]:
        assert (drawn[:, affine.weight] == 1.0).all()
    for affine in affines:
        assert (drawn[:, affine.bias] == 0.0).all()
    assert first_statistics(layout, 2, CPU).tolist() == [[0.0] * 5 + [1.0] * 5] * 2


def test_a_network_without_batch_norms_has_no_statistics():
    layout = weight_layout(SEEN, (tower("l"),))
    assert first_statistics(layout, 3, CPU).shape == (3, 0)


@pytest.mark.parametrize(("scale", "bound"), [(1.0, 3**-0.5), (0.01, 0.01 * 3**-0.5)])
def test_uniform_layers_are_bounded_by_the_root_of_their_inputs(scale, bound):
    layout = weight_layout(SEEN, (tower(num_outputs=300, last_scale=scale),))
    drawn = first_weights(layout, stream([1])).abs()
    assert 0.99 * bound < drawn.max() <= bound


ENCODERS = {
    "flatten": {"name": "flatten", "num_points": 3},
    "deep sets": {"name": "deep_sets", "widths": [7, 5], "pool": "max"},
    "attention": {"name": "attention", "width": 6, "heads": 2, "blocks": 1},
}
SEEDS = (11, 12, 13)


def ppo_net(tiny_config, seeds=SEEDS, **changes):
    options = {"host.net_arch": [7, "l", "r4"], "host.value_net_arch": [5, "b"], **changes}
    config = tiny_config({f"{key}": value for key, value in options.items()}, "ppo")
    return build_net("host", config, seeds, CPU)


def weights_of(net, tower: int) -> list[tuple[Tensor, Tensor]]:
    """Return weights (P, I, O) and biases (P, 1, O) of a tower's layers in their order."""
    parts = {k: v for k, v in net.parts(net.weights).items() if k.startswith(f"{tower}.")}
    values = list(parts.values())
    return list(zip(values[::2], values[1::2], strict=True))


# By encoder: gains of its linear layers, those of the policy's hidden layers follow.
HIDDEN = sqrt(2.0)
GAINS = {
    "flatten": [],
    "deep sets": [HIDDEN, HIDDEN],
    "attention": [1.0, 1.0, 1.0, HIDDEN, 1.0],
}


@pytest.mark.parametrize("encoder", ENCODERS)
def test_an_actor_critic_begins_orthogonal(tiny_config, encoder):
    """arXiv 2006.05990: sqrt(2) before activations, a policy 100 times smaller at its end."""
    net = ppo_net(tiny_config, **{"host.encoder": ENCODERS[encoder]})
    ends = {POLICY: [HIDDEN, HIDDEN, HIDDEN, HIDDEN, 0.01], VALUE: [HIDDEN, 1.0]}
    for tower, hidden in ends.items():
        linear = [(w, b) for w, b in weights_of(net, tower) if w.shape[1] > 1]
        gains = GAINS[encoder] + hidden
        for (weight, bias), gain in zip(linear, gains, strict=True):
            assert_orthogonal(weight, gain)
            assert not bias.any()
        for scale, shift in ((w, b) for w, b in weights_of(net, tower) if w.shape[1] == 1):
            assert (scale == 1).all()
            assert (shift == 0).all()


@pytest.mark.parametrize("init", ["uniform", "orthogonal"])
def test_the_last_policy_layer_alone_is_scaled(tiny_config, init):
    small, plain = (
        ppo_net(tiny_config, **{"host.init": init, "host.last_policy_scale": scale})
        for scale in (0.01, 1.0)
    )
    for tower in (POLICY, VALUE):
        *first, last = weights_of(small, tower)
        *other_first, other_last = weights_of(plain, tower)
        for pair, other in zip(first, other_first, strict=True):
            assert torch.equal(pair[0], other[0])
            assert torch.equal(pair[1], other[1])
        scale = 0.01 if tower == POLICY else 1.0
        for own, other in zip(last, other_last, strict=True):
            torch.testing.assert_close(own, scale * other)


@pytest.mark.parametrize("init", ["uniform", "orthogonal"])
@pytest.mark.parametrize("encoder", ENCODERS)
def test_a_members_first_weights_are_its_own(tiny_config, encoder, init):
    changes = {"host.encoder": ENCODERS[encoder], "host.init": init}
    together = ppo_net(tiny_config, **changes)
    for p, seed in enumerate(SEEDS):
        alone = ppo_net(tiny_config, [seed], **changes)
        assert torch.equal(together.weights[p], alone.weights[0])
    assert not torch.equal(together.weights[0], together.weights[1])


@pytest.mark.parametrize("algorithm", ["dqn", "ppo"])
def test_host_and_agent_are_drawn_apart_and_as_their_game_wants(tiny_config, algorithm):
    config = tiny_config({"agent": "learn", "dimension": 3}, algorithm)
    host, agent = (build_net(name, config, [1], CPU) for name in config.learning())
    observation = torch.rand(1, 2, config.max_num_points * 3)
    assert host(observation).shape == (1, 2, 4)  # subsets of at least two of three coordinates
    assert agent(torch.rand(1, 2, config.max_num_points * 3 + 3)).shape == (1, 2, 3)
    assert not torch.equal(host.weights[0, :8], agent.weights[0, :8])
