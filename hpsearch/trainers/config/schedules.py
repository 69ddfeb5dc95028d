"""Numbers that change with the training step."""

from dataclasses import dataclass
from typing import Literal

from hpsearch.trainers.config.numbers import MemberSteps, PositiveNumber, PositiveRate


@dataclass(frozen=True)
class ConstantSchedule:
    """The final value, always."""

    mode: Literal["constant"]


@dataclass(frozen=True)
class ExponentialSchedule:
    """initial * rate^t + final * (1 - rate^t) at step t."""

    mode: Literal["exponential"]
    initial: PositiveNumber
    """value at step 0"""
    rate: PositiveRate
    """factor a step by which the distance to the final value shrinks"""


@dataclass(frozen=True)
class InverseSchedule:
    """rate / (t + rate / initial) at step t; tends to 0, whatever the final value."""

    mode: Literal["inverse"]
    initial: PositiveNumber
    """value at step 0"""
    rate: PositiveNumber
    """steps times value: larger decays later"""


@dataclass(frozen=True)
class LinearSchedule:
    """A straight line from initial to final."""

    mode: Literal["linear"]
    initial: PositiveNumber
    """value at step 0"""
    steps: MemberSteps
    """steps until the final value is reached"""


@dataclass(frozen=True)
class CosineSchedule:
    """Half a cosine wave from initial to final."""

    mode: Literal["cosine"]
    initial: PositiveNumber
    """value at step 0"""
    steps: MemberSteps
    """steps until the final value is reached"""


Schedule = (
    ConstantSchedule | ExponentialSchedule | InverseSchedule | LinearSchedule | CosineSchedule
)
