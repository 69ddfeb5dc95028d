"""Players that do not learn, and the networks of those that do."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from hpsearch.schema import Positive
from hpsearch.trainers import net_arch

Role = Literal["host", "agent"]
ROLES: Final[tuple[Role, ...]] = get_args(Role)
HostName = Literal["random", "random_pair", "all_coord", "zeillinger"]
AgentName = Literal["random", "choose_first", "choose_last"]
OpponentName = Literal[
    "random", "choose_first", "choose_last", "random_pair", "all_coord", "zeillinger"
]
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
class SavedPlayer:
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
    blocks: Positive
    """of attention and a hidden layer"""

    def check(self) -> Iterator[str]:
        """Yield what disagrees between the fields."""
        if self.width % self.heads:
            yield f"heads must divide width={self.width}, but is {self.heads}"


Encoder = FlattenEncoder | DeepSetsEncoder | AttentionEncoder


@dataclass(frozen=True)
class NetworkFields:
    """What every learning role says of its network."""

    encoder: Encoder
    """how points become features"""
    net_arch: tuple[Any, ...]
    """hidden layers: N of width N; norms b, l; residual blocks rN, rlN; or {repeat, net_arch}"""
    activation: Activation
    """after every layer of the encoder and the hidden layers"""

    def check(self) -> Iterator[str]:
        """Yield what is wrong with the network."""
        yield from net_arch_faults("net_arch", self.net_arch)


def net_arch_faults(key: str, items: tuple[Any, ...]) -> Iterator[str]:
    """Yield why ``items`` are no net_arch."""
    try:
        net_arch.parse(items)
    except ValueError as error:
        yield f"{key} is not of the grammar: {error}"
