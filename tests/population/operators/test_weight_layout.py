"""What is said of a network's units is what the network itself lays out."""

import pytest
import torch
from operator_nets import ENCODERS, P, every_structure, network, tower


@every_structure
@pytest.mark.parametrize("num_more", [0, 3])
def test_affines_lie_where_the_network_has_its_parts(towers, num_more):
    net = network(*towers, num_more=num_more)
    body = net.layout
    assert (body.size, body.statistics_size) == (net.weights.shape[1], net.statistics.shape[1])
    places = torch.arange(body.size).expand(P, -1)
    parts = net.parts(places)
    assert [f"{affine.name}.{kind}" for affine in body.affines for kind in ("weight", "bias")] == [
        *parts
    ]
    for affine in body.affines:
        weight, bias = parts[f"{affine.name}.weight"], parts[f"{affine.name}.bias"]
        assert weight.shape[1:] == affine.shape
        assert torch.equal(weight.flatten(1), places[:, affine.weight])
        assert torch.equal(bias.flatten(1), places[:, affine.bias])
        assert affine.shape[1] == sum(body.groups[group].width for group in affine.columns)
        assert affine.shape[0] == (1 if affine.rows is None else body.groups[affine.rows].width)


@every_structure
def test_affines_are_of_the_kind_that_torch_names(towers):
    """Only batch norms have running statistics, and only linear layers matrices."""
    net = network(*towers)
    layers = net.layers(0)
    for affine in net.layout.affines:
        assert (f"{affine.name}.running_mean" in layers) == (affine.kind == "batch_norm")
        assert (layers[f"{affine.name}.weight"].ndim == 2) == (affine.kind == "linear")
        if affine.statistics is not None:
            mean, var = net.statistics[0, affine.statistics :][: 2 * affine.shape[1]].chunk(2)
            assert torch.equal(mean, layers[f"{affine.name}.running_mean"])
            assert torch.equal(var, layers[f"{affine.name}.running_var"])


@every_structure
def test_towers_share_no_weights(towers):
    body = network(*towers).layout
    covered = [i for t in range(len(towers)) for i in range(*body.columns(t).indices(body.size))]
    assert covered == list(range(body.size))


@every_structure
def test_all_units_but_inputs_and_outputs_are_hidden(towers):
    body = network(*towers).layout
    ends = set()
    for items in body.towers:
        first, last = items[0].affines[0], items[-1].affines[-1]
        ends |= {first.columns[0] if first.rows is None else first.rows, last.columns[0]}
    assert {g for g, group in enumerate(body.groups) if not group.is_hidden} == ends


@pytest.mark.parametrize(
    ("net_arch", "encoder", "hidden"),
    [
        ([7, "b", 5, "l"], "flatten", [7, 5]),
        ([6, "r6", "rl6"], "flatten", [6, 6, 6]),  # one stream, and what is inside each block
        (["r6", 5], "flatten", [6, 6, 5]),  # inside, then the projected stream
        (["r9"], "flatten", [9]),  # the stream is the inputs', which keep their order
        ([5], "deep sets", [7, 6, 5]),
        # the stream; queries with keys, values and the hidden layer of each of two blocks
        ([], "attention", [8, 8, 8, 8, 8, 8, 8]),
    ],
)
def test_groups_are_those_that_must_be_numbered_alike(net_arch, encoder, hidden):
    body = network(tower(net_arch, encoder=ENCODERS[encoder])).layout
    assert [group.width for group in body.groups if group.is_hidden] == hidden


def test_which_layers_an_activation_ends_and_what_makes_them_the_identity():
    """A residual block adds what its second norm writes; a block of attention adds twice."""
    (layers,) = network(tower([6, "r6", "b", "r8", "rl8"])).layout.towers
    assert [layer.is_activated for layer in layers] == [True, True, False, True, True, False]
    (layers,) = network(tower([6, "r6", "r8", "rl8"])).layout.towers
    names = [[affine.name for affine in layer.identity_affines] for layer in layers]
    assert names == [[], ["4"], ["8"], ["14"], []]
    (layers,) = network(tower([5], encoder=ENCODERS["attention"])).layout.towers
    names = [[affine.name for affine in layer.identity_affines] for layer in layers]
    assert names == [[], ["3", "6"], ["9", "12"], [], [], []]
