"""What operators share: checks of networks, children of given weights, random numbers.

Axes: P members, Q children, W weights and S statistics of one member, N numbers.
"""

from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
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
    other = Network(net.inputs, towers, replace(net.arithmetic, compile="off"), Stream(keys, keys))
    other.weights.copy_(net.weights)
    other.statistics.copy_(net.statistics)
    return other


def check_alike(first: Network, second: Network) -> None:
    """ValueError unless two parents have members and layers alike."""
    if first.structure != second.structure:
        raise ValueError(
            "parents must see the same, and have the same layers and activation; got "
            f"{first.structure} and {second.structure}"
        )
    if first.weights.shape != second.weights.shape:
        raise ValueError(
            "parents come in pairs, member by member; got "
            f"{first.weights.shape[0]} and {second.weights.shape[0]} members"
        )


def check_members(net: Network, **given: Tensor | Stream) -> None:
    """ValueError unless each named argument has one row a member."""
    num_members = net.weights.shape[0]
    for name, value in given.items():
        rows = (value.keys if isinstance(value, Stream) else value).shape[:1]
        if tuple(rows) != (num_members,):
            raise ValueError(
                f"{name} needs a row for each of {num_members} members, got {tuple(rows)}"
            )


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
