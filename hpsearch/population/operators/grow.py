"""Growing wider, deeper or both without changing what is computed.

Chen, Goodfellow, Shlens, Net2Net, arXiv 1511.05641. Wider: new units are copies of old ones, and
what reads a unit divides its weight among the copies. Deeper: a new layer begins as the identity.
A residual block is one while its last norm's scale is 0 (Goyal et al., arXiv 1706.02677, section
5.1).

Axes: P members, U units of a group.
"""

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators import base
from hpsearch.population.operators.growth import widened
from hpsearch.trainers.config.weight_layout import Affine, PlacedLayer, Tower, WeightLayout
from hpsearch.trainers.networks import Network


def grow(net: Network, target: Network, *, noise: float, stream: Stream) -> Network:
    """Return networks with the layers of ``target`` that compute what ``net`` computes.

    To rounding, and in training too. First the layers of ``net`` (P members) become as wide as
    those of ``target`` that they are to be, then the others come in between. The weights of
    ``target`` do not count; new blocks' other weights are drawn as a fresh network's. ``noise`` is
    the standard deviation of what is added to the incoming weights of new units and to new linear
    layers, as a share of the root mean square of their layer's: copies that stay equal learn the
    same for ever. ValueError if ``target`` cannot be reached so, or ``stream`` is not of P members.
    """
    base.check_members(net, stream=stream)
    if _frame(net) != _frame(target):
        raise ValueError(
            "growing keeps what is seen, the encoder, the activation and the outputs; got "
            f"{_frame(net)}, wanted {_frame(target)}"
        )
    kept = [_kept(net, target, index) for index in range(len(target.towers))]
    towers = [
        _with_layers(tower, layers, places)
        for tower, layers, places in zip(target.towers, target.layout.towers, kept, strict=True)
    ]
    # Never run: neither compiled nor drawn for more than its shape.
    arithmetic = replace(target.arithmetic, compile="off")
    between = Network(target.inputs, towers, arithmetic, Stream(torch.zeros_like(stream.keys)))
    wide = _wider(net, between, noise, stream)
    return _deeper(wide, target, kept, noise, stream)


def _frame(net: Network) -> tuple[object, ...]:
    towers = ((t.encoder, t.activation, t.num_outputs, t.dueling) for t in net.towers)
    return (net.inputs, *towers)


def _kept(net: Network, target: Network, index: int) -> tuple[int, ...]:
    """Return the places of a tower of ``target`` that the layers of ``net`` take."""
    own, wanted = net.towers[index], target.towers[index]
    kept = widened(net.layout.towers[index], target.layout.towers[index], own.activation)
    if kept is None:
        raise ValueError(
            "growing makes layers wider and adds some that can begin as the identity; got "
            f"{own.layers} with {own.activation}, wanted {wanted.layers}"
        )
    return kept


def _with_layers(tower: Tower, layers: Sequence[PlacedLayer], kept: Sequence[int]) -> Tower:
    """Return a tower with some of its hidden layers, by their places among all ``layers``."""
    first, last = len(layers) - 1 - len(tower.layers), len(layers) - 1
    hidden = tuple(tower.layers[place - first] for place in kept if first <= place < last)
    return replace(tower, layers=hidden, init="uniform", last_scale=1.0)


def _wider(net: Network, target: Network, noise: float, stream: Stream) -> Network:
    """Return networks with the widths of ``target``; copies have their unit's place in norms.

    Units that have more copies than others are drawn.
    """
    old, new = net.layout, target.layout
    widths = [(old.width, new.width) for old, new in zip(old.groups, new.groups, strict=True)]
    sources = [_sources(stream, width, new_width) for width, new_width in widths]
    grown = base.child_of_bank(target, base.bank(net).gather(1, base.places(old, sources)))
    copies = [_copies(taken, width) for taken, (width, _) in zip(sources, widths, strict=True)]
    weights = grown.weights / base.by_reader(new, copies)
    if noise > 0.0:
        weights = weights + noise * _symmetry_breaking(grown, old, stream)
    return base.child(target, weights, grown.statistics)


def _sources(stream: Stream, width: int, new_width: int) -> Tensor:
    """Return which old unit each new one copies, int64 (P, U'); the first are the old ones."""
    device = stream.keys.device
    every = torch.arange(new_width, device=device).expand(stream.keys.shape[0], -1)
    if new_width % width == 0:
        return every % width
    return torch.cat([every[:, :width], base.below(stream, new_width - width, width)], dim=1)


def _copies(sources: Tensor, width: int) -> Tensor:
    """Return how many copies the unit of each new one has, float32 (P, U')."""
    counts = torch.zeros(sources.shape[0], width, device=sources.device)
    counts = counts.scatter_add(1, sources, torch.ones_like(sources, dtype=counts.dtype))
    return counts.gather(1, sources)


def _symmetry_breaking(grown: Network, old: WeightLayout, stream: Stream) -> Tensor:
    """Return noise for the linear weights that write new units, float32 (P, W')."""
    new, num_members, device = grown.layout, len(grown.weights), grown.weights.device
    is_new = [
        (torch.arange(after.width, device=device) >= before.width).expand(num_members, -1)
        for before, after in zip(old.groups, new.groups, strict=True)
    ]
    wanted = base.by_writer(new, is_new)[:, : new.size]
    for affine in new.affines:
        if affine.kind != "linear":
            wanted[:, affine.start : affine.bias.stop] = False
    return wanted * base.layer_sizes(grown) * base.normal(stream, new.size)


def _deeper(
    net: Network, target: Network, kept: Sequence[Sequence[int]], noise: float, stream: Stream
) -> Network:
    """Return networks like ``target``; in each tower the layers of ``net`` take ``kept`` places."""
    grown = Network(target.inputs, target.towers, target.arithmetic, stream)
    linear: list[Affine] = []
    for own, its, places_kept in zip(grown.layout.towers, net.layout.towers, kept, strict=True):
        inherited = dict(zip(places_kept, its, strict=True))
        for place, layer in enumerate(own):
            if place in inherited:
                _inherit(grown, layer, net, inherited[place])
                continue
            _make_identity(grown, layer)
            if not layer.identity_affines:
                linear += layer.affines
    if noise > 0.0:
        sizes = base.layer_sizes(grown)
        drawn: Tensor = noise * sizes * base.normal(stream, grown.weights.shape[1])
        for affine in linear:
            grown.weights[:, affine.weight] += drawn[:, affine.weight]
    return grown


def _inherit(grown: Network, layer: PlacedLayer, net: Network, its: PlacedLayer) -> None:
    for own, other in zip(layer.affines, its.affines, strict=True):
        grown.weights[:, own.start : own.bias.stop] = net.weights[:, other.start : other.bias.stop]
        if own.statistics is not None and other.statistics is not None:
            width = 2 * own.shape[1]
            taken = net.statistics[:, other.statistics : other.statistics + width]
            grown.statistics[:, own.statistics : own.statistics + width] = taken


def _make_identity(grown: Network, layer: PlacedLayer) -> None:
    for affine in layer.identity_affines or layer.affines:
        grown.weights[:, affine.start : affine.bias.stop] = 0.0
    if not layer.identity_affines:  # a linear layer, which nothing skips
        (affine,) = layer.affines
        identity = torch.eye(affine.shape[0], device=grown.weights.device)
        grown.weights[:, affine.weight] = identity.view(-1)
