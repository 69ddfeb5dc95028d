"""What driver, jobs and commands write for each other; `study_dir` says into which files."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from hpsearch.files import MAX_STEP
from hpsearch.parameters import NumberParameter
from hpsearch.population.operators.options import OperatorOptions
from hpsearch.population.options import Adoption, Keep, Matches, Perturb, Truncation
from hpsearch.schema import NonNegative, Positive, Range
from hpsearch.trainers.checkpoint_name import step_of
from hpsearch.trainers.config.ending import Ending
from hpsearch.trainers.config.players import Role

Status = Literal["finished", "pruned", "interrupted", "failed", "lost"]
"""how an attempt ended; lost is told by the driver alone, of an attempt without a result"""
Stop = Literal["finished", "pruned", "failed"]
"""how a trial was told, after which its attempts have nothing more to do"""
StepNumber = Annotated[int, Range(low=0, high=MAX_STEP)]


@dataclass(frozen=True)
class Assignment:
    trial: int
    attempt: int
    token: str


@dataclass(frozen=True)
class JobPlan:
    assignments: tuple[Assignment, ...]  # the trials that it trains first
    num_threads: int  # that it may use
    pilot_seconds: float
    """for which it waits for more trials when it has trained some; 0 where it leaves then"""
    refills: bool  # whether it may be given more while some still train
    match: int | None = None  # number of the match that it plays, instead of training
    probes: str | None = None
    """device that it tries, instead of training, to say what a job of this kind sees"""
    heartbeat_seconds: float = 2.0  # between two heartbeats
    ranks: int = 1  # processes that train together
    programs: bool = False  # whether its trials are programs, which it runs
    descend: bool = True
    """whether each trial's lineage is written; else those without one begin with new networks"""


@dataclass(frozen=True)
class HeldGpus:
    """The GPUs of its machine that a job holds until it ends."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class SubmittedJob:
    """What a scheduler calls a job that it has taken."""

    id: str
    at: float  # seconds since the epoch


@dataclass(frozen=True)
class RankAddress:
    """Where the first rank of a job waits for the others."""

    host: str
    port: int


LEARNER: Final = "learner"
Moment = Annotated[float, Range(low=0.0, high=1e11)]  # seconds since 1970


@dataclass(frozen=True)
class Span:
    """A time in which one process did one thing."""

    process: str  # LEARNER, or "actor N"
    version: NonNegative  # the step of the weights
    began: Moment
    ended: Moment


@dataclass(frozen=True)
class Timeline:
    """What the learner and the actors of a job's first rank did of late."""

    spans: tuple[Span, ...]


@dataclass(frozen=True)
class DeviceReport:
    visible: str | None  # CUDA_VISIBLE_DEVICES of its environment
    torch: str  # version
    gpus: tuple[str, ...]  # names of the GPUs that torch finds
    fault: str | None  # why the device that was tried cannot be used, None if it can
    hosts: tuple[str, ...] = ()  # of the job's ranks that met, where there are several
    network: tuple[str, ...] = ()
    """NAME=VALUE of the variables by which torch.distributed chooses between interfaces; of several
    ranks also the names of the first one's interfaces"""


@dataclass(frozen=True)
class JobWork:
    """What a job is given beside its first trials or after them; nothing at all lets it leave."""

    assignments: tuple[Assignment, ...]
    match: int | None = None  # number of the match that it plays


@dataclass(frozen=True)
class Control:
    token: str  # the attempt with this token is the trial; every other one has been fenced off
    stop: Stop | None
    """why the trial should end early, None while it goes on; older versions also wrote it where a
    trial had finished"""


@dataclass(frozen=True)
class Heartbeat:
    at: float  # seconds since the epoch, by the job's clock
    step: StepNumber
    saved: StepNumber  # step of the newest checkpoint, from which a next attempt would go on
    steps_per_second: Annotated[float, Range(low=0.0)]
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it now measures or saves, which takes long and gives no heartbeat between"""


@dataclass(frozen=True)
class MemberHeartbeat:
    trial: NonNegative
    attempt: NonNegative
    token: str
    step: StepNumber
    saved: StepNumber  # step of the newest checkpoint, from which a next attempt would go on
    measured: StepNumber | None = None
    """step of the last evaluation that this job has told, 0 before the first; a job that says so
    gives a heartbeat after each one, and after the end of an attempt"""

    @classmethod
    def at(
        cls, assignment: Assignment, step: int, saved: int, measured: int | None
    ) -> "MemberHeartbeat":
        return cls(assignment.trial, assignment.attempt, assignment.token, step, saved, measured)

    def knows(self, later: "MemberHeartbeat") -> bool:
        """Return whether a later one has no news."""
        return (self.token, self.measured) == (later.token, later.measured)


ActorState = Literal["running", "require_sync", "waiting_sync", "stopped"]
"""plays; is to get newer weights; waits until it may play on; is lost, another one may begin"""


@dataclass(frozen=True)
class ActorHeartbeat:
    state: ActorState
    age: NonNegative  # steps since the weights were sent by which it played what was learned last
    too_old: NonNegative  # rollouts that nothing was learned from
    played_here: NonNegative  # steps whose games the learner played in its place


@dataclass(frozen=True)
class RankHeartbeat:
    host: str
    step: StepNumber  # of its first member
    waiting: Annotated[float, Range(low=0.0, high=1.0)]
    """share of the last training in which it waited for others; 0 on GPUs, not measured there"""
    actors: tuple[ActorHeartbeat, ...] = ()


SLOW = 0.2  # share of its time for which the others wait for a straggler more than it does


@dataclass(frozen=True)
class JobHeartbeat:
    at: float  # seconds since the epoch, by the job's clock
    host: str
    pid: NonNegative
    is_busy: bool
    """whether it may now measure or save, which takes long and gives no heartbeat between"""
    steps_per_second: Annotated[float, Range(low=0.0)]  # of each member
    members: tuple[MemberHeartbeat, ...]  # the trials that train, or are about to
    ranks: tuple[RankHeartbeat, ...] = ()  # where there are several, or actors play for it
    has_left: bool = False  # whether the job is over, and takes no more trials

    @property
    def straggler(self) -> int | None:
        """The rank for which the others wait, None if they wait for none."""
        shares = [rank.waiting for rank in self.ranks]
        if len(shares) < 2:
            return None
        least = min(shares)
        others = (sum(shares) - least) / (len(shares) - 1)
        return shares.index(least) if others - least > SLOW else None

    def of(self, trial: int, attempt: int) -> Heartbeat | None:
        """Return what it says of an attempt, None if that does not train, or not any more."""
        return self._heartbeats.get((trial, attempt))

    def member(self, trial: int, attempt: int) -> MemberHeartbeat | None:
        return self._by_attempt.get((trial, attempt))

    @cached_property
    def _by_attempt(self) -> dict[tuple[int, int], MemberHeartbeat]:
        return {(member.trial, member.attempt): member for member in self.members}

    @cached_property
    def _heartbeats(self) -> dict[tuple[int, int], Heartbeat]:
        speed, host, pid, is_busy = self.steps_per_second, self.host, self.pid, self.is_busy
        return {
            attempt: Heartbeat(self.at, member.step, member.saved, speed, host, pid, is_busy)
            for attempt, member in self._by_attempt.items()
        }


@dataclass(frozen=True)
class Start:
    step: StepNumber  # that of the checkpoint from which it goes on, 0 where there is none
    packages: dict[str, str] = field(default_factory=dict)
    """versions of the packages that add parts to hpsearch, by name"""


@dataclass(frozen=True)
class AttemptResult:
    token: str
    status: Status
    step: StepNumber
    kind: str | None  # of the failure, None where there was none
    message: str
    metrics: dict[str, dict[str, float]]  # by name: value, low, high, capped, games
    ended_by: Ending | None = None  # what ended training before its steps, None where nothing did

    def check(self) -> Iterator[str]:
        for name, measured in self.metrics.items():
            if not {"value", "low", "high"} <= measured.keys():
                yield f"metrics must hold value, low and high, but {name} holds {measured!r}"


@dataclass(frozen=True)
class Fresh:
    """No parents: a trial that begins with new networks."""

    name: Literal["fresh"] = "fresh"


@dataclass(frozen=True)
class Parent:
    trial: int | None  # of the same study, None where it comes from elsewhere
    checkpoint: str  # folder, from the study's or absolute

    @property
    def step(self) -> int:
        """The step of the checkpoint; ValueError if its name does not tell."""
        return step_of(self.checkpoint)


@dataclass(frozen=True)
class Lineage:
    operator: Fresh | OperatorOptions
    seed: NonNegative  # of what the operator draws; also the trial's own
    parents: tuple[Parent, ...] = ()
    """as many as the operator takes; the first gives all that the operator does not make"""
    generation: NonNegative = 0  # matches that decided over the trial's ancestors
    member: NonNegative = 0  # place in the population
    trying: Adoption | None = None
    """how the child is tried before it is adopted; None adopts it untried"""

    @property
    def first_step(self) -> int:
        """The step at which the trial begins, its first parent's; ValueError as `Parent.step`."""
        return self.parents[0].step if self.parents else 0


@dataclass(frozen=True)
class Birth:
    operator: str
    adopted: bool  # else a copy of the first parent took its place
    chance: float | None  # that the copy is stronger, None where it was not tried


@dataclass(frozen=True)
class Island:
    """How the members of a job breed before their interval ends."""

    name: str  # of what chance decides, which no other interval of an island shares
    steps: Positive  # of a local generation
    matches: Matches
    selection: Truncation
    explore: Perturb | Keep
    parameters: dict[str, NumberParameter]  # that copies may change, by dotted path


@dataclass(frozen=True)
class Exploit:
    """A copy of another member took a trial's place."""

    step: NonNegative  # of the trial, which goes on counting
    source: NonNegative  # trial that was copied
    source_step: NonNegative
    sha256: str  # of the source's checkpoint at that moment
    changes: dict[str, tuple[Any, ...]]
    """values of the parameters that the copy does not share with its source: before and after"""
    params: dict[str, Any]  # values of all parameters from then on


@dataclass(frozen=True)
class DonatedCheckpoint:
    step: NonNegative
    sha256: str


@dataclass(frozen=True)
class Exchanges:
    """What a trial took and gave on its island, the oldest first."""

    takeovers: tuple[Exploit, ...] = ()
    loans: tuple[DonatedCheckpoint, ...] = ()

    def before(self, step: int) -> "Exchanges":
        """Return those before a step, from which an attempt goes on."""
        return Exchanges(
            tuple(exploit for exploit in self.takeovers if exploit.step < step),
            tuple(donation for donation in self.loans if donation.step < step),
        )

    def with_exploit(self, exploit: Exploit) -> "Exchanges":
        """Return these and one more; a replaced attempt may repeat its successor's of that step."""
        by_step = {other.step: other for other in (*self.takeovers, exploit)}
        return replace(self, takeovers=tuple(by_step[step] for step in sorted(by_step)))

    def with_donation(self, donation: DonatedCheckpoint) -> "Exchanges":
        by_step = {other.step: other for other in (*self.loans, donation)}
        return replace(self, loans=tuple(by_step[step] for step in sorted(by_step)))


@dataclass(frozen=True)
class MatchPlayer:
    name: str  # each once on its side
    checkpoint: str | None
    """folder, from the study's or absolute; None for the scripted player of that name"""


@dataclass(frozen=True)
class Response:
    """An opponent that is trained against one player alone."""

    role: Role  # of the player, which does not learn
    trial: NonNegative  # of the player
    checkpoint: str  # folder of the player, from the study's
    steps: Positive  # of the opponent's training
    seed: NonNegative


@dataclass(frozen=True)
class MatchPlan:
    """Every host against every agent."""

    hosts: tuple[MatchPlayer, ...]
    agents: tuple[MatchPlayer, ...]
    num_games: Positive  # of each pair in each set of starts
    max_steps: Positive  # moves after which a game counts as unfinished
    splits: tuple[str, ...]  # names of the sets of starts, which are independent of each other
    device: str
    responses: tuple[Response, ...] = ()
    """opponents to train and to let play, on the last set of starts"""

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """That of its games: sets of starts, hosts, agents, games of each pair."""
        return len(self.splits), len(self.hosts), len(self.agents), self.num_games


@dataclass(frozen=True)
class MatchSign:
    at: float  # seconds since the epoch, by the job's clock
    pairs: NonNegative  # that have played


@dataclass(frozen=True)
class Answer:
    role: Role  # of the player
    trial: NonNegative
    value: float  # rho
    low: float
    high: float  # ends of its 95 % interval


@dataclass(frozen=True)
class Answers:
    answers: tuple[Answer, ...]


@dataclass(frozen=True)
class Pin:
    """What a study needs of another one."""

    study: str  # its folder
    checkpoints: tuple[str, ...]  # folders, from that of the study that has them


@dataclass(frozen=True)
class DriverRetry:
    """A driver that tries again and again, because of something that may pass."""

    since: float  # seconds since the epoch, of the first time in a row
    at: float  # the same of the last time
    reason: str  # what went wrong the last time, in a sentence
