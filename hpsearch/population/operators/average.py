"""Averages of parents: one network for two, at no cost of playing.

Axes: P members, B positions, I inputs.
"""

import torch
from torch import Tensor

from hpsearch.population.operators.alignment import aligned
from hpsearch.population.operators.checks import check_alike, check_shares
from hpsearch.population.operators.children import child
from hpsearch.population.operators.clone import clone
from hpsearch.trainers.networks import Network
from hpsearch.trainers.networks.reader import BATCH_NORM_MOMENTUM


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
    found = clone(net)
    if not found.statistics.shape[1]:
        return found
    # Running statistics move by a share of the way to a batch's. From 0 they come to that share of
    # the batch's, in every layer, because in training a norm does not look at them.
    found.statistics.zero_()
    for tower in range(len(net.towers)):
        found(features, tower=tower, training=True)
    found.statistics.div_(BATCH_NORM_MOMENTUM)
    return found
