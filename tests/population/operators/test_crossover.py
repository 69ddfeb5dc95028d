"""Crossover: what comes from which parent, layer by layer and unit by unit."""

from itertools import groupby

import pytest
import torch
from operator_nets import P, every_structure, network, observations, outputs, stream, tower
from torch import Tensor

from hpsearch.population.operators.weights import layer_crossover, unit_crossover
from hpsearch.trainers.config.players import AttentionEncoder
from hpsearch.trainers.networks import Network

HALF = torch.full((P,), 0.5)
both = pytest.mark.parametrize("crossover", [layer_crossover, unit_crossover])


def parents(*towers, **changes) -> tuple[Network, Network]:
    """Return parents that differ in every number."""
    first, second = network(*towers, **changes), network(*towers, **changes)
    second.weights.add_(100.0)
    second.statistics.add_(100.0)
    return first, second


def numbers_of_first(child: Network, first: Network, member: int) -> dict[str, Tensor]:
    """Return by tensor of torch which of its numbers come from the first parent."""
    of_first = first.layers(member)
    return {name: tensor == of_first[name] for name, tensor in child.layers(member).items()}


@every_structure
@both
def test_every_number_is_of_one_parent(towers, crossover):
    first, second = parents(*towers)
    child = crossover(first, second, share=HALF, stream=stream(7, 8, 9))
    for name, tensor in child.state().items():
        assert ((tensor == first.state()[name]) ^ (tensor == second.state()[name])).all()
    only = crossover(first, second, share=torch.tensor([0.0, 1.0, 1.0]), stream=stream(7, 8, 9))
    for name, tensor in only.state().items():
        assert torch.equal(tensor[0], second.state()[name][0])
        assert torch.equal(tensor[1:], first.state()[name][1:])


@pytest.mark.parametrize(
    ("net_arch", "encoder", "genes"),
    [
        ([7, "b", 5], None, [["0", "1"], ["2"], ["3"]]),
        (["b", "l", 7, "l"], None, [["0", "1"], ["2", "3"], ["4"]]),
        (["r7", "r7"], None, [["0", "1", "2", "3", "4", "5"], ["6", "7", "8", "9"], ["10"]]),
        (
            [5],
            AttentionEncoder("attention", width=4, heads=2, blocks=1),
            [["0"], ["1", "2", "3", "4", "5", "6", "7"], ["8"], ["9"]],
        ),
    ],
)
def test_layers_are_inherited_whole_with_norms_and_statistics(net_arch, encoder, genes):
    seeds = tuple(range(200))
    first, second = parents(
        tower(net_arch, **({"encoder": encoder} if encoder else {})), seeds=seeds
    )
    child = layer_crossover(first, second, share=torch.full((200,), 0.3), stream=stream(*seeds))
    taken = []
    for p in seeds:
        source = numbers_of_first(child, first, p)
        for gene in genes:
            inherited = [source[name] for name in source if name.split(".")[0] in gene]
            every = torch.cat([tensor.flatten() for tensor in inherited])
            assert every.all() or not every.any()
            taken.append(bool(every[0]))
    by_gene = torch.tensor(taken).view(len(seeds), len(genes)).float()
    assert ((by_gene.mean(dim=0) - 0.3).abs() < 0.15).all()
    assert (torch.corrcoef(by_gene.T) - torch.eye(len(genes))).abs().max() < 0.3


def test_units_are_inherited_with_norms_and_statistics():
    first, second = parents(tower([40, "b", "r40", "r20"]))
    child = unit_crossover(first, second, share=HALF, stream=stream(7, 8, 9))
    # By index of the layers: those that write one group of units.
    together = {"0": "a", "1": "a", "2": "b", "3": "b", "4": "a", "5": "a"}
    together |= {"6": "c", "7": "c", "8": "d", "9": "d", "10": "d", "11": "d", "12": "e"}
    for p in range(P):
        inherited = {}
        for name, source in numbers_of_first(child, first, p).items():
            if source.ndim == 2:
                assert (source == source[:, :1]).all()  # all inputs of a unit
                source = source[:, 0]
            inherited.setdefault(together[name.split(".")[0]], []).append(source)
        for sources in inherited.values():
            assert all(torch.equal(source, sources[0]) for source in sources)
        assert len([*groupby(inherited["a"][0].tolist())]) > 5
        assert not torch.equal(inherited["a"][0], inherited["b"][0])


@both
def test_a_child_of_one_parent_twice_is_the_parent(crossover):
    net, x = network(tower([7, "b", "r5"])), observations()
    child = crossover(net, net, share=HALF, stream=stream(7, 8, 9))
    assert torch.equal(outputs(child, x)[0], outputs(net, x)[0])


@both
def test_a_child_depends_on_its_own_seed_alone(crossover):
    first, second = parents(tower([7, "b"]))
    whole = crossover(first, second, share=HALF, stream=stream(7, 8, 9))
    again = crossover(first, second, share=HALF, stream=stream(1, 8, 2))
    assert torch.equal(again.weights[1], whole.weights[1])
    assert not torch.equal(again.weights, whole.weights)


@both
def test_parents_and_arguments_must_fit(crossover):
    net = network(tower([7]))
    with pytest.raises(ValueError, match="parents must see the same"):
        crossover(net, network(tower(["r7"])), share=HALF, stream=stream(7, 8, 9))
    with pytest.raises(ValueError, match="share must hold one number"):
        crossover(net, net, share=HALF[:1], stream=stream(7, 8, 9))
    with pytest.raises(ValueError, match="stream needs a row"):
        crossover(net, net, share=HALF, stream=stream(7))
