"""The game's operators on whole batches, once for each kind of device.

`reference` is `hpsearch.game.rules` itself, in torch, on any device. The others are faster and
equal it bit for bit; tests/contract/test_kernels.py holds every name in `BACKENDS` to that.
"""

from typing import Final

import torch

from hpsearch.game.kernels import cpu, reference
from hpsearch.game.kernels.interface import Backend, GameState, Step

__all__ = ["BACKENDS", "Backend", "GameState", "Step", "default_backend"]

BACKENDS: Final[dict[str, Backend]] = {"reference": reference, "cpu": cpu}


def default_backend(device: torch.device) -> str:
    """Name the fastest backend for tensors on ``device``."""
    return "cpu" if device.type == "cpu" else "reference"
