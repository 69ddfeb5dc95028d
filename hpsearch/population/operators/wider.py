"""Growing wider without changing what is computed.

Net2WiderNet of Chen, Goodfellow, Shlens, Net2Net (arXiv 1511.05641): new units are copies of old
ones, and what reads a unit divides its weight among the copies.

Axes: P members, U units of a group.
"""

from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.anatomy import Anatomy
from hpsearch.population.operators.checks import check_members, check_same_game
from hpsearch.population.operators.children import child
from hpsearch.population.operators.noise import below, normal
from hpsearch.population.operators.survey import anatomy
from hpsearch.population.operators.units import by_reader, by_writer, layer_sizes, places
from hpsearch.trainers.networks import Network


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
    old, new = anatomy(net), anatomy(target)
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


def _symmetry_breaking(grown: Network, old: Anatomy, new: Anatomy, stream: Stream) -> Tensor:
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


def _check_layers(old: Anatomy, new: Anatomy) -> None:
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


def _check_widths(old: Anatomy, new: Anatomy) -> None:
    """Check that every group can grow as is wanted."""
    whole = old.layer_normed | {g for one in old.heads for g in (one.query_key, one.value)}
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


def _layers(body: Anatomy) -> list[object]:
    return [item.layer for items in body.towers for item in items]
