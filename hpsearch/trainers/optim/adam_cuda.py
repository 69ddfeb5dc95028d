"""Adam on a GPU: one launch. See `adam_reference.adam`; triton is imported by the first call."""

from functools import cache
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from hpsearch.trainers.optim.reference import Averages, Hyperparameters, TargetWeights, Update

BLOCK: Final = 1024
"""weights of a program"""


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    hyperparameters: Hyperparameters,
    target: TargetWeights | None,
) -> None:
    """Make an update that has been counted already; see `adam_reference.adam`."""
    num_members, num_weights = weights.shape
    # Without a target network any bank does: the program does not look at it.
    followed = target or TargetWeights(weights, update.lr)
    grid = (num_members, -(-num_weights // BLOCK))
    with torch.cuda.device_of(weights):
        _programs().update[grid](
            weights,
            *update,
            *averages,
            *hyperparameters,
            *followed,
            num_weights,
            HAS_TARGET=target is not None,
            BLOCK=BLOCK,
        )


@cache
def _programs() -> ModuleType:
    from hpsearch.trainers.optim import adam_program

    return adam_program
