"""How the weights of a role move."""

from dataclasses import dataclass
from typing import Literal

from hpsearch.trainers.config.numbers import NonNegativeNumber, PositiveNumber, RateBelowOne
from hpsearch.trainers.config.schedules import Schedule


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
    lr_schedule: Schedule
    """how the learning rate moves to args.lr"""


@dataclass(frozen=True)
class AdamWOptim:
    """Adam with decoupled weight decay."""

    name: Literal["adamw"]
    args: AdamWArgs
    lr_schedule: Schedule
    """how the learning rate moves to args.lr"""


@dataclass(frozen=True)
class SGDOptim:
    """Gradient descent with momentum."""

    name: Literal["sgd"]
    args: SGDArgs
    lr_schedule: Schedule
    """how the learning rate moves to args.lr"""


Optim = AdamOptim | AdamWOptim | SGDOptim
