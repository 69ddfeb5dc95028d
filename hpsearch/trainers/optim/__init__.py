"""Optimizers over a bank of weights: every member with its own numbers, one pass for all.

Axes: P members, W weights of one member. Members that are not active keep their weights and
averages.
"""

from collections.abc import Sequence

from torch import Tensor

from hpsearch.trainers.config.optim import AdamArgs, Optim, SGDArgs
from hpsearch.trainers.optim.adam import SGD, Adam
from hpsearch.trainers.optim.reference import Optimizer, TargetWeights, Update, clipping

__all__ = ["SGD", "Adam", "Optimizer", "TargetWeights", "Update", "build_optimizer", "clipping"]


def build_optimizer(weights: Tensor, optims: Sequence[Optim]) -> Optimizer:
    """Return a fresh optimizer of ``weights`` (P, W), one configuration of one kind a member."""
    args = [optim.args for optim in optims]
    adam = [arg for arg in args if isinstance(arg, AdamArgs)]
    if adam:
        return Adam(weights, adam)
    return SGD(weights, [arg for arg in args if isinstance(arg, SGDArgs)])
