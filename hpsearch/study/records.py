"""What is known of one trial and of one job: the records that `state` folds events into."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hpsearch.cluster.island import Takeover
from hpsearch.study.breeding.records import Origin

COMPLETE: Final = "finished"
PRUNED: Final = "pruned"
FAIL: Final = "failed"


@dataclass
class Trial:
    """One trial, as far as the events tell."""

    number: int
    params: dict[str, Any]
    """as Optuna stores them"""
    asked_at: float = 0.0
    """seconds since the epoch, as all times here"""
    attempts: int = 0
    """attempts begun; the newest has this number"""
    token: str | None = None
    """of the running attempt, None while the trial waits"""
    job: str | None = None
    """that trains it, or that last did"""
    announced_at: float = 0.0
    """when the newest attempt was given to it"""
    began_at: float | None = None
    """since when the running attempt was seen to train, None while it waits for a machine"""
    seconds: float = 0.0
    """for which the attempts that have ended trained"""
    reported: dict[int, float] = field(default_factory=dict)
    """values told to Optuna, by step"""
    prune: bool = False
    """whether the newest of them was so bad that the trial is given up"""
    rungs: int = 0
    """rungs that the pruner noted for the trial up to then"""
    lost: int = 0
    """attempts in a row that vanished without getting further"""
    step: int = 0
    """the furthest that an ended attempt got"""
    kept: int | None = None
    """the step from which the next attempt should go on, None where that is not known"""
    told: str | None = None
    """how the trial ended: finished, pruned or failed; None while it has not"""
    value: float | None = None
    """of the first objective"""
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """by name: value, low, high, capped, games"""
    failure: str | None = None
    """kind of the failure"""
    message: str = ""
    """of the failure"""
    losses: list["Loss"] = field(default_factory=list)
    """attempts that ended otherwise than by finishing"""
    is_alone: bool = False
    """whether it needs a GPU of its own: together with others it took too much memory"""
    retry_of: int | None = None
    """the failed trial whose parameters this one tries again"""
    origin: Origin | None = None
    """whose interval it is, where there is a population"""
    sha256: str | None = None
    """of its last checkpoint, where there is a population and the trial has finished"""
    is_adopted: bool = False
    """whether it began as its operator's child, not as a copy of its first parent"""
    takeovers: tuple[Takeover, ...] = ()
    """copies of others that took its place while it trained, where there are islands"""

    @property
    def last_params(self) -> Mapping[str, Any]:
        """Return the parameters with which it ended, as Optuna stores them."""
        return self.takeovers[-1].params if self.takeovers else self.params

    @property
    def member(self) -> int:
        """Return the place in the population whose interval it is."""
        assert self.origin is not None, "members are trials of a population"
        return self.origin.member

    @property
    def trains(self) -> bool:
        """Return whether the trial has steps to make; a child of a closing has none."""
        return self.origin is None or self.origin.trains

    @property
    def first_step(self) -> int:
        """Return the step at which the trial begins: 0, but for one that inherits a checkpoint."""
        return 0 if self.origin is None else self.origin.first_step

    @property
    def is_over(self) -> bool:
        """Whether its curve no longer counts."""
        return self.prune or self.told is not None

    def seconds_trained(self, now: float) -> float:
        """Return for how long all attempts have trained, without their waits for a machine."""
        return self.seconds + (0.0 if self.began_at is None else max(0.0, now - self.began_at))

    @property
    def waits(self) -> bool:
        """Whether the trial should run and does not."""
        return self.told is None and self.token is None


@dataclass(frozen=True)
class Loss:
    """An attempt that did not finish its trial."""

    attempt: int
    kind: str
    """of the failure; interrupted where the trial was saved"""
    seconds: float
    """of training that were lost with it"""
    gpus: float
    """share of its job's"""
    log: tuple[str, ...]
    """the last lines that its job printed, where it failed"""


Group = tuple[tuple[int, int, str], ...]
"""trials that train together: number, attempt and token of each"""


@dataclass
class Job:
    """One job, as far as the events tell."""

    name: str
    groups: list["Group"]
    """what it was given to train, in this order, nobody where it was given a match; more than one
    group if it is a pilot"""
    running: set[int] = field(default_factory=set)
    """the trials whose attempts have not ended; some may still wait in the job"""
    id: str | None = None
    """the executor's, None between the announcement and the submission"""
    announced_at: float = 0.0
    """seconds since the epoch, as all times here"""
    began_at: float | None = None
    """when it was first seen to run"""
    interrupted: bool = False
    """whether it was asked to leave"""
    ended: bool = False
    ended_at: float | None = None
    gpus: float = 0.0
    """that it occupies while it runs"""
    is_pilot: bool = False
    """whether it takes more trials than its first ones"""
    is_leaving: bool = False
    """whether one of its attempts ended in a way that ends the job"""
    is_silent: bool = False
    """whether its trials, or its match, were given up because nothing was heard of them"""
    closed: bool = False
    """whether it was told that there are no more"""
    match: int | None = None
    """the last match that it was given to play"""

    @property
    def slots(self) -> int:
        """Return how many trials it can train at once: as many as its largest group."""
        return max(len(group) for group in self.groups)

    def seconds(self, now: float) -> float:
        """Return for how long the job has run."""
        if self.began_at is None:
            return 0.0
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - self.began_at)
