"""Which hidden units a network has, and which of its weights write and read them.

Units that everything numbers alike are a group: the outputs of a layer with its norm, all that a
residual stream joins, the queries and keys of one attention. Every operator that moves, mixes or
copies units works on groups; `survey` finds them, and where in the flat bank they lie.

Finds the anatomy of a network: walks through it as its forward pass does, and notes its layers.

This module alone knows in which order the flat bank holds them: that in which `networks.encoders`
and `networks.layers` lay them out.

From what is said of units to what it means for the weights in the bank.

Axes: P members, U units of a group, W weights and S statistics of one member.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import Literal

import torch
from torch import Tensor

from hpsearch.trainers.config.net_arch import BatchNorm, Layer, LayerNorm, Linear, Norm, Residual
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.networks import Inputs, Network, Tower

Kind = Literal["linear", "batch_norm", "layer_norm"]


@dataclass(frozen=True)
class Group:
    """Units that everything numbers alike."""

    width: int
    is_hidden: bool
    """inputs and outputs keep their order"""


@dataclass(frozen=True)
class Heads:
    """Two groups whose units form heads: head h holds h * size ... (h + 1) * size - 1 of both."""

    query_key: int
    value: int
    count: int


@dataclass(frozen=True)
class Affine:
    """A weight (rows, columns) and a bias (columns) that follows it in the bank."""

    name: str
    """as `Network.parts` has it, without ".weight" and ".bias" """
    kind: Kind
    start: int
    """of the weight in the bank"""
    shape: tuple[int, int]
    rows: int | None
    """the group that it reads; a norm has one row and works on what it writes"""
    columns: tuple[int, ...]
    """the groups that it writes, side by side"""
    statistics: int | None
    """where a batch norm's running means begin; its variances follow"""

    @property
    def weight(self) -> slice:
        """Return the weight's place in the bank."""
        return slice(self.start, self.start + prod(self.shape))

    @property
    def bias(self) -> slice:
        """Return the bias's place in the bank."""
        return slice(self.weight.stop, self.weight.stop + self.shape[1])


@dataclass(frozen=True)
class PointLayer:
    """A layer of deep sets that every point passes through."""

    width: int


@dataclass(frozen=True)
class Embedding:
    """The layer from a point to an attention's stream."""

    width: int


@dataclass(frozen=True)
class Block:
    """An attention and a hidden layer, both added to the stream."""

    width: int
    heads: int


@dataclass(frozen=True)
class Output:
    """The last layer."""

    width: int


@dataclass(frozen=True)
class Item:
    """A layer of a tower, with everything in it."""

    layer: Layer | PointLayer | Embedding | Block | Output
    affines: tuple[Affine, ...]
    identity_affines: tuple[Affine, ...]
    """those that must be 0 for the layer to be the identity; none where nothing skips the layer"""
    is_projected: bool
    """whether the layer has a skip with weights of its own"""


@dataclass(frozen=True)
class Anatomy:
    """What a network of one structure consists of.

    Attributes:
        groups: in the order of the forward pass, so that something earlier writes each of them.
        heads: of the attentions.
        towers: the items of each tower in the order of the forward pass.
        size, statistics_size: of one member, W and S.
    """

    groups: tuple[Group, ...]
    heads: tuple[Heads, ...]
    towers: tuple[tuple[Item, ...], ...]
    size: int
    statistics_size: int

    @property
    def affines(self) -> tuple[Affine, ...]:
        """Return all affines in the order of the bank."""
        return tuple(affine for items in self.towers for item in items for affine in item.affines)

    @property
    def layer_normed(self) -> frozenset[int]:
        """Return the groups whose mean and variance a layer norm takes."""
        return frozenset(p.columns[0] for p in self.affines if p.kind == "layer_norm")

    def columns(self, tower: int) -> slice:
        """Return the place of a tower's weights in the bank."""
        affines = [affine for item in self.towers[tower] for affine in item.affines]
        return slice(affines[0].start, affines[-1].bias.stop)


def anatomy(net: Network) -> Anatomy:
    """Return what ``net`` consists of."""
    return _anatomy(net.inputs, net.towers)


@lru_cache(maxsize=64)
def _anatomy(inputs: Inputs, towers: tuple[Tower, ...]) -> Anatomy:
    survey = _Survey()
    anatomies = tuple(
        survey.tower(inputs, tower, name=f"{index}." if len(towers) > 1 else "")
        for index, tower in enumerate(towers)
    )
    return Anatomy(
        tuple(survey.groups), tuple(survey.heads), anatomies, survey.size, survey.statistics_size
    )


class _Survey:
    """What was found so far."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.heads: list[Heads] = []
        self.size = 0
        self.statistics_size = 0
        self._prefix = ""
        self._affines: list[Affine] = []
        self._items: list[Item] = []
        self._num_named = 0

    def tower(self, inputs: Inputs, tower: Tower, *, name: str) -> tuple[Item, ...]:
        """Return the items of the next tower."""
        self._prefix, self._num_named, self._items = name, 0, []
        units = self._encoder(inputs, tower)
        for layer in tower.layers:
            units = self._layer(layer, units)
        width = tower.num_outputs + 1 if tower.dueling else tower.num_outputs
        self._linear(units, self._group(width, is_hidden=False))
        self._item(Output(width))
        return tuple(self._items)

    def _encoder(self, inputs: Inputs, tower: Tower) -> int:
        """Note the encoder; return the group of its features."""
        per_point = inputs.dimension + inputs.num_more
        match tower.encoder:
            case FlattenEncoder(num_points=num_points):
                width = num_points * inputs.dimension + inputs.num_more
                return self._group(width, is_hidden=False)
            case DeepSetsEncoder(widths=widths):
                units = self._group(per_point, is_hidden=False)
                for width in widths:
                    units = self._linear(units, self._group(width))
                    self._item(PointLayer(width))
                return units
            case AttentionEncoder(width=width, heads=heads, blocks=blocks):
                stream = self._linear(self._group(per_point, is_hidden=False), self._group(width))
                self._item(Embedding(width))
                for _ in range(blocks):
                    self._block(stream, width, heads)
                self._norm(stream, LayerNorm())
                self._item(LayerNorm())
                return stream

    def _block(self, stream: int, width: int, heads: int) -> None:
        self._norm(stream, LayerNorm())
        query_key, value = self._group(width), self._group(width)
        self.heads.append(Heads(query_key, value, heads))
        self._linear(stream, query_key, query_key, value)
        self._linear(value, stream)
        from_attention = self._affines[-1]
        self._norm(stream, LayerNorm())
        self._linear(self._linear(stream, self._group(width)), stream)
        self._item(Block(width, heads), identity=(from_attention, self._affines[-1]))

    def _layer(self, layer: Layer, units: int) -> int:
        """Note a hidden layer that reads ``units``; return the group that it writes."""
        match layer:
            case Linear(width):
                units = self._linear(units, self._group(width))
                self._item(layer)
            case BatchNorm() | LayerNorm():
                self._norm(units, layer)
                self._item(layer)
            case Residual():
                units = self._residual(units, layer)
        return units

    def _residual(self, units: int, layer: Residual) -> int:
        width, norm = layer.width, layer.norm
        is_projected = self.groups[units].width != width
        inner = self._linear(units, self._group(width))
        self._norm(inner, norm)
        written = self._group(width) if is_projected else units
        self._norm(self._linear(inner, written), norm)
        last_norm = self._affines[-1]
        if is_projected:
            self._norm(self._linear(units, written), norm)
        self._item(layer, identity=(last_norm,), is_projected=is_projected)
        return written

    def _group(self, width: int, *, is_hidden: bool = True) -> int:
        self.groups.append(Group(width, is_hidden))
        return len(self.groups) - 1

    def _linear(self, rows: int, *columns: int) -> int:
        """Note a linear layer; return the last group that it writes."""
        num_columns = sum(self.groups[group].width for group in columns)
        self._affine("linear", (self.groups[rows].width, num_columns), rows, columns, None)
        return columns[-1]

    def _norm(self, units: int, norm: Norm) -> None:
        width = self.groups[units].width
        if isinstance(norm, LayerNorm):
            self._affine("layer_norm", (1, width), None, (units,), None)
        else:
            self._affine("batch_norm", (1, width), None, (units,), self.statistics_size)
            self.statistics_size += 2 * width

    def _affine(
        self,
        kind: Kind,
        shape: tuple[int, int],
        rows: int | None,
        columns: tuple[int, ...],
        statistics: int | None,
    ) -> None:
        name = f"{self._prefix}{self._num_named}"
        affine = Affine(name, kind, self.size, shape, rows, columns, statistics)
        self._num_named += 1
        self._affines.append(affine)
        self.size = affine.bias.stop

    def _item(
        self,
        layer: Layer | PointLayer | Embedding | Block | Output,
        *,
        identity: tuple[Affine, ...] = (),
        is_projected: bool = False,
    ) -> None:
        """Close the item that the affines noted since the last one make up."""
        self._items.append(Item(layer, tuple(self._affines), identity, is_projected))
        self._affines = []


@dataclass(frozen=True)
class Spread:
    """A value for every weight and every statistic."""

    weights: Tensor
    """(P, W)"""
    statistics: Tensor
    """(P, S)"""


def places(source: Anatomy, units: Sequence[Tensor]) -> Spread:
    """Return where in the banks of ``source`` each weight of another network is to be taken from.

    Args:
        source: the network that weights are taken from.
        units: int64 (P, U') for each group: which of the source's units each unit comes from.

    Returns:
        int64 (P, W') and (P, S'), to `gather` with.
    """
    num_members = units[0].shape[0]
    nothing = torch.zeros(num_members, 1, dtype=torch.int64, device=units[0].device)
    weights, statistics = [], [nothing[:, :0]]
    for affine in source.affines:
        columns = _columns(source, affine, units)
        rows = nothing if affine.rows is None else units[affine.rows]
        weight = affine.start + rows[:, :, None] * affine.shape[1] + columns[:, None]
        weights += [weight.flatten(1), affine.bias.start + columns]
        if affine.statistics is not None:
            mean = affine.statistics + columns
            statistics += [mean, mean + affine.shape[1]]
    return Spread(torch.cat(weights, dim=1), torch.cat(statistics, dim=1))


def by_writer(body: Anatomy, values: Sequence[Tensor]) -> Spread:
    """Return for every weight and statistic the value of the unit that it belongs to.

    A unit's own are its incoming weights, its bias, and its place in norms.

    Args:
        body: the network.
        values: (P, U) for each group, of one dtype.

    Returns:
        (P, W) and (P, S) of that dtype.
    """
    weights, statistics = [], [values[0][:, :0]]
    for affine in body.affines:
        columns = torch.cat([values[group] for group in affine.columns], dim=1)
        weights += [columns] * (affine.shape[0] + 1)
        if affine.statistics is not None:
            statistics += [columns, columns]
    return Spread(torch.cat(weights, dim=1), torch.cat(statistics, dim=1))


def by_reader(body: Anatomy, values: Sequence[Tensor], otherwise: float) -> Tensor:
    """Return (P, W): for every weight the value of the unit that it reads.

    Args:
        body: the network.
        values: (P, U) for each group.
        otherwise: the value of biases and norms, which read none.
    """
    columns = []
    for affine in body.affines:
        num_columns = affine.shape[1]
        nothing = values[0].new_full((values[0].shape[0], num_columns), otherwise)
        read = (
            nothing
            if affine.rows is None
            else values[affine.rows].repeat_interleave(num_columns, 1)
        )
        columns += [read, nothing]
    return torch.cat(columns, dim=1)


def for_each_affine(body: Anatomy, value: Callable[[Affine], Tensor]) -> Spread:
    """Return for every weight and statistic the value (P, 1) of its affine."""
    weights, statistics = [], []
    for affine in body.affines:
        own = value(affine)
        weights.append(own.expand(-1, (affine.shape[0] + 1) * affine.shape[1]))
        if affine.statistics is not None:
            statistics.append(own.expand(-1, 2 * affine.shape[1]))
    nothing = weights[0][:, :0]
    return Spread(torch.cat(weights, dim=1), torch.cat([nothing, *statistics], dim=1))


def layer_sizes(net: Network) -> Tensor:
    """Return for every weight the root mean square of its layer's weights, float32 (P, W)."""

    def size(affine: Affine) -> Tensor:
        return net.weights[:, affine.weight].square().mean(dim=1, keepdim=True).sqrt()

    return for_each_affine(anatomy(net), size).weights


def _columns(source: Anatomy, affine: Affine, units: Sequence[Tensor]) -> Tensor:
    """Return which columns of the source's affine each column is taken from, (P, C')."""
    columns, offset = [], 0
    for group in affine.columns:
        columns.append(offset + units[group])
        offset += source.groups[group].width
    return torch.cat(columns, dim=1)
