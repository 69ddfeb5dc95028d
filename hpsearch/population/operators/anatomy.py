"""Which hidden units a network has, and which of its weights write and read them.

Units that everything numbers alike are a group: the outputs of a layer with its norm, all that a
residual stream joins, the queries and keys of one attention. Every operator that moves, mixes or
copies units works on groups; this module alone knows where in the flat bank they lie.

It says of the layout what `networks.encoders` and `networks.layers` lay out, in the same order.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import prod

from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.net_arch import BatchNorm, Layer, LayerNorm, Linear, Norm, Residual
from hpsearch.trainers.networks import Inputs, Network, Tower


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
class Pair:
    """A weight (rows, columns) and a bias (columns) that follows it in the bank."""

    name: str
    """as `Network.parts` has it, without ".weight" and ".bias" """
    kind: str
    """linear, batch_norm or layer_norm"""
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
    pairs: tuple[Pair, ...]


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
    def pairs(self) -> tuple[Pair, ...]:
        """Return all pairs in the order of the bank."""
        return tuple(pair for items in self.towers for item in items for pair in item.pairs)

    @property
    def layer_normed(self) -> frozenset[int]:
        """Return the groups whose mean and variance a layer norm takes."""
        return frozenset(p.columns[0] for p in self.pairs if p.kind == "layer_norm")

    def columns(self, tower: int) -> slice:
        """Return the place of a tower's weights in the bank."""
        pairs = [pair for item in self.towers[tower] for pair in item.pairs]
        return slice(pairs[0].start, pairs[-1].bias.stop)


def anatomy(net: Network) -> Anatomy:
    """Return what ``net`` consists of."""
    return _anatomy(net.inputs, net.towers)


@lru_cache(maxsize=64)
def _anatomy(inputs: Inputs, towers: tuple[Tower, ...]) -> Anatomy:
    survey = _Survey()
    found = tuple(
        survey.tower(inputs, tower, name=f"{index}." if len(towers) > 1 else "")
        for index, tower in enumerate(towers)
    )
    return Anatomy(
        tuple(survey.groups), tuple(survey.heads), found, survey.size, survey.statistics_size
    )


class _Survey:
    """Walks through a network as its forward pass does, and notes what it finds."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.heads: list[Heads] = []
        self.size = 0
        self.statistics_size = 0
        self._prefix = ""
        self._pairs: list[Pair] = []
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
        self._norm(stream, LayerNorm())
        self._linear(self._linear(stream, self._group(width)), stream)
        self._item(Block(width, heads))

    def _layer(self, layer: Layer, units: int) -> int:
        """Note a hidden layer that reads ``units``; return the group that it writes."""
        match layer:
            case Linear(width):
                units = self._linear(units, self._group(width))
            case BatchNorm() | LayerNorm():
                self._norm(units, layer)
            case Residual(width, norm):
                units = self._residual(units, width, norm)
        self._item(layer)
        return units

    def _residual(self, units: int, width: int, norm: Norm) -> int:
        is_projected = self.groups[units].width != width
        inner = self._linear(units, self._group(width))
        self._norm(inner, norm)
        written = self._group(width) if is_projected else units
        self._norm(self._linear(inner, written), norm)
        if is_projected:
            self._norm(self._linear(units, written), norm)
        return written

    def _group(self, width: int, *, is_hidden: bool = True) -> int:
        self.groups.append(Group(width, is_hidden))
        return len(self.groups) - 1

    def _linear(self, rows: int, *columns: int) -> int:
        """Note a linear layer; return the last group that it writes."""
        num_columns = sum(self.groups[group].width for group in columns)
        self._pair("linear", (self.groups[rows].width, num_columns), rows, columns, None)
        return columns[-1]

    def _norm(self, units: int, norm: Norm) -> None:
        width = self.groups[units].width
        if isinstance(norm, LayerNorm):
            self._pair("layer_norm", (1, width), None, (units,), None)
        else:
            self._pair("batch_norm", (1, width), None, (units,), self.statistics_size)
            self.statistics_size += 2 * width

    def _pair(
        self,
        kind: str,
        shape: tuple[int, int],
        rows: int | None,
        columns: tuple[int, ...],
        statistics: int | None,
    ) -> None:
        name = f"{self._prefix}{self._num_named}"
        pair = Pair(name, kind, self.size, shape, rows, columns, statistics)
        self._num_named += 1
        self._pairs.append(pair)
        self.size = pair.bias.stop

    def _item(self, layer: Layer | PointLayer | Embedding | Block | Output) -> None:
        """Close the item that the pairs noted since the last one make up."""
        self._items.append(Item(layer, tuple(self._pairs)))
        self._pairs = []
