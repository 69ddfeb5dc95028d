"""Numbers of the members of a population as tensors."""

from collections.abc import Sequence

import torch
from torch import Tensor


def column(numbers: Sequence[float], device: torch.device) -> Tensor:
    """Return one number a member, float32 (P,)."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)
