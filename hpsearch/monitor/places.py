"""Where a job's observations go. The paths come from outside, where file names are decided."""

from dataclasses import dataclass
from pathlib import Path


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
