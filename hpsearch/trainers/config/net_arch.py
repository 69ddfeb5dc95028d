"""The net_arch grammar: a network as a list that can be written in YAML and searched over.

An item is a width N (linear layer and activation), ``b`` (batch normalisation), ``l`` (layer
normalisation), ``rN`` (residual block of width N with batch norms), ``rlN`` (the same with layer
norms) or ``{repeat: k, net_arch: [...]}``. The output layer is added by the role.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal


@dataclass(frozen=True)
class Linear:
    """A linear layer followed by the activation."""

    width: int


NormKind = Literal["batch_norm", "layer_norm"]
"""over the games of one member, or over units (Ba et al., arXiv 1607.06450)"""

NORM_EPS: Final = 1e-5
"""added to variances"""
BATCH_NORM_MOMENTUM: Final = 0.1
"""the share of the way that running moments go to a batch's"""


@dataclass(frozen=True)
class Norm:
    kind: NormKind


@dataclass(frozen=True)
class Residual:
    """Linear, norm, activation, linear, norm, plus the input, projected to another width."""

    width: int
    norm: NormKind


Layer = Linear | Norm | Residual

MAX_LAYERS: Final = 10_000
"""of a network, repetitions unrolled; a few characters could ask for any number"""
GRAMMAR = "a width N, 'b', 'l', 'rN', 'rlN' or {repeat: k, net_arch: [...]}"


def parse(net_arch: Sequence[Any]) -> tuple[Layer, ...]:
    """Return the layers that ``net_arch`` stands for, repetitions unrolled.

    Raises ValueError naming the item that is not of the grammar, or if there are too many layers.
    """
    layers = tuple(islice(_layers(net_arch), MAX_LAYERS + 1))
    if len(layers) > MAX_LAYERS:
        raise ValueError(f"a net_arch has at most {MAX_LAYERS} layers; repeat fewer")
    return layers


def net_arch_faults(key: str, items: tuple[Any, ...]) -> Iterator[str]:
    """Yield why ``items`` are no net_arch, if they are none."""
    try:
        parse(items)
    except ValueError as error:
        yield f"{key} is not of the grammar: {error}"


def _layers(items: Sequence[Any]) -> Iterator[Layer]:
    for item in items:
        if isinstance(item, Mapping):
            yield from _repeated(item)
        elif isinstance(item, int) and not isinstance(item, bool) and item >= 1:
            yield Linear(item)
        elif item == "b":
            yield Norm("batch_norm")
        elif item == "l":
            yield Norm("layer_norm")
        elif isinstance(item, str) and (residual := re.fullmatch(r"r(l?)([1-9][0-9]*)", item)):
            yield Residual(int(residual[2]), "layer_norm" if residual[1] else "batch_norm")
        else:
            raise ValueError(f"net_arch takes {GRAMMAR}, but got {item!r}")


def _repeated(item: Mapping[str, Any]) -> Iterator[Layer]:
    repeat, inner = item.get("repeat"), item.get("net_arch")
    is_list = isinstance(inner, Sequence) and not isinstance(inner, str)
    is_count = isinstance(repeat, int) and not isinstance(repeat, bool) and repeat >= 1
    if set(item) != {"repeat", "net_arch"} or not is_list or not is_count:
        raise ValueError(f"a repetition is {{repeat: k, net_arch: [...]}}, but got {dict(item)!r}")
    if layers := parse(item["net_arch"]):
        for _ in range(item["repeat"]):
            yield from layers
