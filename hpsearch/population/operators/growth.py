"""Into which layers a tower can grow without changing what it computes; needs no torch.

Growing is widening, after which new layers that begin as the identity come in between.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.net_arch import Linear, Norm, Residual, parse
from hpsearch.trainers.config.players import Activation
from hpsearch.trainers.config.weight_layout import POLICY, FixedLayer, PlacedLayer, weight_layout


def policy_layers(role: str, config: CommonConfig, net_arch: Any) -> tuple[PlacedLayer, ...]:
    """Return the layers of the tower by which a learning role would play with a ``net_arch``."""
    tower = config.towers(role)[POLICY]
    tower = replace(tower, layers=parse(net_arch))
    return weight_layout(config.inputs(role), (tower,)).towers[0]


def widened(
    old: Sequence[PlacedLayer], new: Sequence[PlacedLayer], activation: Activation
) -> tuple[int, ...] | None:
    """Return the places of ``new`` that the ``old`` layers of a tower take, None if they cannot.

    There they are nowhere narrower; all others of the ``new`` ones can be added afterwards.
    """

    @cache
    def rest(done: int, at: int) -> tuple[int, ...] | None:
        """Return the places, from ``at`` on, of the old layers from ``done`` on."""
        if at == len(new):
            return () if done == len(old) else None
        if done < len(old) and _can_widen(old[done], new[at]):
            places = rest(done + 1, at + 1)
            if places is not None:
                return (at, *places)
        return rest(done, at + 1) if _can_begin_as_identity(new, at, activation) else None

    return rest(0, 0)


def _can_widen(old: PlacedLayer, new: PlacedLayer) -> bool:
    ratio, remainder = divmod(_width(new), _width(old))
    match old.spec, new.spec:
        case (Linear(), Linear()) | (Norm("batch_norm"), Norm("batch_norm")):
            return ratio >= 1
        case Norm("layer_norm"), Norm("layer_norm"):
            # It sees a mean over units: of all of them there must be as many copies.
            return ratio >= 1 and remainder == 0
        case Residual(norm=norm), Residual(norm=its):
            is_fair = remainder == 0 or norm == "batch_norm"
            is_alike = norm == its and old.is_projected == new.is_projected
            return ratio >= 1 and is_fair and is_alike
        case _:  # encoders and outputs do not grow
            return old.spec == new.spec


def _can_begin_as_identity(new: Sequence[PlacedLayer], at: int, activation: Activation) -> bool:
    """Return whether a layer can be added: it is the identity on what relu has passed alone."""
    layer = new[at]
    rows, columns = layer.affines[0].shape
    is_open = isinstance(layer.spec, Linear | Residual) and rows == columns
    before = new[at - 1].spec if at > 0 else None
    is_point_layer = isinstance(before, FixedLayer) and before.kind == "point"
    is_activated = isinstance(before, Linear | Residual) or is_point_layer
    return is_open and not layer.is_projected and activation == "relu" and is_activated


def _width(layer: PlacedLayer) -> int:
    return layer.affines[-1].shape[1]
