"""What driver and jobs tell each other, through the files of a trial."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Literal

from hpsearch.schema import NonNegative, Range

MAX_STEP = 2**53
"""no trial makes more steps; who says so is not believed"""

Status = Literal["finished", "pruned", "interrupted", "failed", "lost"]
"""how an attempt ended; lost is said by the driver alone, of one that left no word"""
Stop = Literal["finished", "pruned", "failed"]
"""how a trial was told, after which its attempts have nothing more to do"""
Step = Annotated[int, Range(low=0, high=MAX_STEP)]


@dataclass(frozen=True)
class Assignment:
    """One trial that a job trains."""

    trial: int
    attempt: int
    token: str


@dataclass(frozen=True)
class JobPlan:
    """What a job is for."""

    assignments: tuple[Assignment, ...]
    """the trials that it trains first"""
    num_threads: int
    """that it may use"""
    pilot_seconds: float
    """for which it waits for more trials when it has trained some; 0 where it leaves then"""
    refills: bool
    """whether it may be given more while some still train"""
    match: int | None = None
    """number of the match that it plays, instead of training"""
    probes: str | None = None
    """device that it tries, instead of training, to say what a job of this kind sees"""
    heartbeat_seconds: float = 2.0
    """between two signs of life"""


@dataclass(frozen=True)
class DeviceReport:
    """What a job sees of devices."""

    visible: str | None
    """CUDA_VISIBLE_DEVICES of its environment"""
    torch: str
    """version"""
    gpus: tuple[str, ...]
    """names of the GPUs that torch finds"""
    fault: str | None
    """why the device that was tried cannot be used, None if it can"""


@dataclass(frozen=True)
class Given:
    """What a job is given beside its first trials or after them; nothing at all lets it leave."""

    assignments: tuple[Assignment, ...]
    match: int | None = None
    """number of the match that it plays"""


@dataclass(frozen=True)
class Control:
    """What the driver tells a trial's attempts."""

    token: str
    """the attempt with this token is the trial; every other one has been fenced off"""
    stop: Stop | None
    """why the trial should end early, None while it should go on"""


@dataclass(frozen=True)
class Heartbeat:
    """A sign of life of an attempt."""

    at: float
    """seconds since the epoch, by the job's clock"""
    step: Step
    saved: Step
    """step of the newest checkpoint, from which a next attempt would go on"""
    steps_per_second: Annotated[float, Range(low=0.0)]
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it now measures or saves, which takes long and gives no sign of life between"""


@dataclass(frozen=True)
class MemberHeartbeat:
    """What a job's sign of life says of one of its trials."""

    trial: NonNegative
    attempt: NonNegative
    token: str
    step: Step
    saved: Step
    """step of the newest checkpoint, from which a next attempt would go on"""

    @classmethod
    def at(cls, assignment: Assignment, step: int, saved: int) -> "MemberHeartbeat":
        """Return what is said of the attempt of an assignment."""
        return cls(assignment.trial, assignment.attempt, assignment.token, step, saved)


@dataclass(frozen=True)
class JobHeartbeat:
    """A sign of life of a job."""

    at: float
    """seconds since the epoch, by the job's clock"""
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it may now measure or save, which takes long and gives no sign of life between"""
    steps_per_second: Annotated[float, Range(low=0.0)]
    """of each member"""
    members: tuple[MemberHeartbeat, ...]
    """the trials that train, or are about to"""

    def of(self, trial: int, attempt: int) -> Heartbeat | None:
        """Return what it says of an attempt, None if that does not train, or not any more."""
        for one in self.members:
            if (one.trial, one.attempt) == (trial, attempt):
                return Heartbeat(
                    self.at,
                    one.step,
                    one.saved,
                    self.steps_per_second,
                    self.host,
                    self.pid,
                    self.is_busy,
                )
        return None


@dataclass(frozen=True)
class Start:
    """How an attempt began."""

    step: Step
    """that of the checkpoint from which it goes on, 0 where there is none"""


@dataclass(frozen=True)
class AttemptResult:
    """How an attempt ended."""

    token: str
    status: Status
    step: Step
    kind: str | None
    """of the failure, None where there was none"""
    message: str
    metrics: dict[str, dict[str, float]]
    """by name: value, low, high, capped, games"""

    def check(self) -> Iterator[str]:
        """Yield which metrics are not whole."""
        for name, measured in self.metrics.items():
            if not {"value", "low", "high"} <= measured.keys():
                yield f"metrics must hold value, low and high, but {name} holds {measured!r}"
