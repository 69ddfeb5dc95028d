"""Crossover of weights: every layer, or every unit, from one of two parents.

Axes: P members, U units of a group.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.anatomy import Affine, Anatomy
from hpsearch.population.operators.checks import check_alike, check_members, check_shares
from hpsearch.population.operators.children import child
from hpsearch.population.operators.survey import anatomy
from hpsearch.population.operators.units import Spread, by_writer, for_each_affine
from hpsearch.trainers.net_arch import BatchNorm, LayerNorm
from hpsearch.trainers.networks import Network


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
    body = anatomy(first)
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
    body = anatomy(first)
    widths = [group.width for group in body.groups]
    is_first = stream.uniform(sum(widths)) < share[:, None]
    return _mixed(first, second, by_writer(body, is_first.split(widths, dim=1)))


def _check(first: Network, second: Network, share: Tensor, stream: Stream) -> None:
    check_alike(first, second)
    check_shares(first, share=share)
    check_members(first, stream=stream)


def _genes(body: Anatomy) -> Iterator[list[Affine]]:
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
