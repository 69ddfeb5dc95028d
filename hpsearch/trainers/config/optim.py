"""How the weights of a role are updated: optimizers, schedules, and the numbers that they take."""

from dataclasses import dataclass
from typing import Annotated, Literal

from hpsearch.schema import PER_MEMBER, Range

Rate = Annotated[float, Range(low=0.0, high=1.0), PER_MEMBER]
RateBelowOne = Annotated[float, Range(low=0.0, high=1.0, open_high=True), PER_MEMBER]
PositiveRate = Annotated[float, Range(low=0.0, high=1.0, open_low=True), PER_MEMBER]
PositiveNumber = Annotated[float, Range(low=0.0, open_low=True), PER_MEMBER]
NonNegativeNumber = Annotated[float, Range(low=0.0), PER_MEMBER]
PositiveNumberOrNone = Annotated[float | None, Range(low=0.0, open_low=True), PER_MEMBER]
MemberSteps = Annotated[int, Range(low=1), PER_MEMBER]


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
    """steps times value; the larger, the later the value decays"""


@dataclass(frozen=True)
class TimedSchedule:
    """A straight line, or half a cosine wave, from initial to final."""

    mode: Literal["linear", "cosine"]
    initial: PositiveNumber
    """value at step 0"""
    steps: MemberSteps
    """steps until the final value is reached"""


StepSchedule = ConstantSchedule | ExponentialSchedule | InverseSchedule | TimedSchedule


@dataclass(frozen=True)
class AdamArgs:
    """Arguments of Adam (Kingma and Ba, arXiv 1412.6980, algorithm 1)."""

    lr: PositiveNumber
    """learning rate; the final value of lr_schedule"""
    beta1: RateBelowOne
    """decay of the first moment"""
    beta2: RateBelowOne
    """decay of the second moment"""
    eps: PositiveNumber
    """added to the root of the second moment"""


@dataclass(frozen=True)
class AdamWArgs(AdamArgs):
    """Arguments of AdamW (Loshchilov and Hutter, arXiv 1711.05101, algorithm 2)."""

    weight_decay: NonNegativeNumber
    """share of the weights, times the learning rate, that an update takes away"""


@dataclass(frozen=True)
class SGDArgs:
    """Arguments of gradient descent with momentum, as torch.optim.SGD defines it."""

    lr: PositiveNumber
    """learning rate; the final value of lr_schedule"""
    momentum: RateBelowOne
    """share of the last update that the next one keeps"""
    weight_decay: NonNegativeNumber
    """factor of the weights that is added to the gradient"""


@dataclass(frozen=True)
class AdamOptim:
    """Adam."""

    name: Literal["adam"]
    args: AdamArgs
    lr_schedule: StepSchedule
    """how the learning rate moves to args.lr"""


@dataclass(frozen=True)
class AdamWOptim:
    """Adam with decoupled weight decay."""

    name: Literal["adamw"]
    args: AdamWArgs
    lr_schedule: StepSchedule
    """how the learning rate moves to args.lr"""


@dataclass(frozen=True)
class SGDOptim:
    """Gradient descent with momentum."""

    name: Literal["sgd"]
    args: SGDArgs
    lr_schedule: StepSchedule
    """how the learning rate moves to args.lr"""


Optim = AdamOptim | AdamWOptim | SGDOptim
