"""What operators share: children of given weights, checks, random numbers, the layout of weights.

Axes: P members, Q children, W weights and S statistics of one member, side by side in its bank, N
numbers, U units of a group.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.kernels.threads import threads
from hpsearch.game.stream import Stream
from hpsearch.trainers.config.weight_layout import Affine, WeightLayout
from hpsearch.trainers.networks import Network


def child(net: Network, weights: Tensor, statistics: Tensor) -> Network:
    """Return a network of the structure of ``net`` with copies of (Q, W) and (Q, S)."""
    other = net.like(weights.shape[0])
    other.weights.copy_(weights)
    other.statistics.copy_(statistics)
    return other


def bank(net: Network) -> Tensor:
    """Return weights and statistics side by side, (P, W + S)."""
    return torch.cat([net.weights, net.statistics], dim=1)


def child_of_bank(net: Network, values: Tensor) -> Network:
    """Return a network of the structure of ``net`` with a copy of such values."""
    sizes = [net.weights.shape[1], net.statistics.shape[1]]
    return child(net, *values.split(sizes, dim=1))


def scratch(net: Network) -> Network:
    """Return a copy to compute with and throw away.

    Never compiled, as each network of its own shape would be a case of the one function that torch
    compiles; its first weights are cheap, as they are written over.
    """
    towers = [replace(tower, init="uniform") for tower in net.towers]
    keys = torch.zeros(len(net.weights), dtype=torch.int64, device=net.weights.device)
    other = Network(net.inputs, towers, replace(net.arithmetic, compile="off"), Stream(keys))
    other.copy_(net)
    return other


def check_alike(first: Network, second: Network) -> None:
    """ValueError unless two parents have members and layers alike."""
    if first.structure != second.structure:
        raise ValueError(
            "parents must see the same, and have the same layers and activation; got "
            f"{first.structure} and {second.structure}"
        )
    own, other = len(first.weights), len(second.weights)
    if own != other:
        raise ValueError(f"parents come in pairs, member by member; got {own} and {other} members")


def check_members(net: Network, **given: Tensor | Stream) -> None:
    """ValueError unless each named argument has one row a member."""
    num_members = net.weights.shape[0]
    for name, value in given.items():
        tensor = value.keys if isinstance(value, Stream) else value
        rows = tuple(tensor.shape[:1])
        if rows != (num_members,):
            raise ValueError(f"{name} needs a row for each of {num_members} members, got {rows}")


def check_shares(net: Network, **given: Tensor) -> None:
    """ValueError unless each named argument is a vector of one number a member, in 0..1."""
    check_numbers(net, **given)
    for name, value in given.items():
        if (value > 1).any():
            raise ValueError(f"{name} must not exceed 1, got {value.tolist()}")


def check_numbers(net: Network, **given: Tensor) -> None:
    """ValueError unless each named argument is a vector of one number a member, none below 0."""
    for name, value in given.items():
        if value.shape != net.weights.shape[:1]:
            raise ValueError(
                f"{name} must hold one number for each of {net.weights.shape[0]} members, "
                f"got the shape {tuple(value.shape)}"
            )
        # Operators run where the making of a child waits for the device anyway.
        if not ((value >= 0) & value.isfinite()).all():
            raise ValueError(f"{name} must be finite and at least 0, got {value.tolist()}")


_HALF_A_STEP = 2.0**-25
"""half of what uniform numbers are multiples of: it keeps them off 0 and makes them symmetric"""


def normal(stream: Stream, num_numbers: int) -> Tensor:
    """Return the next ``num_numbers`` normal numbers of every member, float32 (P, N)."""
    drawn: Tensor = torch.special.ndtri(stream.uniform(num_numbers).double() + _HALF_A_STEP)
    return drawn.float()


def below(stream: Stream, num_numbers: int, bound: int) -> Tensor:
    """Return the next ``num_numbers`` in 0 ... bound - 1 of every member, int64 (P, N)."""
    # A product just below the bound may round up to it.
    return (stream.uniform(num_numbers).double() * bound).long()


# From values of units to values of the weights in the bank, by `weight_layout`.


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


def by_reader(layout: WeightLayout, values: Sequence[Tensor]) -> Tensor:
    """Return for every weight the value of the unit that it reads, (P, W); (P, U) by group.

    Biases and norms, which read none, have the value 1.
    """
    columns = []
    for affine in layout.affines:
        width, rows = affine.shape[1], affine.rows
        ones = values[0].new_ones(values[0].shape[0], width)
        columns += [ones if rows is None else values[rows].repeat_interleave(width, 1), ones]
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
    sizes = for_each_affine(net.layout, lambda affine: row_sizes(net.weights[:, affine.weight]))
    return sizes[:, : net.layout.size]


def row_sizes(rows: Tensor) -> Tensor:
    """Return the root mean square of each row, float32 (P, 1)."""
    with threads(1):  # several would share out the sum of a single row, and round otherwise
        return rows.square().mean(dim=1, keepdim=True).sqrt()
