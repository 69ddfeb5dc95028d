"""Children by weights alone: copies, mutation, crossover by layers or units, averages.

A copy is the exploit step of population based training (Jaderberg et al., arXiv 1711.09846).
Axes: P members, W weights of one member, B positions, I inputs.
"""

from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators import base
from hpsearch.population.operators.alignment import aligned
from hpsearch.trainers.config.net_arch import BATCH_NORM_MOMENTUM
from hpsearch.trainers.config.weight_layout import Affine, WeightLayout
from hpsearch.trainers.networks import Network


def clone(net: Network) -> Network:
    """Return a copy of all members, which shares no memory with ``net``."""
    return base.child(net, net.weights, net.statistics)


def host_and_agent(
    host_of: Mapping[str, Network], agent_of: Mapping[str, Network]
) -> dict[str, Network]:
    """Return copies of the host of one parent and of the agent of the other.

    Either parent may lack the role that is not taken from it, but not the other (ValueError).
    """
    children = {}
    for role, parent in (("host", host_of), ("agent", agent_of)):
        if role not in parent:
            raise ValueError(f"the {role}'s parent must have learned the {role}, got {[*parent]}")
        children[role] = clone(parent[role])
    return children


def gaussian_mutation(net: Network, *, strength: Tensor, stream: Stream) -> Network:
    """Return children whose weights differ from their parents' by normal noise.

    Its standard deviation is ``strength`` float32 (P,) times the root mean square of the layer's
    own weights, also for the bias, even if that is 0; for a norm it is that of its scale. So
    ``strength`` means the same in wide and narrow layers. Running statistics stay those of the
    parent. ValueError if ``strength`` or ``stream`` is not of P members.
    """
    base.check_numbers(net, strength=strength)
    base.check_members(net, stream=stream)
    size = base.layer_sizes(net)
    noise = base.normal(stream, net.weights.shape[1])
    return base.child(net, net.weights + strength[:, None] * size * noise, net.statistics)


def aligned_average(first: Network, second: Network, *, share: Tensor) -> Network:
    """Return ``share`` float32 (P,) of the first parents and the rest of the aligned second ones.

    Ainsworth et al., Git Re-Basin, arXiv 2209.04836. Activations of an average vary less than those
    of its parents (Jordan et al., REPAIR, arXiv 2211.08403): see `with_statistics_of`. ValueError
    if the parents are not alike, or ``share`` is not of P members.
    """
    base.check_alike(first, second)
    base.check_shares(first, share=share)
    own, other = base.bank(first), base.bank(aligned(second, first))
    return base.child_of_bank(first, other.lerp(own, share[:, None]))


@torch.no_grad()
def with_statistics_of(net: Network, features: Tensor) -> Network:
    """Return ``net`` with the running statistics of its batch norms measured on ``features``.

    These are float32 (P, B, I), what the children see in their games; B > 1.
    """
    measured = clone(net)
    if not measured.statistics.shape[1]:
        return measured
    # A running statistic moves by BATCH_NORM_MOMENTUM of the way to the batch's. Starting from 0 it
    # ends at that share of it, so dividing gives the batch's own. That holds in every layer,
    # because in training a norm uses the batch's alone.
    measured.statistics.zero_()
    for tower in range(len(net.towers)):
        measured(features, tower=tower, training=True)
    measured.statistics.div_(BATCH_NORM_MOMENTUM)
    return measured


def layer_crossover(first: Network, second: Network, *, share: Tensor, stream: Stream) -> Network:
    """Return children that have each layer, whole, from one of their parents.

    A layer goes with the norms that follow it and their running statistics; blocks stay whole. The
    layers are the genes of the uniform crossover of Syswerda (ICGA 1989); ``share`` float32 (P,) is
    the probability that one comes from ``first``. ValueError if the parents are not alike, or
    something is not of P members.
    """
    _check(first, second, share, stream)
    genes = list(_genes(first.layout))
    is_first = stream.uniform(len(genes)) < share[:, None]
    gene_of = {affine.start: index for index, gene in enumerate(genes) for affine in gene}

    def from_first(affine: Affine) -> Tensor:
        return is_first[:, gene_of[affine.start], None]

    return _mixed(first, second, base.for_each_affine(first.layout, from_first))


def unit_crossover(first: Network, second: Network, *, share: Tensor, stream: Stream) -> Network:
    """Return children that have each unit from one of their parents, which are aligned before.

    A unit goes with its incoming weights, bias, place in norms and running statistics, and all
    that writes one residual stream takes a unit from the same parent. Else as `layer_crossover`.
    """
    _check(first, second, share, stream)
    widths = [group.width for group in first.layout.groups]
    is_first = stream.uniform(sum(widths)) < share[:, None]
    return _mixed(first, second, base.by_writer(first.layout, is_first.split(widths, dim=1)))


def _check(first: Network, second: Network, share: Tensor, stream: Stream) -> None:
    base.check_alike(first, second)
    base.check_shares(first, share=share)
    base.check_members(first, stream=stream)


def _genes(layout: WeightLayout) -> Iterator[list[Affine]]:
    """Yield the affines that are inherited together."""
    for layers in layout.towers:
        gene: list[Affine] = []
        for layer in layers:
            is_norm = "linear" not in layer.kinds
            if gene and not is_norm:
                yield gene
                gene = []
            gene += layer.affines
        yield gene


def _mixed(first: Network, second: Network, is_first: Tensor) -> Network:
    return base.child_of_bank(first, torch.where(is_first, base.bank(first), base.bank(second)))
