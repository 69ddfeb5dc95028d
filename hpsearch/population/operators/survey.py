"""Finds the anatomy of a network: walks through it as its forward pass does, and notes its layers.

This module alone knows in which order the flat bank holds them: that in which `networks.encoders`
and `networks.layers` lay them out.
"""

from functools import lru_cache

from hpsearch.population.operators.anatomy import (
    Affine,
    Anatomy,
    Block,
    Embedding,
    Group,
    Heads,
    Item,
    Kind,
    Output,
    PointLayer,
)
from hpsearch.trainers.config.players import AttentionEncoder, DeepSetsEncoder, FlattenEncoder
from hpsearch.trainers.net_arch import BatchNorm, Layer, LayerNorm, Linear, Norm, Residual
from hpsearch.trainers.networks import Inputs, Network, Tower


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
