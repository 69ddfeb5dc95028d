"""What is known of a population: the records that the study's state folds events into."""

from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from hpsearch.population.selection.operator_record import OperatorRecord


@dataclass(frozen=True)
class Origin:
    """A trial of a population before it is asked for: whose interval it is, and of whom it comes.

    JSON holds it as it stands here, in the events that plan a trial and that ask for it.
    """

    key: str
    """match and member, which no other trial of the study has"""
    member: int
    generation: int
    parents: tuple[int, ...]
    """trials; none for new networks, or for a founder's"""
    parent_steps: tuple[int, ...]
    """at which the intervals of the parents, or the founder's training, ended"""
    operator: Mapping[str, Any]
    """its name and numbers; fresh for new networks"""
    is_child: bool
    """whether selection or chance changed it; else the parent goes on as it is"""
    params: Mapping[str, Any] | None
    """as Optuna stores them, None where the sampler suggests them"""
    steps: int
    """at which its interval ends, counted from its first ancestor's beginning"""
    founder: int | None = None
    """place in the list of founders of the checkpoint that its first ancestor began with"""

    @property
    def first_step(self) -> int:
        """Return the step at which the interval begins: where its parent, or founder, ended."""
        return self.parent_steps[0] if self.parent_steps else 0

    @property
    def trains(self) -> bool:
        """Return whether its interval has a step; that of a child of the closing has none."""
        return self.steps > self.first_step

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> "Origin":
        """Return what JSON holds."""
        lists = {name: tuple(data[name]) for name in ("parents", "parent_steps")}
        return cls(**{**data, **lists})


@dataclass(frozen=True)
class Ended:
    """How a member's interval ended."""

    seconds: float
    """for which it trained"""
    at: float
    """when that was seen, in seconds since the epoch"""


@dataclass
class Match:
    """A match of the whole population."""

    number: int
    members: dict[int, int]
    """trial whose checkpoint plays, by member"""
    ended: tuple[int, ...]
    """members whose interval has ended, and who therefore go on, or give way, after it"""
    archive: tuple[int, ...]
    """trials of past champions that play too"""
    job: str | None = None
    """that plays it"""
    given_at: float = 0.0
    """when it was given the match, in seconds since the epoch"""
    failures: int = 0
    """jobs that ended without having played it, since a driver was last started"""
    strengths: dict[int, float] = field(default_factory=dict)
    """of each trial that played as a member, in logarithms of rho"""
    intervals: dict[int, list[float]] = field(default_factory=dict)
    """ends of the 95 % interval of each, on the starts that confirm"""
    game: dict[str, Any] | None = None
    """that all players of the match play, see `game.game_of`"""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """how the champion of the match before fared against opponents trained for it alone"""
    champion: int | None = None
    """the strongest of them, None until it is decided"""

    @property
    def is_over(self) -> bool:
        """Whether it has been played and judged."""
        return self.champion is not None

    @property
    def waits(self) -> bool:
        """Whether it should be played and is not."""
        return not self.is_over and self.job is None


@dataclass
class PopulationRecord:
    """Everything that the driver decides from, beyond the trials themselves."""

    planned: list[Origin] = field(default_factory=list)
    """trials that are to be asked for, in this order"""
    has_begun: bool = False
    matches: MutableMapping[int, Match] = field(default_factory=dict)
    """by number; of a state from a `snapshot` those that are over are read when asked for"""
    num_judged: int = 0
    """matches that are over"""
    archive: list[int] = field(default_factory=list)
    """the champions of all matches, each once, the latest last"""
    answers: dict[int, list[dict[str, Any]]] = field(default_factory=dict)
    """see `Match.answers`: the latest that are known, by the champion, the latest last"""
    newest: dict[int, int] = field(default_factory=dict)
    """each member's newest trial"""
    finished: dict[int, int] = field(default_factory=dict)
    """each member's newest trial that has finished, and so can play"""
    open: dict[int, Ended] = field(default_factory=dict)
    """members whose newest trial has ended, and of whom it is undecided what comes next"""
    late: set[int] = field(default_factory=set)
    """members that were training when the newest match was called"""
    operators: dict[str, OperatorRecord] = field(default_factory=dict)
    closing: int = 0
    """generations of the closing that have been planned since anybody trained"""
    is_closed: bool = False
    """whether the last of them has been"""

    @property
    def match(self) -> Match | None:
        """Return the match that is being played, or waits; None if there is none."""
        last = self.matches.get(len(self.matches))
        return last if last is not None and not last.is_over else None

    @property
    def untrained(self) -> list[Origin]:
        """Return the planned children of the closing, which the budget's trials don't limit."""
        return [one for one in self.planned if not one.trains]


def key_after(member: int, population: PopulationRecord) -> str:
    """Return the key of a member's next trial: its place and what comes before."""
    return f"{member} after {population.newest.get(member, 'nothing')}"
