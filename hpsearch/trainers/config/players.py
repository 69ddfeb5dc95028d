"""Players as configurations say them: learning, scripted, saved, earlier or several."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Final, Literal, TypeVar, get_args

from hpsearch.extensions import Kind, PartName, installed
from hpsearch.schema import Positive, Range
from hpsearch.trainers.config.net_arch import MAX_LAYERS
from hpsearch.trainers.config.optim import NonNegativeNumber, PositiveNumber

T = TypeVar("T")
Role = Literal["host", "agent"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
OTHER: Final[dict[str, Role]] = {"host": "agent", "agent": "host"}
LEARNER: Final = "learner"
"""the other learning role, in a list of opponents"""
HOST_NAMES: Final = ("random", "random_pair", "all_coord", "zeillinger")
AGENT_NAMES: Final = ("random", "choose_first", "choose_last")
_PLAYERS: Final = (*AGENT_NAMES, *HOST_NAMES[1:])
_OF_PACKAGES: Final[tuple[Kind, ...]] = ("agents", "hosts")
HostName = Annotated[str, PartName(HOST_NAMES, ("hosts",))]
AgentName = Annotated[str, PartName(AGENT_NAMES, ("agents",))]
OpponentName = Annotated[str, PartName(_PLAYERS, _OF_PACKAGES)]
ListedName = Annotated[str, PartName((*_PLAYERS, LEARNER), _OF_PACKAGES)]
Activation = Literal["relu", "tanh"]


@dataclass(frozen=True)
class ScriptedHost:
    """A host that follows a rule instead of learning."""

    player: HostName
    """the rule"""


@dataclass(frozen=True)
class ScriptedAgent:
    """An agent that follows a rule instead of learning."""

    player: AgentName
    """the rule"""


@dataclass(frozen=True)
class SavedPlayerConfig:
    """A player that learned before: the role's networks in a checkpoint, unchanging."""

    checkpoint: str
    """path of a checkpoint's folder, from the folder that the command is given in"""


@dataclass(frozen=True)
class FlattenEncoder:
    """The first points in canonical order, coordinate after coordinate; padding is -1."""

    name: Literal["flatten"]
    num_points: Positive
    """points that the network sees; further ones, lexicographically smaller, are left out"""


@dataclass(frozen=True)
class DeepSetsEncoder:
    """The pooled features of every live point (Zaheer et al., arXiv 1703.06114, theorem 2)."""

    name: Literal["deep_sets"]
    widths: tuple[Positive, ...]
    """of the layers that every point passes through"""
    pool: Literal["max", "mean", "sum"]
    """how the features of the points become one"""


@dataclass(frozen=True)
class AttentionEncoder:
    """Live points that attend to each other (Lee et al., arXiv 1810.00825), then their mean."""

    name: Literal["attention"]
    width: Positive
    """of every point's features"""
    heads: Positive
    """of each attention; divides width"""
    blocks: Annotated[int, Range(low=1, high=MAX_LAYERS)]
    """of attention and a hidden layer"""

    def check(self) -> Iterator[str]:
        if self.width % self.heads:
            yield f"heads must divide width={self.width}, but is {self.heads}"


@dataclass(frozen=True)
class EncoderExtension(ABC):
    """An encoder of another package: what options of its own derive from, with a ``name``.

    It has no weights: what is learned belongs to the layers after it.
    """

    KIND: ClassVar[Kind] = "encoders"
    name: str

    @abstractmethod
    def num_features(self, num_points: int, dimension: int) -> int:
        """Return how many features, F, it makes of N points of D coordinates."""

    @abstractmethod
    def features(self, points: Any) -> Any:
        """Return a tensor float32 (P, B, F) of points float32 (P, B, N, D) in canonical order.

        Coordinates are divided by the game's largest one; rows of -1 are padding.
        """


Encoder = FlattenEncoder | DeepSetsEncoder | AttentionEncoder | EncoderExtension


def is_scripted(name: str, role: Role) -> bool:
    """Return whether a scripted player of this name plays a role; packages are asked last."""
    if name in _PLAYERS:
        return name in (HOST_NAMES if role == "host" else AGENT_NAMES)
    return name in installed("hosts" if role == "host" else "agents")


def host_first(role: str, own: T, other: T) -> tuple[T, T]:
    """Return what belongs to the host, then what belongs to the agent; ``own`` is ``role``'s."""
    return (own, other) if role == "host" else (other, own)


Weight = Annotated[float, Range(low=0.0, open_low=True)]


@dataclass(frozen=True)
class UniformChoice:
    """Every snapshot alike."""

    mode: Literal["uniform"]


@dataclass(frozen=True)
class PrioritisedChoice:
    """Snapshots that are hard to beat more often."""

    mode: Literal["prioritised"]
    power: NonNegativeNumber
    """of the result by which a snapshot is weighed; 0 is uniform"""


@dataclass(frozen=True)
class FixedSync:
    """A snapshot at regular steps."""

    mode: Literal["fixed"]
    interval: Positive
    """steps between two snapshots"""


@dataclass(frozen=True)
class DynamicSync:
    """A snapshot whenever the role has become better."""

    mode: Literal["dynamic"]
    interval: Positive
    """steps between two looks at the results"""
    margin: PositiveNumber
    """share by which rho in the training games must have improved since the last snapshot"""


@dataclass(frozen=True)
class OpponentPool:
    """Snapshots of each role that the other one trains against."""

    size: Annotated[int, Range(low=1)]
    """snapshots kept of each role, K"""
    at_once: Positive
    """snapshots met at the same time, each in an equal share of the games, S"""
    choice: UniformChoice | PrioritisedChoice
    """which snapshots are met"""
    sync: FixedSync | DynamicSync
    """when snapshots are taken"""
    max_staleness: Positive
    """steps after which a snapshot is not met any more; at the latest then a new one is taken"""

    def check(self) -> Iterator[str]:
        least, steps = self.sync.interval, self.max_staleness
        if steps < least:
            yield f"max_staleness must be at least sync.interval={least}, but is {steps}"


@dataclass(frozen=True)
class ListedPlayer:
    """A player that follows a rule, or the other learning role as it is."""

    player: ListedName
    """the rule; or learner: the other role, which learns too"""
    weight: Weight
    """how often a game is played against it, beside the weights of the others"""


@dataclass(frozen=True)
class ListedCheckpoint:
    """A player that learned before, unchanging; both of a pair where both roles learn."""

    checkpoint: str
    """path of a checkpoint's folder, from the folder that the command is given in"""
    weight: Weight
    """how often a game is played against it, beside the weights of the others"""


@dataclass(frozen=True)
class ListedSnapshots:
    """The other learning role as it was."""

    snapshots: OpponentPool
    """which of its snapshots are kept and met"""
    weight: Weight
    """how often a game is played against one of them, beside the weights of the others"""


ListedOpponent = ListedPlayer | ListedCheckpoint | ListedSnapshots
