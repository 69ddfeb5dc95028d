"""Which hidden units a network has, and which of its weights write and read them.

Units that everything numbers alike are a group: the outputs of a layer with its norm, all that a
residual stream joins, the queries and keys of one attention. Every operator that moves, mixes or
copies units works on groups; `survey` finds them, and where in the flat bank they lie.
"""

from dataclasses import dataclass
from math import prod
from typing import Literal

from hpsearch.trainers.net_arch import Layer

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
