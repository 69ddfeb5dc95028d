"""What operators with many numbers are told; needs no torch."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hpsearch.schema import Positive, Range

# Unlike those of trainers/config/numbers.py not PER_MEMBER: all children of a call learn alike.
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
    compare: Literal["raw", "standardised"]
    """values of the parents as they are, for parents of one reward and discount; else in standard
    deviations from each parent's mean"""
