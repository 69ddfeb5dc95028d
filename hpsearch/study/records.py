"""What is known of trials, jobs and populations: the records that `state` folds events into."""

from collections import Counter
from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any, Final

from hpsearch.cluster.records import Exploit
from hpsearch.population.operator_record import OperatorRecord
from hpsearch.study.space import ALGORITHM


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a population before it is asked for; JSON holds it as it stands here."""

    key: str  # match and member, which no other trial of the study has
    member: int
    generation: int
    parents: tuple[int, ...]  # trials; none for new networks, or for a founder's
    parent_steps: tuple[int, ...]  # at which the intervals of the parents, or the founder, ended
    operator: Mapping[str, Any]  # its name and numbers; fresh for new networks
    is_child: bool  # whether selection or chance changed it; else it is its parent's next interval
    params: Mapping[str, Any] | None  # as Optuna stores them, None where the sampler suggests them
    steps: int  # at which its interval ends, counted from its first ancestor's beginning
    founder: int | None = None  # place of the founder that its first ancestor began with

    @property
    def first_step(self) -> int:
        """Return the step at which the interval begins: where its parent, or founder, ended."""
        return self.parent_steps[0] if self.parent_steps else 0

    @property
    def trains(self) -> bool:
        """Return whether its interval has a step; that of a child of the closing has none."""
        return self.steps > self.first_step

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "PlannedTrial":
        lists = {name: tuple(data[name]) for name in ("parents", "parent_steps")}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class Ended:
    seconds: float  # for which it trained
    at: float  # when that was seen, in seconds since the epoch


@dataclass
class Match:
    number: int
    members: dict[int, int]  # trial whose checkpoint plays, by member
    ended: tuple[int, ...]  # members whose interval has ended, which survive it or are replaced
    archive: tuple[int, ...]  # trials of past champions that play too
    job: str | None = None  # that plays it
    given_at: float = 0.0  # when it was given the match, in seconds since the epoch
    failures: int = 0  # jobs that ended without having played it, since a driver was last started
    strengths: dict[int, float] = field(default_factory=dict)  # by trial, in logarithms of rho
    intervals: dict[int, list[float]] = field(default_factory=dict)  # ends of their 95 % intervals
    game: dict[str, Any] | None = None  # that all players play, see `cycles.meta_game`
    answers: list[dict[str, Any]] = field(default_factory=list)
    """how the champion of the match before fared against opponents trained for it alone"""
    champion: int | None = None  # the strongest of them, None until it is decided

    @property
    def is_over(self) -> bool:
        return self.champion is not None

    @property
    def waits(self) -> bool:
        return not self.is_over and self.job is None


@dataclass
class PopulationRecord:
    """What the driver decides from beside the trials themselves."""

    planned: list[PlannedTrial] = field(default_factory=list)  # to be asked for, in this order
    has_begun: bool = False
    matches: MutableMapping[int, Match] = field(default_factory=dict)  # by number
    num_judged: int = 0
    archive: list[int] = field(default_factory=list)  # champions, each once, the latest last
    answers: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """see `Match.answers`: the latest that are known, by the champion, the latest last"""
    newest: dict[int, int] = field(default_factory=dict)  # each member's newest trial
    finished: dict[int, int] = field(default_factory=dict)  # each member's newest that can play
    open: dict[int, Ended] = field(default_factory=dict)  # members whose next trial is undecided
    late: set[int] = field(default_factory=set)  # who trained when the newest match was called
    operators: dict[str, OperatorRecord] = field(default_factory=dict)
    closing: int = 0  # generations of the closing planned since the last member trained
    is_closed: bool = False  # whether the last of them has been

    @property
    def match(self) -> Match | None:
        last = self.matches.get(len(self.matches))
        return last if last is not None and not last.is_over else None

    @property
    def untrained(self) -> list[PlannedTrial]:
        """Return the planned children of the closing, which the budget's trials don't limit."""
        return [origin for origin in self.planned if not origin.trains]

    # How events change it.

    def asked(self, trial: int, origin: PlannedTrial) -> None:
        self.planned = [planned for planned in self.planned if planned.key != origin.key]
        self.newest[origin.member] = trial
        if origin.trains:
            self.closing, self.is_closed = 0, False

    def told(self, trial: "Trial", ended: Ended, birth: Mapping[str, Any] | None) -> None:
        """Take in that a member's interval has ended; ``birth`` says how its trial was made."""
        self.open[trial.member] = ended
        self.late.discard(trial.member)
        # A copy that does not train would only take the place of another network.
        is_of_use = trial.trains or birth is None or birth["adopted"]
        if trial.told == COMPLETE and is_of_use:
            self.finished[trial.member] = trial.number
        if birth is not None and birth["chance"] is not None:  # of a copy nothing is learned
            record = self.operators.get(birth["operator"], OperatorRecord(0, 0))
            self.operators[birth["operator"]] = record.with_child(accepted=birth["adopted"])

    def called(self, data: Mapping[str, Any], training: set[int]) -> None:
        """Take in that a match judges those who have ended an interval, without ``training``."""
        members = {int(member): trial for member, trial in data["members"].items()}
        match = Match(data["match"], members, tuple(data["ended"]), tuple(data["archive"]))
        self.matches[match.number] = match
        self._close(match.ended)
        self.late = training

    def bred(self, data: Mapping[str, Any]) -> None:
        """Take in what comes next: at the beginning, and after each match."""
        self.has_begun = True
        coming = [PlannedTrial.of(child) for child in data["children"]]
        self.planned += coming
        self._close(origin.member for origin in coming)
        if data["match"] is None:
            return
        match = self.matches[data["match"]]
        match.champion, match.game, match.answers = data["champion"], data["game"], data["answers"]
        match.strengths = {int(trial): strength for trial, strength in data["strengths"].items()}
        match.intervals = {int(trial): bounds for trial, bounds in data["intervals"].items()}
        if match.champion is None:
            return
        match.job = None
        self.num_judged += 1
        if match.champion in self.archive:
            self.archive.remove(match.champion)
        self.archive.append(match.champion)
        if match.answers:
            answering = match.answers[0]["trial"]
            self.answers.pop(answering, None)
            self.answers[answering] = match.answers

    def closed(self, data: Mapping[str, Any]) -> None:
        """Take in a generation of the closing; one without children is the last."""
        self.closing, self.is_closed = data["number"], data["is_last"]
        children = [PlannedTrial.of(child) for child in data["children"]]
        if children:
            # The others rest, and the next match plans anew for them; who never began still may.
            begin = [origin for origin in self.planned if origin.member not in self.newest]
            self.planned = children + begin

    def _close(self, members: Iterable[int]) -> None:
        for member in members:
            self.open.pop(member, None)


def key_after(member: int, population: PopulationRecord) -> str:
    """Return the key of a member's next trial: its place and what comes before."""
    return f"{member} after {population.newest.get(member, 'nothing')}"


COMPLETE: Final = "finished"
PRUNED: Final = "pruned"
FAIL: Final = "failed"


@dataclass
class Trial:
    number: int
    params: dict[str, Any]  # as Optuna stores them
    asked_at: float = 0.0  # seconds since the epoch, as all times here
    attempts: int = 0  # attempts begun; the newest has this number
    token: str | None = None  # of the running attempt, None while the trial waits
    job: str | None = None  # that trains it, or that last did
    announced_at: float = 0.0  # when the newest attempt was given to it
    began_at: float | None = None  # of the running attempt, None while it waits for a machine
    seconds: float = 0.0  # for which the attempts that have ended trained
    reported: dict[int, float] = field(default_factory=dict)  # values told to Optuna, by step
    prune: bool = False  # whether the newest of them was so bad that the trial is given up
    rungs: int = 0  # rungs that the pruner noted for the trial up to then
    lost: int = 0  # attempts in a row that vanished without getting further
    step: int = 0  # the furthest that an ended attempt got
    kept: int | None = None  # from which step the next attempt should go on, if known
    told: str | None = None  # how the trial ended: finished, pruned or failed
    value: float | None = None  # of the first objective
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    """by name: value, low, high, capped, games"""
    failure: str | None = None
    message: str = ""  # how it failed, or what ended it early
    ended_by: str | None = None  # key of `end` that ended it before its steps
    losses: list["Loss"] = field(default_factory=list)  # attempts that did not finish it
    is_alone: bool = False  # whether it took too much memory of a GPU with others
    retry_of: int | None = None  # the failed trial whose parameters this one tries again
    origin: PlannedTrial | None = None  # whose interval it is, where there is a population
    sha256: str | None = None  # of the last checkpoint of a population's finished trial
    is_adopted: bool = False  # whether it began as its operator's child, not as a copy
    takeovers: tuple[Exploit, ...] = ()  # copies that took its place, where there are islands

    @property
    def last_params(self) -> Mapping[str, Any]:
        """Return the parameters with which it ended, as Optuna stores them."""
        return self.takeovers[-1].params if self.takeovers else self.params

    @property
    def member(self) -> int:
        assert self.origin is not None, "members are trials of a population"
        return self.origin.member

    @property
    def trains(self) -> bool:
        """Whether the trial has steps to make; a child of a closing has none."""
        return self.origin is None or self.origin.trains

    @property
    def first_step(self) -> int:
        """The step at which the trial begins: 0, but for one that inherits a checkpoint."""
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
        return self.told is None and self.token is None


@dataclass(frozen=True)
class Loss:
    """An attempt that did not finish its trial."""

    attempt: int
    kind: str  # of the failure; interrupted where the trial was saved
    seconds: float  # of training that were lost with it
    gpus: float  # share of its job's
    log: tuple[str, ...]  # the last lines that its job printed, where it failed


TrialGroup = tuple[
    tuple[int, int, str], ...
]  # trial, attempt and token of those that train together


@dataclass
class Job:
    name: str
    groups: list[TrialGroup]
    """what it was given to train, in this order, empty where it was given a match; more than one
    group if it is a pilot"""
    running: set[int] = field(default_factory=set)  # trials whose attempts have not ended
    id: str | None = None  # the executor's, None between the announcement and the submission
    announced_at: float = 0.0  # seconds since the epoch, as all times here
    began_at: float | None = None
    interrupted: bool = False  # whether it was asked to leave
    ended: bool = False
    ended_at: float | None = None
    gpus: float = 0.0  # that it occupies while it runs
    is_pilot: bool = False  # whether it takes more trials than its first ones
    is_leaving: bool = False  # whether one of its attempts ended in a way that ends the job
    is_silent: bool = False  # whether nothing was heard of its trials or its match
    closed: bool = False
    match: int | None = None  # the last match that it was given to play

    @property
    def slots(self) -> int:
        return max(len(group) for group in self.groups)

    def seconds(self, now: float) -> float:
        if self.began_at is None:
            return 0.0
        return max(0.0, (self.ended_at if self.ended_at is not None else now) - self.began_at)


# What the trials add up to, so that a summary need not look at each of them.

NUM_NEWEST: Final = 10  # failed trials that are remembered one by one

Length = int | tuple[Any, Any]
"""the steps of a trial of a population; of others what they depend on, as Optuna stores it: steps
and algorithm, None where they are not searched"""


@dataclass(frozen=True)
class Lost:
    """Training of attempts that ended in one way, and that is of no use."""

    attempts: int
    seconds: float  # of training, of all trials together
    gpu_seconds: float

    @property
    def hours(self) -> float:
        return self.seconds / 3600

    @property
    def gpu_hours(self) -> float:
        return self.gpu_seconds / 3600


@dataclass
class Tally:
    lengths: Counter[Length] = field(default_factory=Counter)  # of the trials that have been told
    failed: Counter[str] = field(default_factory=Counter)
    newest_failed: list[int] = field(default_factory=list)  # at most NUM_NEWEST, the last one last
    lost: dict[str, Lost] = field(default_factory=dict)  # by kind of failure
    least: tuple[float, int] | None = None  # lowest value, and the first trial that has it
    greatest: tuple[float, int] | None = None  # the same with the highest value
    children: Counter[str] = field(default_factory=Counter)  # adopted or not failed, by operator
    ended: Counter[str] = field(default_factory=Counter)
    """finished trials that ended before their steps were made, by what ended them"""

    def ask(self, trial: Trial) -> None:
        if is_made(trial):
            self.children[_operator(trial)] += 1

    def lose(self, loss: Loss, seconds: float, *, num_attempts: int = 1) -> None:
        """Count an attempt that did not finish its trial, or more seconds as lost with it."""
        before = self.lost.get(loss.kind, Lost(0, 0.0, 0.0))
        self.lost[loss.kind] = Lost(
            before.attempts + num_attempts,
            before.seconds + seconds,
            before.gpu_seconds + seconds * loss.gpus,
        )

    def tell(self, trial: Trial) -> None:
        """Count a trial that has ended, when all that was told of it is known."""
        self.lengths[length(trial)] += 1
        if trial.told == FAIL:
            self.failed[trial.failure or "unknown"] += 1
            self.newest_failed = [*self.newest_failed, trial.number][-NUM_NEWEST:]
            if is_made(trial) and not trial.is_adopted:
                self.children -= Counter([_operator(trial)])
        if trial.ended_by is not None:
            self.ended[trial.ended_by] += 1
        if trial.told == COMPLETE and trial.value is not None:
            ours = (trial.value, trial.number)
            self.least = min(self.least or ours, ours)
            self.greatest = max(self.greatest or ours, ours, key=lambda it: (it[0], -it[1]))


def length(trial: Trial) -> Length:
    if trial.origin is not None:
        return trial.origin.steps - trial.first_step
    return trial.params.get("steps"), trial.params.get(ALGORITHM)


def is_made(trial: Trial) -> bool:
    """Return whether an operator made the trial's networks of its parents'."""
    return trial.origin is not None and trial.origin.is_child and bool(trial.origin.parents)


def _operator(trial: Trial) -> str:
    assert trial.origin is not None
    return str(trial.origin.operator["name"])
