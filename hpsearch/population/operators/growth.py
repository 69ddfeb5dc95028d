"""Into which layers hidden layers can grow without changing what they compute; needs no torch.

Growing is widening, after which new layers that begin as the identity come in between. What
`wider` and `deeper` check of networks is told here from configurations, so that it can be planned.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import assert_never

from hpsearch.trainers.config.common import CommonConfig
from hpsearch.trainers.config.net_arch import BatchNorm, Layer, LayerNorm, Linear, Residual
from hpsearch.trainers.config.players import (
    Activation,
    AttentionEncoder,
    DeepSetsEncoder,
    Encoder,
    FlattenEncoder,
)


@dataclass(frozen=True)
class Ground:
    """What hidden layers stand on."""

    num_features: int
    """that the encoder gives"""
    is_activated: bool
    """whether the encoder ends in the activation"""
    activation: Activation


@dataclass(frozen=True)
class _Placed:
    """A layer in its place."""

    layer: Layer
    num_inputs: int
    follows_activation: bool
    """whether the layer before it ends in the activation"""

    @property
    def width(self) -> int:
        """Return the number of outputs."""
        layer = self.layer
        return layer.width if isinstance(layer, Linear | Residual) else self.num_inputs

    @property
    def keeps_width(self) -> bool:
        """Whether there are as many outputs as inputs."""
        return self.width == self.num_inputs


def ground_of(config: CommonConfig, role: str) -> Ground:
    """Return what the hidden layers of a learning role stand on."""
    learned = config.learning()[role]
    num_more = config.dimension if role == "agent" else 0
    return ground(
        learned.encoder, learned.activation, dimension=config.dimension, num_more=num_more
    )


def ground(encoder: Encoder, activation: Activation, *, dimension: int, num_more: int) -> Ground:
    """Return what the layers after an encoder stand on.

    Args:
        encoder: of points.
        activation: after every layer of it.
        dimension: coordinates of a point.
        num_more: numbers that are seen beside the points.
    """
    match encoder:
        case FlattenEncoder(num_points=num_points):
            return Ground(num_points * dimension + num_more, False, activation)
        case DeepSetsEncoder(widths=widths):
            width = widths[-1] if widths else dimension + num_more
            return Ground(width, bool(widths), activation)
        case AttentionEncoder(width=width):
            return Ground(width, False, activation)
        case _:
            assert_never(encoder)


def widened(old: Sequence[Layer], new: Sequence[Layer], on: Ground) -> tuple[Layer, ...] | None:
    """Return what the ``old`` layers are among the ``new`` ones, None if they cannot become those.

    They are as many and of the same kinds, nowhere narrower; all others of the ``new`` ones can be
    added afterwards.

    Args:
        old: hidden layers of the network that grows.
        new: those that it shall have.
        on: what both stand on.
    """
    before, after = list(_placed(old, on)), list(_placed(new, on))

    @cache
    def rest(done: int, at: int) -> tuple[Layer, ...] | None:
        """Return what the old layers from ``done`` on are among the new ones from ``at`` on."""
        if at == len(after):
            return () if done == len(before) else None
        if done < len(before) and _can_widen(before[done], after[at]):
            layers = rest(done + 1, at + 1)
            if layers is not None:
                return (after[at].layer, *layers)
        return rest(done, at + 1) if _can_begin_as_identity(after[at], on.activation) else None

    return rest(0, 0)


def _placed(layers: Sequence[Layer], on: Ground) -> Iterator[_Placed]:
    width, is_activated = on.num_features, on.is_activated
    for layer in layers:
        placed = _Placed(layer, width, is_activated)
        yield placed
        width, is_activated = placed.width, isinstance(layer, Linear | Residual)


def _can_widen(old: _Placed, new: _Placed) -> bool:
    """Return whether one layer can become the other by copies of its units."""
    ratio, remainder = divmod(new.width, old.width)
    match old.layer, new.layer:
        case Linear(), Linear():
            return ratio >= 1
        case Residual(norm=norm), Residual(norm=its):
            # A layer norm sees a mean over units: of all of them there must be as many copies.
            is_fair = remainder == 0 or norm == BatchNorm()
            return ratio >= 1 and is_fair and norm == its and old.keeps_width == new.keeps_width
        case BatchNorm(), BatchNorm():
            return ratio >= 1
        case LayerNorm(), LayerNorm():
            return ratio >= 1 and remainder == 0
        case _:
            return False


def _can_begin_as_identity(new: _Placed, activation: Activation) -> bool:
    """Return whether a layer can be added: it is the identity on what relu has passed alone."""
    is_open = isinstance(new.layer, Linear | Residual) and new.keeps_width
    return is_open and new.follows_activation and activation == "relu"
