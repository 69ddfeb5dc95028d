"""From values of units to values of the weights in the bank, by `weight_layout`.

Axes: P members, U units of a group, W weights and S statistics of one member, side by side as
`base.bank` has them.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from hpsearch.trainers.config.weight_layout import Affine, WeightLayout
from hpsearch.trainers.networks import Network


def places(source: WeightLayout, units: Sequence[Tensor]) -> Tensor:
    """Return where in the bank of ``source`` each value of another network is to be taken from.

    ``units`` int64 (P, U') says for each group which of the source's units each unit comes from.
    The result is int64 (P, W' + S'), to `gather` with.
    """
    nothing = units[0].new_zeros(units[0].shape[0], 1)
    weights, statistics = [], []
    for affine in source.affines:
        columns = columns_from(source, affine, units)
        rows = nothing if affine.rows is None else units[affine.rows]
        weight = affine.start + rows[:, :, None] * affine.shape[1] + columns[:, None]
        weights += [weight.flatten(1), affine.bias.start + columns]
        if affine.statistics is not None:
            mean = source.size + affine.statistics + columns
            statistics += [mean, mean + affine.shape[1]]
    return torch.cat([*weights, *statistics], dim=1)


def columns_from(source: WeightLayout, affine: Affine, units: Sequence[Tensor]) -> Tensor:
    """Return which columns of the source's affine each column is taken from, (..., C')."""
    columns, offset = [], 0
    for group in affine.columns:
        columns.append(offset + units[group])
        offset += source.groups[group].width
    return torch.cat(columns, dim=-1)


def by_writer(layout: WeightLayout, values: Sequence[Tensor]) -> Tensor:
    """Return for every weight and statistic the value of its unit; ``values`` (P, U) by group.

    A unit's own are its incoming weights, its bias, and its place in norms.
    """
    weights, statistics = [], []
    for affine in layout.affines:
        columns = torch.cat([values[group] for group in affine.columns], dim=1)
        weights += [columns] * (affine.shape[0] + 1)
        if affine.statistics is not None:
            statistics += [columns, columns]
    return torch.cat([*weights, *statistics], dim=1)


def by_reader(layout: WeightLayout, values: Sequence[Tensor], otherwise: float) -> Tensor:
    """Return for every weight the value of the unit that it reads, (P, W); (P, U) by group.

    Biases and norms, which read none, have the value ``otherwise``.
    """
    columns = []
    for affine in layout.affines:
        width = affine.shape[1]
        nothing = values[0].new_full((values[0].shape[0], width), otherwise)
        rows = affine.rows
        columns += [nothing if rows is None else values[rows].repeat_interleave(width, 1), nothing]
    return torch.cat(columns, dim=1)


def for_each_affine(layout: WeightLayout, value: Callable[[Affine], Tensor]) -> Tensor:
    """Return for every weight and statistic the value (P, 1) of its affine."""
    weights, statistics = [], []
    for affine in layout.affines:
        own = value(affine)
        weights.append(own.expand(-1, affine.size))
        if affine.statistics is not None:
            statistics.append(own.expand(-1, 2 * affine.shape[1]))
    return torch.cat([*weights, *statistics], dim=1)


def layer_sizes(net: Network) -> Tensor:
    """Return for every weight the root mean square of its layer's weights, float32 (P, W)."""

    def size(affine: Affine) -> Tensor:
        return net.weights[:, affine.weight].square().mean(dim=1, keepdim=True).sqrt()

    return for_each_affine(net.layout, size)[:, : net.layout.size]
