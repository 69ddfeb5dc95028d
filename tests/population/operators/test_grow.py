"""Growing finds a way where there is one, and leaves every function as it is."""

import random
from itertools import combinations

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
from hpsearch.population.operators.growth import policy_layers, widened
from hpsearch.trainers.config.net_arch import Linear, Norm, Residual
from hpsearch.trainers.config.players import DeepSetsEncoder
from hpsearch.trainers.policies import build_net

GROWTHS = {
    "wider": (tower([7, 5]), tower([14, 9])),
    "deeper": (tower([7, 5]), tower([7, 7, 5])),
    "both": (tower([7, 5]), tower([14, 14, 9, 9, 9])),
    "from nothing but outputs": (tower([]), tower([])),
    "batch norms": (tower([7, "b", 5]), tower([9, 9, "b", 8, "r8"])),
    "layer norms": (tower([7, "l", 5, "l"]), tower([14, 14, "l", 10, 10, "l"])),
    "residual": (tower([6, "r6", "r8"]), tower([12, "r12", "r12", "r16", "r16"])),
    "residual with layer norms": (tower(["rl6", 5]), tower(["rl12", "rl12", 5, 5])),
    "deep sets": (
        tower([5], encoder=ENCODERS["deep sets"]),
        tower([6, 9, "r9"], encoder=ENCODERS["deep sets"]),
    ),
    "attention": (
        tower([5], encoder=ENCODERS["attention"]),
        tower([7, "r7", 7], encoder=ENCODERS["attention"]),
    ),
    "dueling": (tower([7], dueling=True), tower([9, "r9"], dueling=True)),
    "tanh": (tower([7, "l", 5], activation="tanh"), tower([14, "l", 8], activation="tanh")),
}
every_growth = pytest.mark.parametrize(("old", "new"), GROWTHS.values(), ids=GROWTHS)


def grown(net, *towers, noise=0.0):
    return grow(net, network(*towers, seeds=(8,)), noise=noise, stream=stream(7, 8, 9))


@every_growth
def test_outputs_are_the_same(old, new):
    net = network(old)
    before = {name: tensor.clone() for name, tensor in net.state().items()}
    child = grown(net, new)
    assert child.structure == network(new).structure
    assert_same_function(net, child, observations())
    assert all(torch.equal(tensor, before[name]) for name, tensor in net.state().items())
    with torch.no_grad():
        x = observations()
        torch.testing.assert_close(
            child(x, training=True), net(x, training=True), rtol=1e-3, atol=1e-4
        )


def test_one_tower_of_two_grows():
    """As the policy of an actor-critic does, whose value has layers of its own."""
    value = tower([5, "b"], num_outputs=1)
    net = network(tower([8, "l"]), value)
    child = grown(net, tower([16, "r16", "l"]), value, noise=0.5)
    own, its = (outputs(player, observations()) for player in (net, child))
    assert torch.equal(own[1], its[1])
    assert not torch.allclose(own[0], its[0], atol=1e-3)
    assert_same_function(net, grown(net, tower([16, "r16", "l"]), value), observations())


def test_noise_tells_copies_apart_and_costs_little():
    net, new = network(tower([7])), tower([14])
    still, noisy = (grown(net, new, noise=noise) for noise in (0.0, 1e-3))
    units = [player.parts(player.weights)["0.weight"] for player in (still, noisy)]
    assert torch.equal(units[0][:, :, :7], units[0][:, :, 7:])
    assert not (units[1][:, :, :7] == units[1][:, :, 7:]).any()
    own, its = (outputs(player, observations())[0] for player in (net, noisy))
    assert not torch.equal(own, its)
    torch.testing.assert_close(own, its, rtol=1e-2, atol=1e-2)


def test_a_member_grows_as_it_would_alone():
    new = tower([9, 9])
    child = grown(network(tower([7])), new, noise=0.1)
    for member in range(P):
        whole = network(tower([7]))
        single = whole.like(1)
        single.weights.copy_(whole.weights[member : member + 1])
        alone = grow(single, network(new, seeds=(8,)), noise=0.1, stream=stream(7 + member))
        torch.testing.assert_close(alone.weights[0], child.weights[member])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (tower([7]), tower([6])),
        (tower([7]), tower([7, "b"])),
        (tower([7]), tower([7, 5])),
        (tower([7], activation="tanh"), tower([7, 7], activation="tanh")),
        (tower([7, "l"]), tower([8, "l"])),
        (tower(["r6"]), tower(["rl6"])),
        (tower([8, "r8"]), tower([8, "r16"])),
        (tower([7, "b"]), tower([7, "b", "r7"])),
        (tower([]), tower(["r9"])),
        (tower([7]), tower([7], num_outputs=9)),
        (tower([7]), tower([7], activation="tanh")),
        (tower([7]), tower([7], dueling=True)),
        (tower([7]), tower([7], encoder=ENCODERS["attention"])),
        (
            tower([7], encoder=ENCODERS["deep sets max"]),
            tower([7], encoder=DeepSetsEncoder("deep_sets", (8,), "max")),
        ),
    ],
)
def test_what_cannot_be_reached_is_refused(old, new):
    with pytest.raises(ValueError, match=r"^growing (keeps|makes)"):
        grown(network(old), new)


def test_what_is_drawn_is_of_every_member():
    net = network(tower([7]))
    with pytest.raises(ValueError, match=r"stream needs a row for each of 3 members, got \(2,\)"):
        grow(net, network(tower([14])), noise=0.0, stream=stream(7, 8))


# What is planned from configurations, against the operators themselves.

ITEMS = (4, 6, 8, 9, "b", "l", "r4", "r8", "r9", "rl4", "rl8")


def random_arch(draw, most):
    return [draw.choice(ITEMS) for _ in range(draw.randint(0, most))]


def enlarged(draw, net_arch):
    """Return a net_arch that may well be reached: with wider layers, and more of them."""
    larger_arch = []
    for item in net_arch:
        text, factor = str(item), draw.choice((1, 1, 2))
        head = text.rstrip("0123456789")
        width = text.removeprefix(head)
        larger = f"{head}{int(width) * factor}" if width else head
        larger_arch.append(larger if head else int(larger))
        if width and draw.random() < 0.5:
            larger_arch.append(draw.choice((int(width) * factor, f"r{int(width) * factor}")))
    return larger_arch


def can_be_reached(old, new):
    """Return whether any choice of the new layers can be widened to, and deepened from."""
    return any(
        all(can_widen(old, k, new, place) for k, place in enumerate(kept))
        and all(can_begin(new, place) for place in range(len(new.layers)) if place not in kept)
        for kept in combinations(range(len(new.layers)), len(old.layers))
    )


def standing_on(plan, place):
    """Return the width of what comes in, and whether an activation does; by the encoder first."""
    if place == 0:
        encoder, widths = plan.encoder, getattr(plan.encoder, "widths", ())
        flat = encoder.name == "flatten" and 3 * encoder.num_points
        return flat or getattr(encoder, "width", None) or (*(3,), *widths)[-1], bool(widths)
    layer = plan.layers[place - 1]
    return width_of(plan, place - 1), isinstance(layer, Linear | Residual)


def width_of(plan, place):
    return getattr(plan.layers[place], "width", None) or standing_on(plan, place)[0]


def can_widen(old, k, new, place):
    before, after = old.layers[k], new.layers[place]
    ratio, rest = divmod(width_of(new, place), width_of(old, k))
    needs_multiple = after == Norm("layer_norm") or getattr(after, "norm", "") == "layer_norm"
    projects = [width_of(t, at) != standing_on(t, at)[0] for t, at in ((old, k), (new, place))]
    return (
        type(before) is type(after)
        and getattr(before, "kind", None) == getattr(after, "kind", None)
        and getattr(before, "norm", None) == getattr(after, "norm", None)
        and ratio >= 1
        and not (rest and needs_multiple)
        and (isinstance(after, Linear) or projects[0] == projects[1])
    )


def can_begin(new, place):
    width, is_activated = standing_on(new, place)
    is_open = isinstance(new.layers[place], Linear | Residual) and width_of(new, place) == width
    return is_open and is_activated and new.activation == "relu"


def items(plan):
    return network(plan, seeds=(1,)).layout.towers[0]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_planned_is_what_operators_can_do(seed):
    draw = random.Random(seed)
    encoders = [*ENCODERS.values(), DeepSetsEncoder("deep_sets", (), "sum")]
    verdicts = []
    for _ in range(60):
        stands_on = {
            "encoder": draw.choice(encoders),
            "activation": draw.choice(("relu", "relu", "tanh")),
        }
        arch = random_arch(draw, 3)
        other = enlarged(draw, arch) if draw.random() < 0.7 else random_arch(draw, 5)
        old, new = (tower(net_arch, **stands_on) for net_arch in (arch, other))
        changes = widened(items(old), items(new), old.activation)
        assert (changes is not None) == can_be_reached(old, new), (arch, other, stands_on)
        if changes is not None:
            assert len(changes) == len(items(old))
            assert_same_function(network(old), grown(network(old), new), observations())
        verdicts.append(changes is not None)
    assert 10 < sum(verdicts) < 55


@pytest.mark.parametrize(
    ("old", "new", "places"),
    [
        ([32], [64, 64], (0,)),
        # The first that fits would leave the 32 without a place.
        ([64, 32], [64, 64, 32], (0, 2)),
        # Nor could the second 32 be followed by a new 64.
        ([16, 32], [32, 32, 64, 64], (0, 2)),
    ],
)
def test_the_places_that_layers_take(old, new, places):
    assert widened(items(tower(old)), items(tower(new)), "relu") == (*places, len(new))


@pytest.mark.parametrize("role", ["host", "agent"])
def test_the_layers_that_are_planned_are_those_of_the_network(tiny_config, role):
    config = tiny_config({"agent": "learn", f"{role}.net_arch": [17, "r17"]})
    (built,) = build_net(role, config, [1], torch.device("cpu")).layout.towers
    assert policy_layers(role, tiny_config({"agent": "learn"}), [17, "r17"]) == built
