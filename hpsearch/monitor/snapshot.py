"""What one look at a population saw: plain numbers, already on the host; where they go.

Which members have diverged, by their losses.

Where a job's observations go. The paths come from outside, where file names are decided.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from hpsearch.monitor.timing import Timing


def divergence(scalars: Mapping[str, float], max_loss: float) -> str | None:
    """Return a sentence if a loss of one member is above ``max_loss`` or no number, else None.

    Losses are the scalars named ``loss`` or ``<role>/loss``.
    """
    for name, value in scalars.items():
        if name.rpartition("/")[2] == "loss" and not value <= max_loss:  # true for NaN too
            return (
                f"the loss {name} is {value:g}, above max_loss {max_loss:g}; lower the learning "
                "rate, or raise monitor.max_loss"
            )
    return None


@dataclass(frozen=True)
class MemberPlace:
    """One trial of the job."""

    trial: str
    """its name in gauges"""
    step: int
    """the step from which it goes on; what an earlier attempt wrote of later steps is forgotten"""
    training_log: Path
    """a file"""
    tensorboard: Path
    """a folder"""


@dataclass(frozen=True)
class JobPlace:
    """What the trials of a job share."""

    study: str
    """its name in gauges"""
    job: str
    """its name in gauges"""
    textfile: Path
    """a file, ending in .prom as node_exporter's textfile collector wants it"""
    traces: Path
    """a folder"""


@dataclass(frozen=True)
class MemberSnapshot:
    """What was seen of one member."""

    place: MemberPlace
    step: int
    scalars: Mapping[str, float]
    """by name: ``loss`` of the role ``host`` is ``host/loss``"""
    layers: Mapping[str, float]
    """by name: ``host/0.weight/gradient_std``; empty while switched off"""


@dataclass(frozen=True)
class MonitorSnapshot:
    """What was seen of all members and of the job that trains them."""

    at: float
    """seconds since the epoch"""
    members: tuple[MemberSnapshot, ...]
    timings: Mapping[str, Timing]
    """by section, since the look before; empty while switched off"""
    job: Mapping[str, float]
    """steps_per_second and, while switched on, the use of resources"""


def finite_or_none(values: Mapping[str, float]) -> dict[str, float | None]:
    """Return the values as JSON can hold them, which knows neither infinity nor NaN."""
    return {name: value if math.isfinite(value) else None for name, value in values.items()}
