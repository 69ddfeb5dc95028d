"""Encoders against a loop over the games, and in it over the live points alone, in float64."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.config.weight_layout import Inputs, Tower, weight_layout
from hpsearch.trainers.first_weights import first_weights
from hpsearch.trainers.layers import Reader, apply_encoder, split
from hpsearch.trainers.networks import Arithmetic, Network
from hpsearch.trainers.policies import features_of

NUM_MEMBERS, NUM_GAMES, NUM_POINTS, DIMENSION = 2, 9, 5, 3
HOST, AGENT = Inputs(NUM_POINTS, DIMENSION, 0), Inputs(NUM_POINTS, DIMENSION, DIMENSION)
both_roles = pytest.mark.parametrize("inputs", [HOST, AGENT], ids=["host", "agent"])
both_activations = pytest.mark.parametrize("activation", ["relu", "tanh"])
FLATTEN = FlattenEncoder("flatten", 4)
SETS = {
    "deep sets, max": DeepSetsEncoder("deep_sets", (7, 6), "max"),
    "deep sets, mean": DeepSetsEncoder("deep_sets", (7,), "mean"),
    "deep sets, sum": DeepSetsEncoder("deep_sets", (5, 7, 6), "sum"),
    "deep sets without layers": DeepSetsEncoder("deep_sets", (), "mean"),
    "attention": AttentionEncoder("attention", width=6, heads=1, blocks=1),
    "attention, heads and blocks": AttentionEncoder("attention", width=6, heads=3, blocks=2),
    "attention without blocks": AttentionEncoder("attention", width=4, heads=2, blocks=0),
}
WITH_WEIGHTS = {
    name: encoder for name, encoder in SETS.items() if name != "deep sets without layers"
}
every_set_encoder = pytest.mark.parametrize("encoder", SETS.values(), ids=SETS)
every_encoder = pytest.mark.parametrize(
    "encoder", [FLATTEN, *SETS.values()], ids=["flatten", *SETS]
)


def bare_tower(encoder) -> Tower:
    """Return a tower of the encoder and one output."""
    return Tower(
        encoder=encoder,
        layers=(),
        activation="relu",
        num_outputs=1,
        init="uniform",
        last_scale=1.0,
        dueling=False,
    )


def laid_out(encoder, inputs: Inputs) -> tuple[list[Tensor], int]:
    """Return the encoder's weights (P, rows, columns), leaves in float64, and its width."""
    layout, keys = weight_layout(inputs, (bare_tower(encoder),)), torch.arange(NUM_MEMBERS)
    *own, last = layout.affines
    bank = first_weights(layout, Stream(keys, torch.zeros_like(keys))).double()
    generator = torch.Generator().manual_seed(3)
    bank += 0.3 * torch.randn(bank.shape, generator=generator, dtype=torch.float64)
    views = [
        bank[:, place].unflatten(1, (rows, -1)).clone().requires_grad_()
        for affine in own
        for place, rows in ((affine.weight, affine.shape[0]), (affine.bias, 1))
    ]
    return views, last.shape[0]


def encode(views, encoder, inputs, x, activation="relu") -> Tensor:
    rest = iter(views)
    statistics = torch.zeros(NUM_MEMBERS, 0)
    reader = Reader(rest, statistics, activation=activation, training=True)
    features = apply_encoder(reader, encoder, inputs, x)
    assert next(rest, None) is None
    return features


def games(inputs: Inputs, seed: int = 0) -> Tensor:
    """Return observations (P, B, I) of games with 1, 2, ..., N, 1, ... live points."""
    generator = torch.Generator().manual_seed(seed)
    shape = NUM_MEMBERS, NUM_GAMES, NUM_POINTS, DIMENSION
    points = torch.rand(shape, generator=generator, dtype=torch.float64)
    num_live = torch.arange(NUM_MEMBERS * NUM_GAMES).reshape(shape[:2]) % NUM_POINTS + 1
    points[torch.arange(NUM_POINTS) >= num_live[..., None]] = -1.0
    more = torch.rand(*shape[:2], inputs.num_more, generator=generator) < 0.5
    return torch.cat([points.flatten(2), more.double()], dim=2)


class OneMember:
    """The weights of one member, taken in the order of the forward pass."""

    def __init__(self, views, member: int, activation: str) -> None:
        self.weights = iter([view[member] for view in views])
        self.activation = {"relu": torch.relu, "tanh": torch.tanh}[activation]

    def pair(self) -> tuple[Tensor, Tensor]:
        return next(self.weights).T, next(self.weights).squeeze(0)

    def linear(self, x: Tensor) -> Tensor:
        return F.linear(x, *self.pair())

    def norm(self, x: Tensor) -> Tensor:
        scale, shift = self.pair()
        return F.layer_norm(x, x.shape[-1:], scale.squeeze(1), shift)

    def attention(self, x: Tensor, heads: int) -> Tensor:
        """Return torch's own multi-head attention of points (L, W) to one another."""
        (into, into_bias), (out, out_bias) = self.pair(), self.pair()
        rows = x[:, None]  # torch wants (L, 1, W)
        attended, _ = F.multi_head_attention_forward(
            *(rows, rows, rows, x.shape[1], heads, into, into_bias, None, None, False, 0.0),
            *(out, out_bias),
            need_weights=False,
        )
        return attended[:, 0]


def one_game(member: OneMember, encoder, inputs: Inputs, observation: Tensor) -> Tensor:
    """Return the features (F,) of one observation (I,)."""
    points = observation[: NUM_POINTS * DIMENSION].reshape(NUM_POINTS, DIMENSION)
    more = observation[NUM_POINTS * DIMENSION :]
    live = [point for point in points if point[0] >= 0]
    x = torch.stack([torch.cat([point, more]) for point in live])
    if isinstance(encoder, DeepSetsEncoder):
        for _ in encoder.widths:
            x = member.activation(member.linear(x))
        return {"max": lambda: x.amax(0), "mean": lambda: x.mean(0), "sum": lambda: x.sum(0)}[
            encoder.pool
        ]()
    x = member.linear(x)
    for _ in range(encoder.blocks):
        x = x + member.attention(member.norm(x), encoder.heads)
        x = x + member.linear(member.activation(member.linear(member.norm(x))))
    return member.norm(x).mean(dim=0)


@every_set_encoder
@both_roles
@both_activations
def test_features_and_gradients_are_those_of_the_live_points_alone(encoder, inputs, activation):
    (views, width), x = laid_out(encoder, inputs), games(inputs)
    features = encode(views, encoder, inputs, x, activation)
    assert features.shape == (NUM_MEMBERS, NUM_GAMES, width)
    expected = torch.stack(
        [
            torch.stack(
                [one_game(OneMember(views, p, activation), encoder, inputs, row) for row in x[p]]
            )
            for p in range(NUM_MEMBERS)
        ]
    )
    torch.testing.assert_close(features, expected, rtol=1e-9, atol=1e-10)
    if not views:
        return
    factor = torch.rand(width, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    gradients = [torch.autograd.grad((y * factor).sum(), views) for y in (features, expected)]
    torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-10)


@both_roles
def test_flatten_sees_the_first_points_and_the_rest_of_the_observation(inputs):
    _, width = laid_out(FLATTEN, inputs)
    x = games(inputs)
    seen = FLATTEN.num_points * DIMENSION
    expected = torch.cat([x[..., :seen], x[..., NUM_POINTS * DIMENSION :]], dim=2)
    assert torch.equal(encode([], FLATTEN, inputs, x), expected)
    assert width == expected.shape[2]


def test_flatten_sees_the_lexicographically_largest_points():
    encoder, generator = FlattenEncoder("flatten", 2), torch.Generator().manual_seed(5)
    drawn = torch.randint(0, 6, (1, 50, NUM_POINTS, DIMENSION), generator=generator)
    points = rules.newton_polytope(drawn.to(torch.int32))
    observation = BACKENDS["cpu"].observe(points)
    encoded = encode([], encoder, HOST, observation)
    for position, features in zip(points[0].tolist(), encoded[0], strict=True):
        live = [point for point in position if point[0] >= 0]
        kept = sorted(live, reverse=True)[: encoder.num_points]
        largest = max(max(point) for point in live) or 1
        expected = [[c / largest for c in point] for point in kept]
        expected += [[-1.0] * DIMENSION] * (encoder.num_points - len(kept))
        torch.testing.assert_close(features.reshape(-1, DIMENSION), torch.tensor(expected))
    num_live = rules.is_live(points).sum(dim=-1)
    assert (num_live > encoder.num_points).any()  # else nothing was left out
    assert (num_live < encoder.num_points).any()


@every_set_encoder
@both_roles
def test_the_order_of_the_points_and_the_place_of_padding_mean_nothing(encoder, inputs):
    (views, _), x = laid_out(encoder, inputs), games(inputs)
    noise = torch.rand(NUM_MEMBERS, NUM_GAMES, NUM_POINTS, generator=torch.Generator())
    order = noise.argsort(dim=2)[..., None].expand(-1, -1, -1, DIMENSION)
    points, more = split(inputs, x)
    shuffled = torch.cat([points.gather(2, order).flatten(2), more], dim=2)
    assert not torch.equal(shuffled, x)
    features, again = (encode(views, encoder, inputs, rows) for rows in (x, shuffled))
    torch.testing.assert_close(features, again, rtol=1e-12, atol=1e-12)


@every_set_encoder
@both_roles
def test_what_padding_holds_means_nothing(encoder, inputs):
    """Neither to features nor to gradients."""
    (views, width), x = laid_out(encoder, inputs), games(inputs)
    points, more = split(inputs, x)
    is_padding = (points[..., :1] < 0).expand_as(points)
    other = torch.where(is_padding, -1e4 * torch.rand(points.shape), points)
    wild = torch.cat([other.flatten(2), more], dim=2)
    features, again = (encode(views, encoder, inputs, rows) for rows in (x, wild))
    torch.testing.assert_close(features, again, rtol=1e-12, atol=1e-12)
    if views:
        factor = torch.arange(1.0, width + 1)
        gradients = [torch.autograd.grad((y * factor).sum(), views) for y in (features, again)]
        torch.testing.assert_close(*gradients, rtol=1e-9, atol=1e-9)


@every_set_encoder
def test_more_padding_means_nothing(encoder):
    """A player may meet games of fewer points than there is room for."""
    (views, _), x = laid_out(encoder, HOST), games(HOST)
    padding = x.new_full((*x.shape[:2], 2 * DIMENSION), -1.0)
    roomy = Inputs(NUM_POINTS + 2, DIMENSION, 0)
    again = encode(views, encoder, roomy, torch.cat([x, padding], dim=2))
    torch.testing.assert_close(encode(views, encoder, HOST, x), again, rtol=1e-12, atol=1e-12)


@every_encoder
def test_padding_differs_from_a_point_at_the_origin(encoder):
    """seeds.md B6."""
    (views, _), x = laid_out(encoder, HOST), games(HOST)
    num_live = (x[..., ::DIMENSION] >= 0).sum(dim=2)
    has_padding = num_live < FLATTEN.num_points
    points, _ = split(HOST, x.clone())
    rows = has_padding.nonzero(as_tuple=True)
    points[(*rows, num_live[rows])] = 0.0
    features, again = (encode(views, encoder, HOST, rows) for rows in (x, points.flatten(2)))
    differs = ((features - again).abs() > 1e-6).any(dim=2)
    if isinstance(encoder, DeepSetsEncoder) and encoder.pool == "max":
        assert not differs[~has_padding].any()
        assert differs.any()  # elsewhere another point may be the largest in every feature
    else:
        assert torch.equal(differs, has_padding)


@every_encoder
@pytest.mark.parametrize("bit", range(DIMENSION))
def test_every_bit_of_the_hosts_subset_matters_to_an_agent(encoder, bit):
    (views, _), x = laid_out(encoder, AGENT), games(AGENT)
    other = x.clone()
    other[..., NUM_POINTS * DIMENSION + bit] = 1.0 - other[..., NUM_POINTS * DIMENSION + bit]
    features, again = (encode(views, encoder, AGENT, rows, "tanh") for rows in (x, other))
    assert ((features - again).abs() > 1e-6).any(dim=2).all()


@every_encoder
def test_a_network_reads_what_an_agent_observes(encoder):
    """Points as the kernel scales them, then the subset: a float32 network end to end."""
    tower = Tower(encoder, (), "tanh", DIMENSION, "uniform", 1.0, dueling=False)
    keys = torch.arange(NUM_MEMBERS)
    net = Network(AGENT, [tower], Arithmetic("fp32", "off"), Stream(keys, torch.zeros_like(keys)))
    generator = torch.Generator().manual_seed(5)
    shape = NUM_MEMBERS, NUM_GAMES, NUM_POINTS, DIMENSION
    drawn = torch.randint(0, 6, shape, generator=generator)
    observation = BACKENDS["cpu"].observe(rules.newton_polytope(drawn.to(torch.int32)))
    subset = torch.rand(*shape[:2], DIMENSION, generator=generator) < 0.5
    x = features_of(observation, subset)
    views = [view.double() for view in net.parts(net.weights).values()]
    features = encode(views[:-2], encoder, AGENT, x.double(), "tanh")
    expected = features @ views[-2] + views[-1]
    torch.testing.assert_close(net(x).double(), expected, rtol=1e-4, atol=1e-5)


@every_encoder
@both_activations
def test_every_derivative_is_the_limit_of_its_differences(encoder, activation):
    """By weights and by the points' coordinates, in float64."""
    views, _ = laid_out(encoder, AGENT)
    x = games(AGENT)[:, 2:4]
    points, more = split(AGENT, x)
    is_live = points >= 0
    coordinates = points[is_live].clone().requires_grad_()

    def function(coordinates, *views):
        moved = points.masked_scatter(is_live, coordinates)
        rows = torch.cat([moved.flatten(2), more], dim=2)
        return encode(views, encoder, AGENT, rows, activation)

    assert torch.autograd.gradcheck(function, (coordinates, *views))


@pytest.mark.parametrize("encoder", WITH_WEIGHTS.values(), ids=WITH_WEIGHTS)
def test_a_members_features_depend_on_its_own_weights_alone(encoder):
    (views, _), x = laid_out(encoder, AGENT), games(AGENT)
    features = encode(views, encoder, AGENT, x)
    for gradient in torch.autograd.grad(features[1].sum(), views):
        assert not gradient[0].any()
