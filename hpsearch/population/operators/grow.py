"""Growing wider, deeper or both without changing what is computed; see `wider` and `deeper`.

Axes: P members.
"""

from collections.abc import Iterator
from dataclasses import replace

import torch

from hpsearch.game.stream import Stream
from hpsearch.population.operators.checks import check_same_game
from hpsearch.population.operators.deeper import deeper
from hpsearch.population.operators.growth import ground, widened
from hpsearch.population.operators.wider import wider
from hpsearch.trainers.networks import Network, Tower


def grow(net: Network, target: Network, *, noise: float, stream: Stream) -> Network:
    """Return networks with the layers of ``target`` that compute what ``net`` computes.

    To rounding, and in training too. First the layers of ``net`` become as wide as those of
    ``target`` that they are to be, then the others come in between.

    Args:
        net: P members.
        target: what the children shall look like; encoders as they are. Its weights are not looked
            at.
        noise: standard deviation of what is added to the incoming weights of new units and to new
            linear layers, as a share of the root mean square of their layer's; 0 for none. Copies
            that stay equal learn the same for ever.
        stream: one row a member.

    Raises:
        ValueError: if ``target`` cannot be reached by widening and new layers, or ``stream`` is
            not of P members.
    """
    check_same_game(net, target)
    towers = tuple(_widened(net, target))
    nowhere = torch.zeros_like(stream.keys)
    # Never run: neither compiled nor drawn for more than its shape.
    arithmetic = replace(target.arithmetic, compile="off")
    between = Network(target.inputs, towers, arithmetic, Stream(nowhere, nowhere.clone()))
    wide = wider(net, between, noise=noise, stream=stream)
    return deeper(wide, target, noise=noise, stream=stream)


def _widened(net: Network, target: Network) -> Iterator[Tower]:
    """Yield each tower of ``target`` with as many layers as that of ``net`` has."""
    seen = net.inputs
    for own, wanted in zip(net.towers, target.towers, strict=True):
        on = ground(own.encoder, own.activation, dimension=seen.dimension, num_more=seen.num_more)
        found = widened(own.layers, wanted.layers, on)
        if found is None or own.encoder != wanted.encoder:
            raise ValueError(
                "growing makes layers wider and adds some that can begin as the identity; got "
                f"{own.encoder} and {own.layers} with {own.activation}, wanted {wanted.encoder} "
                f"and {wanted.layers}"
            )
        yield replace(wanted, layers=found, init="uniform", last_scale=1.0)
