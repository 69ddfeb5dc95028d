"""What operators ask of the networks that they are given."""

from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers.config.players import (
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)
from hpsearch.trainers.networks import Network


def check_alike(first: Network, second: Network) -> None:
    """Check that two parents have members and layers alike.

    Raises:
        ValueError: if one could not take over the other's weights.
    """
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
    """Check that what is given by name has one row a member.

    Raises:
        ValueError: naming what has not.
    """
    num_members = net.weights.shape[0]
    for name, value in given.items():
        rows = (value.keys if isinstance(value, Stream) else value).shape[:1]
        if tuple(rows) != (num_members,):
            raise ValueError(
                f"{name} needs a row for each of {num_members} members, got {tuple(rows)}"
            )


def check_shares(net: Network, **given: Tensor) -> None:
    """Check that what is given by name is a vector of one number a member, in 0..1.

    Raises:
        ValueError: naming what is not.
    """
    check_numbers(net, **given)
    for name, value in given.items():
        if (value > 1).any():
            raise ValueError(f"{name} must not exceed 1, got {value.tolist()}")


def check_numbers(net: Network, **given: Tensor) -> None:
    """Check that what is given by name is a vector of one number a member, none below 0.

    Raises:
        ValueError: naming what is not.
    """
    for name, value in given.items():
        if value.shape != net.weights.shape[:1]:
            raise ValueError(
                f"{name} must hold one number for each of {net.weights.shape[0]} members, "
                f"got the shape {tuple(value.shape)}"
            )
        # Operators run where a birth waits for the device anyway.
        if not ((value >= 0) & value.isfinite()).all():
            raise ValueError(f"{name} must be finite and at least 0, got {value.tolist()}")


def check_same_game(net: Network, target: Network) -> None:
    """Check that a network can be what another one is to grow into.

    Raises:
        ValueError: if they differ in more than widths, depths, encoders' sizes and first weights.
    """
    own, wanted = _frame(net), _frame(target)
    if own != wanted:
        raise ValueError(
            "growing keeps what is seen, the kind of encoder, the activation and the outputs; got "
            f"{own}, wanted {wanted}"
        )


def _frame(net: Network) -> tuple[object, ...]:
    """Return what growing keeps."""
    towers = [
        (_kind(tower.encoder), tower.activation, tower.num_outputs, tower.dueling)
        for tower in net.towers
    ]
    return (net.inputs, *towers)


def _kind(encoder: Encoder) -> object:
    """Return what of an encoder does not grow."""
    match encoder:
        case FlattenEncoder():
            return encoder
        case DeepSetsEncoder():
            return (encoder.name, encoder.pool)
        case AttentionEncoder():
            return encoder.name
