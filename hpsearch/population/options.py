"""The population block of a study file: matches, selection, operators; needs no torch."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from hpsearch.population.operators.options import Changing, Clone, OperatorOptions, PositiveNumber
from hpsearch.schema import NonNegative, Positive, Range
from hpsearch.trainers.config.players import OpponentName, Role, is_scripted

Share = Annotated[float, Range(low=0.0, high=1.0)]
PositiveShare = Annotated[float, Range(low=0.0, high=1.0, open_low=True)]
ReplacedShare = Annotated[float, Range(low=0.0, high=0.5)]
Confidence = Annotated[float, Range(low=0.5, high=1.0)]

ParetoObjective = Literal["strength", "robustness", "size", "novelty"]


@dataclass(frozen=True)
class Synchronous:
    """All members of a generation are judged together."""

    name: Literal["synchronous"] = "synchronous"
    quorum: PositiveShare = 0.75
    """share of the members waited for that must have ended their interval before the minutes below
    begin; a member that missed a match is not waited for again"""
    minutes: Annotated[float, Range(low=0.0)] = 30.0
    """minutes that each of the others may train longer than the quorum did, or may then wait for a
    machine; those that take longer are judged in the next match"""


@dataclass(frozen=True)
class Steady:
    """A member whose interval has ended is judged at once, beside the others as they last were."""

    name: Literal["steady"]


@dataclass(frozen=True)
class Matches:
    """What members play to be compared."""

    num_games: Positive = 256
    """of each pair on starts by which parents are chosen, and as many that confirm the choice"""
    max_steps: Positive = 100
    """moves after which a game counts as unfinished"""
    panel: tuple[OpponentName, ...] = ("random", "zeillinger", "choose_first", "choose_last")
    """scripted players that every member meets"""
    archive: NonNegative = 4
    """past champions that every member meets, the latest ones"""
    weighing: Literal["uniform", "nash"] = "nash"
    """how opponents count: alike, or as they are played in the equilibrium of the match"""
    num_samples: Positive = 500
    """times that starts are drawn again, to tell differences from noise"""
    best_response: Positive | None = None
    """steps for which, in each match, opponents train against the champion of the one before, to
    tell what it can lose; null for none"""

    def check(self) -> Iterator[str]:
        if len(set(self.panel)) < len(self.panel):
            yield f"panel must name each player once, but is {list(self.panel)}"


@dataclass(frozen=True)
class Truncation:
    """The worst members are replaced by children of the best."""

    name: Literal["truncation"] = "truncation"
    share: ReplacedShare = 0.25
    """of the members"""
    confidence: Confidence = 0.9
    """a member is replaced only if the chance that the parent is stronger is at least this"""


@dataclass(frozen=True)
class Tournament:
    """Each place goes to a child of the best of a few; the best of all live on as they are."""

    name: Literal["tournament"]
    size: Positive = 3
    """members that meet"""
    elites: NonNegative = 1
    """members that live on"""
    confidence: Confidence = 0.9
    """a member is replaced only if the chance that the parent is stronger is at least this"""


@dataclass(frozen=True)
class Pareto:
    """Dominated members are replaced by children of the first Pareto front."""

    name: Literal["pareto"]
    objectives: tuple[ParetoObjective, ...] = ("strength", "robustness", "size")
    share: ReplacedShare = 0.25
    """of the members"""
    confidence: Confidence = 0.9
    """a member is replaced only if the parent lies in a better front with at least this chance"""
    worst: PositiveShare = 0.3
    """share of opponents, the hardest ones, over which robustness is the mean"""
    nearest: Positive = 3
    """players of the population and the archive whose distance novelty is"""

    def check(self) -> Iterator[str]:
        if not self.objectives or len(set(self.objectives)) < len(self.objectives):
            yield f"objectives must be named, each once, but is {list(self.objectives)}"


@dataclass(frozen=True)
class NoSelection:
    """No member is replaced: all continue."""

    name: Literal["none"]


@dataclass(frozen=True)
class Perturb:
    """Steps on each parameter's own scale, inside its range."""

    name: Literal["perturb"] = "perturb"
    factor: Annotated[float, Range(low=1.0, open_low=True)] = 1.25
    """on a logarithmic scale"""
    range_share: PositiveNumber = 0.1
    """of a linear range"""
    resample: Share = 0.1
    """chance that a number is drawn anew"""
    switch: Share = 0.1
    """chance that a choice is drawn anew"""


@dataclass(frozen=True)
class Model:
    """Where a model of past improvements is most hopeful (PB2); perturbed where there is none."""

    name: Literal["model"]
    optimism: PositiveNumber = 2.0
    """standard deviations added to the model's mean"""
    perturb: Perturb = field(default_factory=Perturb)


@dataclass(frozen=True)
class Keep:
    """Children keep what their parents had."""

    name: Literal["keep"]


@dataclass(frozen=True)
class Schedule:
    """Every member has the same, interval by interval; how a schedule is tried on other seeds."""

    name: Literal["schedule"]
    intervals: tuple[dict[str, Any], ...]
    """values by dotted path; the last ones stay"""

    def check(self) -> Iterator[str]:
        if not self.intervals:
            yield "intervals must hold the values of at least one interval"


@dataclass(frozen=True)
class Islands:
    """Members that a job trains together, and that breed there several times in an interval.

    What takes a place is a copy in the memory of the device, with hyperparameters by the
    population's explore; the best reach other islands by the match that ends the interval.
    """

    members: Annotated[int, Range(low=2)]
    """of an island, which are those of a job"""
    generations: Annotated[int, Range(low=2)]
    """local ones in an interval"""
    num_games: Positive = 64
    """of each pair of the island and its panel, on each of the two sets of starts"""
    selection: Truncation = field(default_factory=Truncation)


@dataclass(frozen=True)
class Adoption:
    """How children of operators are tried before they take a place.

    A child and a copy of its first parent both meet the scripted opponents of their configuration,
    from the same starts.
    """

    num_games: Positive = 1000
    """against each opponent"""
    confidence: Share = 0.5
    """if the chance that the copy is stronger exceeds this, the copy is adopted instead"""


@dataclass(frozen=True)
class Closing:
    """Generations after the last interval, whose children play untrained, as they are created.

    They are made of what members have become, and are no trials of the budget.
    """

    operators: tuple[Changing, ...]
    """by which they are made, the more often the more of theirs were adopted"""
    generations: Positive = 4
    share: Annotated[float, Range(low=0.0, high=0.5, open_low=True)] = 0.5
    """of the members: the worst ones, which are replaced"""


@dataclass(frozen=True)
class PopulationOptions:
    """A population: its members train for intervals, play each other, and breed."""

    members: Annotated[int, Range(low=2)]
    """chains of trials that run at once"""
    interval: Positive
    """steps of a trial: those between two matches of a member"""
    generations: Synchronous | Steady = field(default_factory=Synchronous)
    """who is judged together"""
    matches: Matches = field(default_factory=Matches)
    founders: tuple[str, ...] = ()
    """checkpoints with which members begin, in turn, from the study file; none for new networks"""
    islands: Islands | None = None
    """null trains each member by itself from match to match"""
    selection: Truncation | Tournament | Pareto | NoSelection = field(default_factory=Truncation)
    """which members are replaced by which"""
    explore: Perturb | Model | Keep | Schedule = field(default_factory=Perturb)
    """which hyperparameters a child tries"""
    operators: tuple[OperatorOptions, ...] = field(default_factory=lambda: (Clone(),))
    """by which children are made, the more often the more of theirs were adopted"""
    floor: Share = 0.05
    """least chance of an operator"""
    adoption: Adoption | None = field(default_factory=Adoption)
    """null adopts every child"""
    closing: Closing | None = None
    """what is made of the members when none trains any more; null: nothing"""

    @property
    def steps_of_schedule(self) -> int:
        """Return for how many steps a member's hyperparameters stay: those of a generation."""
        return self.interval // (1 if self.islands is None else self.islands.generations)

    def check(self) -> Iterator[str]:
        yield from self._operator_faults("operators", self.operators)
        if self.closing is not None:
            yield from self._operator_faults("closing.operators", self.closing.operators)
            if isinstance(self.selection, NoSelection):
                yield "closing must be null if selection is none, where no member is replaced"
        if isinstance(self.explore, Schedule) and not isinstance(self.selection, NoSelection):
            yield f"selection must be none if explore is a schedule, but is {self.selection.name}"
        if isinstance(self.selection, Tournament):
            most = self.members
            for key, value in (("size", self.selection.size), ("elites", self.selection.elites)):
                if value > most:
                    yield f"selection.{key} must be at most the {most} members, but is {value}"
        if self.islands is not None:
            yield from self._island_faults(self.islands)

    def _operator_faults(self, key: str, operators: tuple[OperatorOptions, ...]) -> Iterator[str]:
        names = [operator.name for operator in operators]
        if not names or len(set(names)) < len(names):
            yield f"{key} must be named, each once, but is {names}"
        if self.floor * len(names) > 1:
            yield f"floor must be at most one over the {len(names)} {key}, but is {self.floor}"

    def _island_faults(self, islands: Islands) -> Iterator[str]:
        members, generations = islands.members, islands.generations
        if self.members % members:
            yield f"members must be a multiple of islands.{members=}, but is {self.members}"
        if self.interval % generations:
            yield f"interval must be a multiple of islands.{generations=}, but is {self.interval}"
        if isinstance(self.explore, Schedule):
            yield "islands must be null if explore is a schedule, which every member follows"


def scripted_players(role: Role, panel: tuple[str, ...]) -> tuple[str, ...]:
    """Return those of a panel who can play a role."""
    return tuple(name for name in panel if is_scripted(name, role))
