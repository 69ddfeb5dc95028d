"""Where players are measured."""

from typing import Final

import torch

GPU: Final = "cuda"


def device_of(name: str) -> torch.device:
    """Return where players that learned on a device play: there, if this machine has it."""
    return torch.device(GPU if name == GPU and torch.cuda.is_available() else "cpu")
