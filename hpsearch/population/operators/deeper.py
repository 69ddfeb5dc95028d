"""Growing deeper without changing what is computed.

Net2DeeperNet of Chen, Goodfellow, Shlens, Net2Net (arXiv 1511.05641): a new layer
begins as the identity. A residual block is one while its last norm's scale is 0 (Goyal et al.,
arXiv 1706.02677, section 5.1), a block of attention while its last layers are.

Axes: P members.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.anatomy import Affine, Block, Item, PointLayer
from hpsearch.population.operators.checks import check_members, check_same_game
from hpsearch.population.operators.noise import normal
from hpsearch.population.operators.survey import anatomy
from hpsearch.population.operators.units import layer_sizes
from hpsearch.trainers.net_arch import Linear, Residual
from hpsearch.trainers.networks import Network


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
    for index, (own, its) in enumerate(
        zip(anatomy(grown).towers, anatomy(net).towers, strict=True)
    ):
        matched = list(_matched(own, its))
        _check_new_ones(matched, activation=net.towers[index].activation)
        for one in matched:
            if isinstance(one, _Inherited):
                _inherit(grown, net, one)
            else:
                _make_identity(grown, one.own)
                news.append(one.own)
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
    for one in matched:
        layer = one.own.layer
        if isinstance(one, _New) and not isinstance(layer, Block):
            if not isinstance(layer, Linear | PointLayer | Residual) or not _keeps_width(one.own):
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


def _inherit(grown: Network, net: Network, one: _Inherited) -> None:
    """Copy a layer's weights and statistics."""
    for own, its in zip(one.own.affines, one.its.affines, strict=True):
        if own.shape != its.shape:
            raise ValueError(
                f"{one.own.layer} has {own.shape} weights in the deeper network, and {its.shape} "
                "in the one that grows"
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
