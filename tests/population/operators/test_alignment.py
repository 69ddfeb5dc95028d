"""Reordering units changes nothing, and alignment undoes it."""

from itertools import permutations

import pytest
import torch
from operator_nets import (
    P,
    assert_same_function,
    every_structure,
    network,
    observations,
    tower,
)
from torch import Tensor

from hpsearch.population.operators.alignment import aligned, permuted
from hpsearch.population.operators.weights import aligned_average, with_statistics_of
from hpsearch.trainers.config.weight_layout import WeightLayout
from hpsearch.trainers.networks import Network

HALF = torch.full((P,), 0.5)


def random_orders(body: WeightLayout, seed: int) -> list[Tensor]:
    """Return an order of every hidden group for each member, heads kept together."""
    generator = torch.Generator().manual_seed(seed)

    def order(width: int) -> Tensor:
        return torch.stack([torch.randperm(width, generator=generator) for _ in range(P)])

    orders = [
        order(group.width) if group.is_hidden else torch.arange(group.width).expand(P, -1)
        for group in body.groups
    ]
    for heads in body.heads:
        size = body.groups[heads.value].width // heads.count
        of_heads = order(heads.count)
        for group in (heads.query_key, heads.value):
            inner = torch.stack([order(size) for _ in range(heads.count)], dim=1)
            orders[group] = (of_heads[:, :, None] * size + inner).flatten(1)
    return orders


def shuffled(net: Network, seed: int = 0) -> Network:
    return permuted(net, random_orders(net.layout, seed))


@every_structure
def test_order_of_hidden_units_does_not_matter(towers):
    net = network(*towers)
    other = shuffled(net)
    assert len(net.layout.affines) == len(towers) or not torch.equal(net.weights, other.weights)
    assert_same_function(net, other, observations())
    assert_same_function(net, other, torch.randn(P, 9, 12).abs())


@every_structure
def test_an_aligned_copy_is_the_original(towers):
    net = network(*towers)
    for seed in range(3):
        reordered = aligned(shuffled(net, seed), net)
        assert torch.equal(reordered.weights, net.weights)
        assert torch.equal(reordered.statistics, net.statistics)


@every_structure
def test_the_average_with_a_shuffled_copy_is_the_original(towers):
    net = network(*towers)
    average = aligned_average(net, shuffled(net), share=HALF)
    assert torch.equal(average.weights, net.weights)
    assert torch.equal(average.statistics, net.statistics)


@every_structure
def test_alignment_changes_no_function_and_brings_weights_closer(towers):
    net, other = network(*towers, seeds=(4, 5, 6)), network(*towers)
    reordered = aligned(net, other)
    assert_same_function(net, reordered, observations())
    before, after = (
        ((version.weights - other.weights) ** 2).sum(dim=1) for version in (net, reordered)
    )
    assert (after <= before * (1 + 1e-6)).all()


def test_one_hidden_layer_is_matched_as_all_orders_tried():
    net, other = network(tower([5]), seeds=(4, 5, 6)), network(tower([5]))
    reordered = aligned(net, other)
    body = net.layout
    (hidden,) = (g for g, group in enumerate(body.groups) if group.is_hidden)
    best = torch.full((P,), torch.inf)
    for order in permutations(range(5)):
        units = [torch.arange(group.width).expand(P, -1) for group in body.groups]
        units[hidden] = torch.tensor(order).expand(P, -1)
        tried = permuted(net, units)
        best = torch.minimum(best, ((tried.weights - other.weights) ** 2).sum(dim=1))
    torch.testing.assert_close(((reordered.weights - other.weights) ** 2).sum(dim=1), best)


def test_noise_does_not_hinder_recognition():
    net = network(tower([16, "rl16", "b", 16]))
    noisy = shuffled(net)
    noisy.weights.add_(0.01 * torch.randn(noisy.weights.shape))
    torch.testing.assert_close(aligned(noisy, net).weights, net.weights, atol=0.06, rtol=0)


def test_members_are_aligned_each_for_itself():
    net, other = network(tower([7, 5]), seeds=(4, 5, 6)), network(tower([7, 5]))
    whole = aligned(net, other)
    for p in range(P):
        own, its = net.like(1), other.like(1)
        own.weights.copy_(net.weights[p : p + 1])
        its.weights.copy_(other.weights[p : p + 1])
        assert torch.equal(aligned(own, its).weights[0], whole.weights[p])


def test_an_average_is_a_share_of_each():
    net, other = network(tower([7, "b"])), network(tower([7, "b"]), seeds=(4, 5, 6))
    share = torch.tensor([0.0, 0.25, 1.0])
    average, like_net = aligned_average(net, other, share=share), aligned(other, net)
    for own, first, second in (
        (average.weights, net.weights, like_net.weights),
        (average.statistics, net.statistics, like_net.statistics),
    ):
        assert torch.equal(own[0], second[0])
        torch.testing.assert_close(own[1], 0.25 * first[1] + 0.75 * second[1])
        assert torch.equal(own[2], first[2])


@every_structure
def test_statistics_are_those_of_what_is_seen(towers):
    """What a pass in training computes by the batch, one in evaluation computes by statistics."""
    # Of many positions: running variances are those of a sample, a batch's own those of all.
    net, x = network(*towers), observations().repeat(1, 50, 1)
    before = net.statistics.clone()
    measured = with_statistics_of(net, x)
    assert torch.equal(net.statistics, before)
    for index in range(len(towers)):
        with torch.no_grad():
            expected = net(x, tower=index, training=True)
            out = measured(x, tower=index)
        torch.testing.assert_close(out, expected, rtol=1e-2, atol=1e-2)
        net.statistics.copy_(before)


def test_statistics_of_one_norm_are_the_mean_and_variance():
    net, x = network(tower(["b", 5])), observations()
    mean, var = with_statistics_of(net, x).statistics.chunk(2, dim=1)
    seen = x[:, :, : mean.shape[1]]
    torch.testing.assert_close(mean, seen.mean(dim=1))
    torch.testing.assert_close(var, seen.var(dim=1))


@pytest.mark.parametrize("operator", [aligned, lambda a, b: aligned_average(a, b, share=HALF)])
def test_parents_must_be_alike(operator):
    net = network(tower([7]))
    with pytest.raises(ValueError, match="parents must see the same"):
        operator(net, network(tower([6])))
    with pytest.raises(ValueError, match="3 and 2 members"):
        operator(net, net.like(2))


def test_a_share_must_be_of_every_member():
    net = network(tower([7]))
    with pytest.raises(ValueError, match="share must hold one number for each of 3 members"):
        aligned_average(net, net, share=torch.tensor([0.5]))
