"""What was observed of a population, as plain numbers on the host, and where it is written.

The paths come from outside, where file names are decided. No torch here.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MemberPlace:
    """Where the observations of one trial of the job go."""

    trial: str
    """its name in gauges"""
    step: int
    """the step from which it continues; what an earlier attempt wrote of later steps is dropped"""
    training_log: Path
    """a file"""
    tensorboard: Path
    """a folder"""


@dataclass(frozen=True)
class JobPlace:
    """Where the observations of the job go."""

    study: str
    """its name in gauges"""
    job: str
    """its name in gauges"""
    textfile: Path
    """a file, ending in .prom as node_exporter's textfile collector wants it"""
    traces: Path
    """a folder"""


@dataclass(frozen=True)
class Timing:
    """How long a section of the training loop took."""

    milliseconds: float
    """in all"""
    count: int
    """how often it was passed"""

    @property
    def mean(self) -> float:
        return self.milliseconds / self.count


@dataclass(frozen=True)
class MemberSnapshot:
    """What was observed of one member."""

    place: MemberPlace
    step: int
    scalars: Mapping[str, float]
    """by name: ``loss`` of the role ``host`` is ``host/loss``"""
    layers: Mapping[str, float]
    """by name: ``host/0.weight/gradient_std``; empty while switched off"""


@dataclass(frozen=True)
class MonitorSnapshot:
    """What was observed of all members and of the job that trains them."""

    at: float
    """seconds since the epoch"""
    members: tuple[MemberSnapshot, ...]
    timings: Mapping[str, Timing]
    """by section, since the snapshot before; empty while switched off"""
    job: Mapping[str, float]
    """steps_per_second and, while switched on, the use of resources"""
