"""Numbers of the members of a population as tensors."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor


def column(numbers: Sequence[float], device: torch.device) -> Tensor:
    """Return one number a member, float32 (P,)."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors under the names ``prefix.name``."""
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}
