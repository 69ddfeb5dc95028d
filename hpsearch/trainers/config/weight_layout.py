"""Where every weight of a network lies in its bank; what each layer is, reads and writes.

The one description of a network's structure. Networks draw and apply their weights by it, in this
order; operators move, mix and copy units by it; a policy's size is told from it without torch.

Units that everything numbers alike are a group: the outputs of a layer with its norm, all that a
residual stream joins, the queries and keys of one attention.

Axes: W weights and S statistics of one member.
"""

from dataclasses import dataclass, field
from functools import lru_cache
from math import prod, sqrt
from typing import Literal, assert_never

from hpsearch.trainers.config import players
from hpsearch.trainers.config.net_arch import Layer, Linear, Norm, NormKind, Residual

Init = Literal["uniform", "orthogonal"]
POLICY, VALUE = 0, 1  # towers of an actor-critic
HIDDEN_GAIN = sqrt(2.0)
"""of orthogonal first weights before an activation (arXiv 2006.05990, choice C57)"""

SUMMED_IN_ORDER = 1024
"""numbers that a CPU's products (products_cpu.py) add in one order, of any row, by any threads"""


def num_actions(role: str, dimension: int) -> int:
    """Return a role's actions: subsets of two or more coordinates for a host, one for an agent."""
    return 2**dimension - dimension - 1 if role == "host" else dimension


@dataclass(frozen=True)
class Inputs:
    """What an observation holds: N points of D coordinates, then E more numbers."""

    num_points: int
    dimension: int
    num_more: int


@dataclass(frozen=True)
class Tower:
    """An encoder, hidden layers and a linear layer."""

    encoder: players.Encoder
    layers: tuple[Layer, ...]
    activation: players.Activation
    num_outputs: int
    init: Init = "uniform"
    last_scale: float = 1.0  # factor of the last layer's first weights
    dueling: bool = False
    """outputs are a value plus advantages of mean 0 (Wang et al., arXiv 1511.06581, equation 9);
    value and advantages share all but the last layer"""


def num_read(encoder: players.Encoder, inputs: Inputs) -> int:
    """Return how many numbers of the points an encoder looks at, the first ones."""
    if isinstance(encoder, players.FlattenEncoder):
        return encoder.num_points * inputs.dimension
    return inputs.num_points * inputs.dimension


@dataclass(frozen=True)
class Group:
    """Units that everything numbers alike."""

    width: int
    is_hidden: bool  # inputs and outputs keep their order


@dataclass(frozen=True)
class Heads:
    """Two groups whose units form heads: head h holds h * size ... (h + 1) * size - 1 of both."""

    query_key: int
    value: int
    count: int


@dataclass(frozen=True)
class Affine:
    """A weight (rows, columns) and a bias (columns) that follows it in the bank."""

    name: str  # without ".weight" and ".bias"
    kind: Literal["linear"] | NormKind
    start: int  # of the weight in the bank
    shape: tuple[int, int]
    rows: int | None  # the group that it reads; a norm has one row and works on what it writes
    columns: tuple[int, ...]  # the groups that it writes, side by side
    statistics: int | None  # where a batch norm's running means begin; its variances follow
    init: Init = field(compare=False)
    """how a linear layer's weights are first drawn; it is the same layer however that was"""
    scale: float = field(compare=False)  # factor of them

    @property
    def weight(self) -> slice:
        return slice(self.start, self.start + prod(self.shape))

    @property
    def bias(self) -> slice:
        return slice(self.weight.stop, self.weight.stop + self.shape[1])

    @property
    def size(self) -> int:
        return prod(self.shape) + self.shape[1]


@dataclass(frozen=True)
class FixedLayer:
    """A layer that net_arch does not list."""

    kind: Literal["point", "embedding", "block", "output"]
    """what every point of deep sets passes through; from a point to an attention's stream; an
    attention and a hidden layer, both added to the stream; the last layer"""
    width: int
    heads: int = 1


@dataclass(frozen=True)
class PlacedLayer:
    """A layer of a tower, with everything in it."""

    spec: Layer | FixedLayer
    affines: tuple[Affine, ...]
    identity_affines: tuple[Affine, ...]
    """those that must be 0 for the layer to be the identity; none where nothing skips the layer"""
    is_activated: bool  # whether an activation comes last

    @property
    def kinds(self) -> tuple[Literal["linear"] | NormKind, ...]:
        return tuple(affine.kind for affine in self.affines)


@dataclass(frozen=True)
class WeightLayout:
    """What networks of one structure consist of, and where in the bank it lies.

    Groups and the layers of each tower are in the order of the forward pass, so that something
    earlier writes each group.
    """

    groups: tuple[Group, ...]
    heads: tuple[Heads, ...]  # of the attentions
    towers: tuple[tuple[PlacedLayer, ...], ...]
    size: int  # W
    statistics_size: int  # S

    @property
    def affines(self) -> tuple[Affine, ...]:
        return tuple(
            affine for layers in self.towers for layer in layers for affine in layer.affines
        )

    def of_tower(self, tower: int) -> tuple[Affine, ...]:
        return tuple(affine for layer in self.towers[tower] for affine in layer.affines)

    def columns(self, tower: int) -> slice:
        """Return the place of a tower's weights in the bank."""
        affines = self.of_tower(tower)
        return slice(affines[0].start, affines[-1].bias.stop)

    def statistics(self, tower: int) -> slice:
        """Return the place of a tower's running means and variances among all of them."""
        normed = [affine for affine in self.of_tower(tower) if affine.statistics is not None]
        start = normed[0].statistics if normed else 0
        return slice(start, (start or 0) + sum(2 * affine.shape[1] for affine in normed))


@lru_cache(maxsize=64)
def weight_layout(inputs: Inputs, towers: tuple[Tower, ...]) -> WeightLayout:
    """Return the layout of the weights of towers over the same inputs."""
    walk = _Walk()
    layers = tuple(
        walk.tower(inputs, tower, name=f"{index}." if len(towers) > 1 else "")
        for index, tower in enumerate(towers)
    )
    groups, heads = tuple(walk.groups), tuple(walk.heads)
    return WeightLayout(groups, heads, layers, walk.size, walk.statistics_size)


class _Walk:
    """Goes through a network as its forward pass does, and notes its layers."""

    def __init__(self) -> None:
        self.groups: list[Group] = []
        self.heads: list[Heads] = []
        self.size = 0
        self.statistics_size = 0
        self._affines: list[Affine] = []

    def tower(self, inputs: Inputs, tower: Tower, *, name: str) -> tuple[PlacedLayer, ...]:
        self._prefix, self._num_named, self._init = name, 0, tower.init
        self._layers: list[PlacedLayer] = []
        units = self._encoder(inputs, tower)
        for layer in tower.layers:
            units = self._layer(layer, units)
        width = tower.num_outputs + 1 if tower.dueling else tower.num_outputs
        self._linear(units, self._group(width, is_hidden=False), scale=tower.last_scale)
        self._place_layer(FixedLayer("output", width), is_activated=False)
        return tuple(self._layers)

    def _encoder(self, inputs: Inputs, tower: Tower) -> int:
        """Note the encoder; return the group of its features."""
        per_point = inputs.dimension + inputs.num_more
        match tower.encoder:
            case players.FlattenEncoder(num_points=num_points):
                width = num_points * inputs.dimension + inputs.num_more
                return self._group(width, is_hidden=False)
            case players.EncoderExtension():
                features = tower.encoder.num_features(inputs.num_points, inputs.dimension)
                return self._group(features + inputs.num_more, is_hidden=False)
            case players.DeepSetsEncoder(widths=widths):
                units = self._group(per_point, is_hidden=False)
                for width in widths:
                    units = self._hidden(units, self._group(width))
                    self._place_layer(FixedLayer("point", width))
                return units
            case players.AttentionEncoder(width=width, heads=heads, blocks=blocks):
                stream = self._linear(self._group(per_point, is_hidden=False), self._group(width))
                self._place_layer(FixedLayer("embedding", width), is_activated=False)
                for _ in range(blocks):
                    self._block(stream, width, heads)
                self._norm(stream, "layer_norm")
                self._place_layer(Norm("layer_norm"), is_activated=False)
                return stream

    def _block(self, stream: int, width: int, heads: int) -> None:
        self._norm(stream, "layer_norm")
        query_key, value = self._group(width), self._group(width)
        self.heads.append(Heads(query_key, value, heads))
        self._linear(stream, query_key, query_key, value)
        self._linear(value, stream)
        from_attention = self._affines[-1]
        self._norm(stream, "layer_norm")
        self._linear(self._hidden(stream, self._group(width)), stream)
        block = FixedLayer("block", width, heads)
        self._place_layer(block, from_attention, self._affines[-1], is_activated=False)

    def _layer(self, layer: Layer, units: int) -> int:
        match layer:
            case Linear(width):
                units = self._hidden(units, self._group(width))
                self._place_layer(layer)
            case Norm(kind):
                self._norm(units, kind)
                self._place_layer(layer, is_activated=False)
            case Residual():
                units = self._residual(units, layer)
            case _:
                assert_never(layer)
        return units

    def _residual(self, units: int, layer: Residual) -> int:
        width, norm = layer.width, layer.norm
        is_projected = self.groups[units].width != width
        inner = self._hidden(units, self._group(width))
        self._norm(inner, norm)
        written = self._group(width) if is_projected else units
        self._norm(self._hidden(inner, written), norm)
        last_norm = self._affines[-1]
        if is_projected:
            self._norm(self._hidden(units, written), norm)
        self._place_layer(layer, last_norm)
        return written

    def _group(self, width: int, *, is_hidden: bool = True) -> int:
        self.groups.append(Group(width, is_hidden))
        return len(self.groups) - 1

    def _hidden(self, rows: int, columns: int) -> int:
        """Note a linear layer that an activation follows; return the group that it writes."""
        return self._linear(rows, columns, scale=HIDDEN_GAIN if self._init == "orthogonal" else 1.0)

    def _linear(self, rows: int, *columns: int, scale: float = 1.0) -> int:
        """Note a linear layer; return the last group that it writes."""
        num_columns = sum(self.groups[group].width for group in columns)
        self._affine("linear", (self.groups[rows].width, num_columns), rows, columns, None, scale)
        return columns[-1]

    def _norm(self, units: int, kind: NormKind) -> None:
        width = self.groups[units].width
        statistics = self.statistics_size if kind == "batch_norm" else None
        self._affine(kind, (1, width), None, (units,), statistics)
        if kind == "batch_norm":
            self.statistics_size += 2 * width

    def _affine(
        self,
        kind: Literal["linear"] | NormKind,
        shape: tuple[int, int],
        rows: int | None,
        columns: tuple[int, ...],
        statistics: int | None,
        scale: float = 1.0,
    ) -> None:
        name = f"{self._prefix}{self._num_named}"
        affine = Affine(name, kind, self.size, shape, rows, columns, statistics, self._init, scale)
        self._num_named += 1
        self._affines.append(affine)
        self.size = affine.bias.stop

    def _place_layer(
        self, layer: Layer | FixedLayer, *identity: Affine, is_activated: bool = True
    ) -> None:
        """Note a layer, which the affines noted since the last one make up."""
        self._layers.append(PlacedLayer(layer, tuple(self._affines), identity, is_activated))
        self._affines = []
