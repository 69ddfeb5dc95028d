"""What one look at a population saw: plain numbers, already on the host."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from hpsearch.monitor.places import MemberPlace
from hpsearch.monitor.sections import Timing


@dataclass(frozen=True)
class MemberLook:
    """What was seen of one member."""

    place: MemberPlace
    step: int
    scalars: Mapping[str, float]
    """by name: ``loss`` of the role ``host`` is ``host/loss``"""
    layers: Mapping[str, float]
    """by name: ``host/0.weight/gradient_std``; empty while switched off"""


@dataclass(frozen=True)
class Look:
    """What was seen of all members and of the job that trains them."""

    at: float
    """seconds since the epoch"""
    members: tuple[MemberLook, ...]
    timings: Mapping[str, Timing]
    """by section, since the look before; empty while switched off"""
    job: Mapping[str, float]
    """steps_per_second and, while switched on, the use of resources"""


def finite_or_none(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return the values as JSON can hold them, which knows neither infinity nor NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
