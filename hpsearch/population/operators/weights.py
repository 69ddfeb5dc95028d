"""Children by weights alone: copies, Gaussian mutation, averages and crossover.

The exploit step of population based training (Jaderberg et al., arXiv 1711.09846).

Gaussian mutation: noise on every weight, as large as its layer's weights say.

Axes: P members, W weights of one member.

Averages of parents: one network for two, at no cost of playing.

Axes: P members, B positions, I inputs.

Crossover of weights: every layer, or every unit, from one of two parents.

Axes: P members, U units of a group.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.alignment import aligned
from hpsearch.population.operators.base import (
    check_alike,
    check_members,
    check_numbers,
    check_shares,
    child,
    every_member,
    normal,
)
from hpsearch.population.operators.layout import Spread, by_writer, for_each_affine, layer_sizes
from hpsearch.trainers.config.net_arch import BatchNorm, LayerNorm
from hpsearch.trainers.config.weight_layout import Affine, WeightLayout
from hpsearch.trainers.networks import Network
from hpsearch.trainers.networks.layers import BATCH_NORM_MOMENTUM


def clone(net: Network) -> Network:
    """Return a copy of all members, which shares no memory with ``net``."""
    return clone_members(net, every_member(net))


def clone_members(net: Network, members: Tensor) -> Network:
    """Return copies of the members int64 (Q,), each as often as it stands there.

    Raises:
        ValueError: if there is no such member.
    """
    num_members = net.weights.shape[0]
    if ((members < 0) | (members >= num_members)).any():
        raise ValueError(f"members must be in 0..{num_members - 1}, got {members.tolist()}")
    return child(net, net.weights[members], net.statistics[members])


def host_and_agent(
    host_of: Mapping[str, Network], agent_of: Mapping[str, Network]
) -> dict[str, Network]:
    """Return copies of the host of one parent and of the agent of the other.

    Either parent may lack the role that is not taken from it; a child of two parents needs no
    common structure.

    Raises:
        ValueError: if a parent lacks the role that is to be taken from it.
    """
    children = {}
    for role, parent in (("host", host_of), ("agent", agent_of)):
        if role not in parent:
            raise ValueError(f"the {role}'s parent must have learned the {role}, got {[*parent]}")
        children[role] = clone(parent[role])
    return children


def gaussian_mutation(net: Network, *, strength: Tensor, stream: Stream) -> Network:
    """Return children whose weights differ from their parents' by normal noise.

    Its standard deviation is ``strength`` times the root mean square of the layer's own weights,
    for the bias too, which may be 0; a norm's is that of its scale. So ``strength`` means the same
    in wide and narrow layers, whose weights differ in size. Running statistics stay those of the
    parent.

    Args:
        net: P parents.
        strength: float32 (P,), 0 for no change.
        stream: one row a member.

    Raises:
        ValueError: if ``strength`` or ``stream`` is not of P members.
    """
    check_numbers(net, strength=strength)
    check_members(net, stream=stream)
    size = layer_sizes(net)
    noise = normal(stream, net.weights.shape[1])
    return child(net, net.weights + strength[:, None] * size * noise, net.statistics)


def aligned_average(first: Network, second: Network, *, share: Tensor) -> Network:
    """Return ``share`` of the first parents' weights plus the rest of the aligned second ones'.

    Ainsworth et al., Git Re-Basin, arXiv 2209.04836. The child keeps the first parent's order of
    units. Activations of an average vary less than those of its parents (Jordan et al., REPAIR,
    arXiv 2211.08403): `with_statistics_of` gives batch norms what the child itself sees.

    Args:
        first: P parents.
        second: P parents of the same structure.
        share: float32 (P,), of the first in the average.

    Raises:
        ValueError: if the parents are not alike, or ``share`` is not of P members.
    """
    return average(first, aligned(second, first), share=share)


def average(first: Network, second: Network, *, share: Tensor) -> Network:
    """Return ``share`` of the first parents' weights and statistics plus the rest of the second's.

    For parents of one descent, whose units mean the same (Wortsman et al., Model soups, arXiv
    2203.05482).

    Args:
        first: P parents.
        second: P parents of the same structure.
        share: float32 (P,), of the first in the average.

    Raises:
        ValueError: if the parents are not alike, or ``share`` is not of P members.
    """
    check_alike(first, second)
    check_shares(first, share=share)
    part = share[:, None]
    return child(
        first,
        second.weights.lerp(first.weights, part),
        second.statistics.lerp(first.statistics, part),
    )


@torch.no_grad()
def with_statistics_of(net: Network, features: Tensor) -> Network:
    """Return ``net`` with the running statistics of its batch norms measured on ``features``.

    Args:
        net: P members.
        features: float32 (P, B, I), what the children see in their games; B > 1.
    """
    child = clone(net)
    if not child.statistics.shape[1]:
        return child
    # Running statistics move by a share of the way to a batch's. From 0 they come to that share of
    # the batch's, in every layer, because in training a norm does not look at them.
    child.statistics.zero_()
    for tower in range(len(net.towers)):
        child(features, tower=tower, training=True)
    child.statistics.div_(BATCH_NORM_MOMENTUM)
    return child


def layer_crossover(first: Network, second: Network, *, share: Tensor, stream: Stream) -> Network:
    """Return children that have each layer, whole, from one of their parents.

    A layer goes with the norms that follow it and their running statistics; a residual block and a
    block of attention stay whole. The layers of all towers are drawn independently, as in the
    uniform crossover of Syswerda (ICGA 1989) with layers as genes.

    Args:
        first: P parents.
        second: P parents of the same structure.
        share: float32 (P,), probability that a layer comes from ``first``.
        stream: one row a member.

    Raises:
        ValueError: if the parents are not alike, or something is not of P members.
    """
    _check(first, second, share, stream)
    body = first.layout
    genes = list(_genes(body))
    is_first = stream.uniform(len(genes)) < share[:, None]
    gene_of = {affine.start: index for index, gene in enumerate(genes) for affine in gene}

    def from_first(affine: Affine) -> Tensor:
        return is_first[:, gene_of[affine.start], None]

    return _mixed(first, second, for_each_affine(body, from_first))


def unit_crossover(first: Network, second: Network, *, share: Tensor, stream: Stream) -> Network:
    """Return children that have each unit from one of their parents.

    A unit goes with its incoming weights, bias, place in norms and running statistics, and all
    that writes one residual stream takes a unit from the same parent. It means what it meant only
    if its inputs do: parents of different descent should be aligned first (`alignment.aligned`).

    Args:
        first: P parents.
        second: P parents of the same structure.
        share: float32 (P,), probability that a unit comes from ``first``.
        stream: one row a member.

    Raises:
        ValueError: if the parents are not alike, or something is not of P members.
    """
    _check(first, second, share, stream)
    body = first.layout
    widths = [group.width for group in body.groups]
    is_first = stream.uniform(sum(widths)) < share[:, None]
    return _mixed(first, second, by_writer(body, is_first.split(widths, dim=1)))


def _check(first: Network, second: Network, share: Tensor, stream: Stream) -> None:
    check_alike(first, second)
    check_shares(first, share=share)
    check_members(first, stream=stream)


def _genes(body: WeightLayout) -> Iterator[list[Affine]]:
    """Yield the affines that are inherited together."""
    for items in body.towers:
        gene: list[Affine] = []
        for item in items:
            is_norm = isinstance(item.layer, BatchNorm | LayerNorm)
            if gene and not is_norm:
                yield gene
                gene = []
            gene += item.affines
        yield gene


def _mixed(first: Network, second: Network, is_first: Spread) -> Network:
    return child(
        first,
        torch.where(is_first.weights, first.weights, second.weights),
        torch.where(is_first.statistics, first.statistics, second.statistics),
    )
