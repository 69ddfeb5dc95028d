"""Adam on a GPU: one launch. See `adam_formula.formula`; triton is imported by the first call."""

from functools import cache
from types import ModuleType
from typing import Final

import torch
from torch import Tensor

from hpsearch.trainers.optim.adam_formula import Averages, Numbers
from hpsearch.trainers.optim.interface import Follower, Update

BLOCK: Final = 1024
"""weights of a program"""


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    numbers: Numbers,
    follower: Follower | None,
) -> None:
    """Make an update that has been counted already; see `adam_formula.formula`."""
    num_members, num_weights = weights.shape
    # Without a follower any bank does: the program does not look at it.
    behind = follower or Follower(weights, update.lr)
    grid = (num_members, -(-num_weights // BLOCK))
    with torch.cuda.device_of(weights):
        _programs().move[grid](
            weights,
            *update,
            *averages,
            *numbers,
            *behind,
            num_weights,
            FOLLOWED=follower is not None,
            BLOCK=BLOCK,
        )


@cache
def _programs() -> ModuleType:
    from hpsearch.trainers.optim import adam_program

    return adam_program
