"""What is said of a network's units is what the network itself lays out."""

import pytest
import torch
from operator_nets import ENCODERS, P, every_structure, network, tower

from hpsearch.population.operators.anatomy import anatomy


@every_structure
@pytest.mark.parametrize("num_more", [0, 3])
def test_pairs_lie_where_the_network_has_its_parts(towers, num_more):
    net = network(*towers, num_more=num_more)
    body = anatomy(net)
    assert (body.size, body.statistics_size) == (net.weights.shape[1], net.statistics.shape[1])
    places = torch.arange(body.size).expand(P, -1)
    parts = net.parts(places)
    assert [f"{pair.name}.{kind}" for pair in body.pairs for kind in ("weight", "bias")] == [*parts]
    for pair in body.pairs:
        weight, bias = parts[f"{pair.name}.weight"], parts[f"{pair.name}.bias"]
        assert weight.shape[1:] == pair.shape
        assert torch.equal(weight.flatten(1), places[:, pair.weight])
        assert torch.equal(bias.flatten(1), places[:, pair.bias])
        assert pair.shape[1] == sum(body.groups[group].width for group in pair.columns)
        assert pair.shape[0] == (1 if pair.rows is None else body.groups[pair.rows].width)


@every_structure
def test_pairs_are_of_the_kind_that_torch_names(towers):
    """Only batch norms have running statistics, and only linear layers matrices."""
    net = network(*towers)
    layers = net.layers(0)
    for pair in anatomy(net).pairs:
        assert (f"{pair.name}.running_mean" in layers) == (pair.kind == "batch_norm")
        assert (layers[f"{pair.name}.weight"].ndim == 2) == (pair.kind == "linear")
        if pair.statistics is not None:
            mean, var = net.statistics[0, pair.statistics :][: 2 * pair.shape[1]].chunk(2)
            assert torch.equal(mean, layers[f"{pair.name}.running_mean"])
            assert torch.equal(var, layers[f"{pair.name}.running_var"])


@every_structure
def test_towers_share_no_weights(towers):
    body = anatomy(network(*towers))
    covered = [i for t in range(len(towers)) for i in range(*body.columns(t).indices(body.size))]
    assert covered == list(range(body.size))


@every_structure
def test_all_units_but_inputs_and_outputs_are_hidden(towers):
    body = anatomy(network(*towers))
    ends = set()
    for items in body.towers:
        first, last = items[0].pairs[0], items[-1].pairs[-1]
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
    body = anatomy(network(tower(net_arch, encoder=ENCODERS[encoder])))
    assert [group.width for group in body.groups if group.is_hidden] == hidden
