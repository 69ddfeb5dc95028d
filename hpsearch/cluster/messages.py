"""What driver and jobs tell each other, through the files of a trial."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Assignment:
    """One trial that a job trains."""

    trial: int
    attempt: int
    token: str


@dataclass(frozen=True)
class Control:
    """What the driver tells a trial's attempts."""

    token: str
    """the attempt with this token is the trial; every other one has been fenced off"""
    stop: str | None
    """why the trial should end early, None while it should go on"""


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of an attempt."""

    at: float
    """seconds since the epoch, by the job's clock"""
    step: int
    steps_per_second: float
    host: str
    pid: int


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended."""

    token: str
    status: str
    """finished, pruned, interrupted or failed"""
    step: int
    kind: str | None
    """of the failure, None where there was none"""
    message: str
    metrics: dict[str, dict[str, float]]
    """by name: value, low, high, capped, games"""
