"""The game's operators on whole batches, once for each kind of device.

`reference` is `hpsearch.game.rules` itself, in torch, on any device. The others are faster and
equal it bit for bit; tests/contract/test_kernels.py holds every name in `BACKENDS` to that.
"""

from functools import cache
from importlib.util import find_spec
from typing import Final

import torch

from hpsearch.game.kernels import cpu, cuda, reference
from hpsearch.game.kernels.interface import Backend, GameState, Step

__all__ = ["BACKENDS", "Backend", "GameState", "Step", "default_backend"]

BACKENDS: Final[dict[str, Backend]] = {"reference": reference, "cpu": cpu, "cuda": cuda}


def default_backend(device: torch.device) -> str:
    """Name the fastest backend for tensors on ``device`` that is installed."""
    if device.type == "cpu":
        return "cpu"
    return "cuda" if device.type == "cuda" and _has_triton() else "reference"


@cache
def _has_triton() -> bool:
    return find_spec("triton") is not None
