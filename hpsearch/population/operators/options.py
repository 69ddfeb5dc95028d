"""What operators are told, as a study file and a trial's lineage hold it; needs no torch."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from hpsearch.extensions import Kind
from hpsearch.schema import Positive, Range

# Unlike those of trainers/config/optim.py not PER_MEMBER: all children of a call learn alike.
PositiveNumber = Annotated[float, Range(low=0.0, open_low=True)]
NonNegativeNumber = Annotated[float, Range(low=0.0)]
RateBelowOne = Annotated[float, Range(low=0.0, high=1.0, open_high=True)]


@dataclass(frozen=True)
class Distillation:
    """How a child learns from its parents' play."""

    num_steps: Positive
    """updates by Adam"""
    batch_size: Positive
    """positions of an update, drawn with replacement"""
    lr: PositiveNumber
    """learning rate of Adam"""
    beta1: RateBelowOne
    """decay of Adam's first moment"""
    beta2: RateBelowOne
    """decay of Adam's second moment"""
    eps: PositiveNumber
    """added to the root of Adam's second moment"""
    temperature: PositiveNumber
    """of the policy that Q-values stand for, in their own unit; the smaller, the greedier"""
    value_weight: NonNegativeNumber
    """of the squared error of the value, beside the cross-entropy of the policy"""
    compare: Literal["mean", "raw", "standardised"]
    """what a child learns at a position: mean: the mean of both parents; raw: the opinion of the
    parent with the higher value there; standardised: the same, with each parent's values in
    standard deviations from their mean, for parents with different rewards or discounts"""


@dataclass(frozen=True)
class Clone:
    """A copy."""

    name: Literal["clone"] = "clone"


@dataclass(frozen=True)
class HostAndAgent:
    """The host of the first parent and the agent of the second."""

    name: Literal["host_and_agent"] = "host_and_agent"


@dataclass(frozen=True)
class GaussianMutation:
    """Normal noise on all weights."""

    name: Literal["gaussian_mutation"]
    strength: PositiveNumber
    """standard deviation, in root mean squares of each layer's own weights"""


@dataclass(frozen=True)
class SafeMutation:
    """As much noise as leaves most moves what they are."""

    name: Literal["safe_mutation"]
    bound: RateBelowOne
    """share of moves that may become others"""


@dataclass(frozen=True)
class LayerCrossover:
    """Every layer, whole, from one of two parents."""

    name: Literal["layer_crossover"]
    share: RateBelowOne
    """chance that a layer comes from the first"""


@dataclass(frozen=True)
class UnitCrossover:
    """Every unit from one of two parents, the second aligned with the first before."""

    name: Literal["unit_crossover"]
    share: RateBelowOne
    """chance that a unit comes from the first"""


@dataclass(frozen=True)
class AlignedAverage:
    """The mean of two parents, the second aligned with the first before."""

    name: Literal["aligned_average"]
    share: RateBelowOne
    """of the first"""


@dataclass(frozen=True)
class DistillationCrossover:
    """A copy of the first that has learned from the play of both parents."""

    name: Literal["distillation"]
    learning: Distillation


@dataclass(frozen=True)
class Grow:
    """A copy of which one role has larger networks that play the same."""

    name: Literal["grow"]
    noise: NonNegativeNumber
    """standard deviation of what is added to the weights of new units and linear layers, as a share
    of the root mean square of their layer's; with 0, copies of a unit stay equal for ever"""


@dataclass(frozen=True)
class MutationExtension(ABC):
    """A mutation of another package: what options of its own derive from, with a ``name``."""

    KIND: ClassVar[Kind] = "mutations"
    name: str

    @abstractmethod
    def child(self, parent: Any, stream: Any) -> Any:
        """Return a `Network` of the parent's structure, P = 1, by a `Stream` of random numbers.

        It depends on nothing but the arguments.
        """


@dataclass(frozen=True)
class CrossoverExtension(ABC):
    """A crossover of another package: what options of its own derive from, with a ``name``."""

    KIND: ClassVar[Kind] = "crossovers"
    name: str

    @abstractmethod
    def child(self, first: Any, second: Any, stream: Any) -> Any:
        """Return a `Network` of the structure that both have, P = 1, by a `Stream`.

        It depends on nothing but the arguments.
        """


MixingWeights = LayerCrossover | UnitCrossover | AlignedAverage | CrossoverExtension
"""operators of two parents of one structure, the second of the first's family where there is one"""

TwoParents = HostAndAgent | MixingWeights | DistillationCrossover

Changing = (
    HostAndAgent
    | GaussianMutation
    | SafeMutation
    | MutationExtension
    | MixingWeights
    | DistillationCrossover
)
"""operators whose child plays otherwise than its first parent, in the same shape"""

SameShape = Clone | Changing
"""operators whose child has its first parent's shape"""

OperatorOptions = SameShape | Grow
