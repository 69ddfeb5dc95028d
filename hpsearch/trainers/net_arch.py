"""The net_arch grammar: a network as a list that can be written in YAML and searched over.

An item is a width N (linear layer and ReLU), ``b`` (batch normalisation), ``rN`` (residual block
of width N) or ``{repeat: k, net_arch: [...]}``. The output layer is added by the role.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Linear:
    """A linear layer followed by a ReLU."""

    width: int


@dataclass(frozen=True)
class BatchNorm:
    """Batch normalisation over the games of one member."""


@dataclass(frozen=True)
class Residual:
    """Linear, norm, ReLU, linear, norm, plus the input (projected where the width changes)."""

    width: int


Layer = Linear | BatchNorm | Residual

GRAMMAR = "a width N, 'b', 'rN' or {repeat: k, net_arch: [...]}"


def parse(net_arch: Sequence[Any]) -> tuple[Layer, ...]:
    """Return the layers that ``net_arch`` stands for, repetitions unrolled.

    Raises:
        ValueError: naming the item that is not of the grammar.
    """
    return tuple(_layers(net_arch))


def _layers(items: Sequence[Any]) -> Iterator[Layer]:
    for item in items:
        if isinstance(item, Mapping):
            yield from _repeated(item)
        elif isinstance(item, int) and not isinstance(item, bool) and item >= 1:
            yield Linear(item)
        elif item == "b":
            yield BatchNorm()
        elif isinstance(item, str) and re.fullmatch(r"r[1-9][0-9]*", item):
            yield Residual(int(item[1:]))
        else:
            raise ValueError(f"net_arch takes {GRAMMAR}, but got {item!r}")


def _repeated(item: Mapping[str, Any]) -> Iterator[Layer]:
    repeat, inner = item.get("repeat"), item.get("net_arch")
    is_list = isinstance(inner, Sequence) and not isinstance(inner, str)
    is_count = isinstance(repeat, int) and not isinstance(repeat, bool) and repeat >= 1
    if set(item) != {"repeat", "net_arch"} or not is_list or not is_count:
        raise ValueError(f"a repetition is {{repeat: k, net_arch: [...]}}, but got {dict(item)!r}")
    for _ in range(item["repeat"]):
        yield from _layers(item["net_arch"])
