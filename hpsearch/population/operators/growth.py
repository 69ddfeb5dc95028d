"""Into which layers a tower can grow without changing what it computes; needs no torch.

Growing is widening, after which new layers that begin as the identity come in between.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from hpsearch.trainers.config import CommonConfig
from hpsearch.trainers.config.net_arch import parse
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
    if isinstance(old.spec, FixedLayer) or type(old.spec) is not type(new.spec):
        return old.spec == new.spec  # encoders and outputs do not grow
    ratio, remainder = divmod(_width(new), _width(old))
    # A layer norm sees a mean over units: of all of them there must be as many copies.
    is_fair = remainder == 0 or "layer_norm" not in old.kinds
    return old.kinds == new.kinds and ratio >= 1 and is_fair


def _can_begin_as_identity(new: Sequence[PlacedLayer], at: int, activation: Activation) -> bool:
    """Return whether a layer can be added: it is the identity on what relu has passed alone."""
    layer = new[at]
    rows, columns = layer.affines[0].shape
    is_open = not isinstance(layer.spec, FixedLayer) and layer.is_activated and rows == columns
    is_activated = at > 0 and new[at - 1].is_activated
    return is_open and activation == "relu" and is_activated


def _width(layer: PlacedLayer) -> int:
    return layer.affines[-1].shape[1]
