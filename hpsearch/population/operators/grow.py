"""Growing wider, deeper or both without changing what is computed.

Axes: P members.

Growing wider without changing what is computed.

Net2WiderNet of Chen, Goodfellow, Shlens, Net2Net (arXiv 1511.05641): new units are copies of old
ones, and what reads a unit divides its weight among the copies.

Axes: P members, U units of a group.

Growing deeper without changing what is computed.

Net2DeeperNet of Chen, Goodfellow, Shlens, Net2Net (arXiv 1511.05641): a new layer
begins as the identity. A residual block is one while its last norm's scale is 0 (Goyal et al.,
arXiv 1706.02677, section 5.1), a block of attention while its last layers are.

Axes: P members.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.base import below, check_members, check_same_game, child, normal
from hpsearch.population.operators.growth import ground, widened
from hpsearch.population.operators.layout import by_reader, by_writer, layer_sizes, places
from hpsearch.trainers.config.net_arch import Linear, Residual
from hpsearch.trainers.config.weight_layout import Affine, Block, Item, PointLayer, WeightLayout
from hpsearch.trainers.networks import Network, Tower


def wider(net: Network, target: Network, *, noise: float, stream: Stream) -> Network:
    """Return networks with the widths of ``target`` that compute what ``net`` computes.

    To rounding, and in training too: copies have their unit's place in norms and its statistics.
    Where the new width is a multiple of the old one, all units have equally many copies; else
    those who have more are drawn. Layer norms see a mean over units, and heads must stay whole, so
    there a multiple is needed.

    Args:
        net: P members.
        target: what the children shall look like: the same layers, nowhere narrower, and in
            attention as many more heads as the width grows. Its weights are not looked at.
        noise: standard deviation of what is added to the incoming weights of new units, as a share
            of the root mean square of their layer's; 0 for none. Copies that stay equal learn
            the same for ever.
        stream: one row a member.

    Raises:
        ValueError: if ``target`` cannot be reached by widening, or ``stream`` is not of P members.
    """
    check_members(net, stream=stream)
    check_same_game(net, target)
    old, new = net.layout, target.layout
    _check_layers(old, new)
    _check_widths(old, new)
    sources = [
        _sources(stream, before.width, after.width)
        for before, after in zip(old.groups, new.groups, strict=True)
    ]
    taken = places(old, sources)
    bank = target.like(net.weights.shape[0])
    grown = child(
        bank, net.weights.gather(1, taken.weights), net.statistics.gather(1, taken.statistics)
    )
    copies = [
        _copies(source, group.width) for source, group in zip(sources, old.groups, strict=True)
    ]
    weights = grown.weights / by_reader(new, copies, otherwise=1.0)
    if noise > 0.0:
        weights = weights + noise * _symmetry_breaking(grown, old, new, stream)
    return child(bank, weights, grown.statistics)


def _sources(stream: Stream, width: int, new_width: int) -> Tensor:
    """Return which old unit each new one copies, int64 (P, U'); the first are the old ones."""
    device = stream.keys.device
    every = torch.arange(new_width, device=device).expand(stream.keys.shape[0], -1)
    if new_width % width == 0:
        return every % width
    return torch.cat([every[:, :width], below(stream, new_width - width, width)], dim=1)


def _copies(sources: Tensor, width: int) -> Tensor:
    """Return how many copies the unit of each new one has, float32 (P, U')."""
    counts = torch.zeros(sources.shape[0], width, device=sources.device)
    counts = counts.scatter_add(1, sources, torch.ones_like(sources, dtype=counts.dtype))
    return counts.gather(1, sources)


def _symmetry_breaking(
    grown: Network, old: WeightLayout, new: WeightLayout, stream: Stream
) -> Tensor:
    """Return noise for the linear weights that write new units, float32 (P, W')."""
    num_members = grown.weights.shape[0]
    is_new = [
        (torch.arange(after.width, device=stream.keys.device) >= before.width).expand(
            num_members, -1
        )
        for before, after in zip(old.groups, new.groups, strict=True)
    ]
    wanted = by_writer(new, is_new).weights.clone()
    for affine in new.affines:
        if affine.kind != "linear":
            wanted[:, affine.start : affine.bias.stop] = False
    return wanted * layer_sizes(grown) * normal(stream, new.size)


def _check_layers(old: WeightLayout, new: WeightLayout) -> None:
    """Check that both have the same layers, whatever their widths."""
    kinds, wanted = (
        [replace(affine, start=0, shape=(0, 0), statistics=None) for affine in body.affines]
        for body in (old, new)
    )
    has_statistics = [[p.statistics is not None for p in body.affines] for body in (old, new)]
    if kinds != wanted or has_statistics[0] != has_statistics[1]:
        raise ValueError(
            "widening keeps all layers, and residual blocks that project; got "
            f"{_layers(old)}, wanted {_layers(new)}"
        )


def _check_widths(old: WeightLayout, new: WeightLayout) -> None:
    """Check that every group can grow as is wanted."""
    whole = old.layer_normed | {g for head in old.heads for g in (head.query_key, head.value)}
    for index, (before, after) in enumerate(zip(old.groups, new.groups, strict=True)):
        if not before.is_hidden and after.width != before.width:
            raise ValueError(
                f"inputs and outputs cannot be widened, got {before.width} for {after.width}"
            )
        if after.width < before.width:
            raise ValueError(
                f"widening makes no layer narrower, got {before.width} for {after.width}"
            )
        if index in whole and after.width % before.width:
            raise ValueError(
                "before a layer norm and in attention the new width must be a multiple of the old "
                f"one, got {before.width} for {after.width}"
            )
    for own, its in zip(old.heads, new.heads, strict=True):
        widths = old.groups[own.value].width, new.groups[its.value].width
        if widths[0] * its.count != widths[1] * own.count:
            raise ValueError(
                "attention grows by more heads of the same width, got "
                f"{own.count} of {widths[0]} for {its.count} of {widths[1]}"
            )


def _layers(body: WeightLayout) -> list[object]:
    return [item.layer for items in body.towers for item in items]


@dataclass(frozen=True)
class _Inherited:
    """A layer that the parent has, too."""

    own: Item
    its: Item


@dataclass(frozen=True)
class _New:
    """A layer that the parent has not."""

    own: Item


def deeper(net: Network, target: Network, *, noise: float, stream: Stream) -> Network:
    """Return networks with the layers of ``target`` that compute what ``net`` computes.

    To rounding, and in training too. The layers of ``net`` are recognised in their order, as early
    as they fit; what ``target`` has beyond them are new layers: residual blocks that project
    nothing, blocks of attention, linear layers and layers of deep sets as wide as their inputs.

    Args:
        net: P members.
        target: what the children shall look like; its weights are not looked at.
        noise: standard deviation of what is added to new linear layers' weights, as a share of
            their root mean square; 0 for none.
        stream: one row a member; new blocks' other weights are drawn from it as a fresh network's.

    Raises:
        ValueError: if ``target`` lacks a layer of ``net``, or a new one cannot be the identity
            there: all but blocks of attention end in the activation, which must be relu and come
            after another; or if ``stream`` is not of P members.
    """
    check_members(net, stream=stream)
    check_same_game(net, target)
    grown = Network(target.inputs, target.towers, target.arithmetic, stream)
    news = []
    for index, (own, its) in enumerate(zip(grown.layout.towers, net.layout.towers, strict=True)):
        matched = list(_matched(own, its))
        _check_new_ones(matched, activation=net.towers[index].activation)
        for inherited in matched:
            if isinstance(inherited, _Inherited):
                _inherit(grown, net, inherited)
            else:
                _make_identity(grown, inherited.own)
                news.append(inherited.own)
    if noise > 0.0:
        _add_noise(grown, news, noise, stream)
    return grown


def _matched(own: Sequence[Item], its: Sequence[Item]) -> Iterator[_Inherited | _New]:
    """Say of each item which of the parent's it is, the earliest that fits."""
    rest = list(its)
    for item in own:
        if rest and item.layer == rest[0].layer:
            yield _Inherited(item, rest.pop(0))
        else:
            yield _New(item)
    if rest:
        raise ValueError(
            "a deeper network has all layers of the one that grows, in their order; got "
            f"{[item.layer for item in own]}, which lacks {rest[0].layer}"
        )


def _check_new_ones(matched: Sequence[_Inherited | _New], *, activation: str) -> None:
    is_activated = False
    for inherited in matched:
        layer = inherited.own.layer
        if isinstance(inherited, _New) and not isinstance(layer, Block):
            if not isinstance(layer, Linear | PointLayer | Residual) or not _keeps_width(
                inherited.own
            ):
                raise ValueError(
                    "a new layer must be linear, a residual block or a block of attention, as wide "
                    f"as its inputs, got {layer}"
                )
            if activation != "relu" or not is_activated:
                raise ValueError(
                    f"{layer} is no identity unless it follows a layer that ends in relu, "
                    f"got {activation=}"
                )
        is_activated = isinstance(layer, Linear | PointLayer | Residual)


def _keeps_width(item: Item) -> bool:
    """Say whether a layer's first matrix is square and its skip, if there is one, projects not."""
    first = item.affines[0]
    return first.shape[0] == first.shape[1] and not item.is_projected


def _inherit(grown: Network, net: Network, inherited: _Inherited) -> None:
    """Copy a layer's weights and statistics."""
    for own, its in zip(inherited.own.affines, inherited.its.affines, strict=True):
        if own.shape != its.shape:
            raise ValueError(
                f"{inherited.own.layer} has {own.shape} weights in the deeper network, and "
                f"{its.shape} in the one that grows"
            )
        grown.weights[:, own.start : own.bias.stop] = net.weights[:, its.start : its.bias.stop]
        if own.statistics is not None and its.statistics is not None:
            width = 2 * own.shape[1]
            grown.statistics[:, own.statistics : own.statistics + width] = net.statistics[
                :, its.statistics : its.statistics + width
            ]


def _make_identity(grown: Network, item: Item) -> None:
    for affine in item.identity_affines:
        _zero(grown, affine)
    if isinstance(item.layer, Linear | PointLayer):
        (affine,) = item.affines
        _zero(grown, affine)
        identity = torch.eye(affine.shape[0], device=grown.weights.device)
        grown.weights[:, affine.weight] = identity.view(-1)


def _zero(grown: Network, affine: Affine) -> None:
    grown.weights[:, affine.start : affine.bias.stop] = 0.0


def _add_noise(grown: Network, news: Sequence[Item], noise: float, stream: Stream) -> None:
    """Move the weights of new linear layers a little from the identity."""
    drawn: Tensor = noise * layer_sizes(grown) * normal(stream, grown.weights.shape[1])
    for item in news:
        if isinstance(item.layer, Linear | PointLayer):
            (affine,) = item.affines
            grown.weights[:, affine.weight] += drawn[:, affine.weight]


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
        layers = widened(own.layers, wanted.layers, on)
        if layers is None or own.encoder != wanted.encoder:
            raise ValueError(
                "growing makes layers wider and adds some that can begin as the identity; got "
                f"{own.encoder} and {own.layers} with {own.activation}, wanted {wanted.encoder} "
                f"and {wanted.layers}"
            )
        yield replace(wanted, layers=layers, init="uniform", last_scale=1.0)
