"""Numbers and random streams of the members of a population, one row a member."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from hpsearch.game.random import derive_key
from hpsearch.game.stream import Stream


def column(numbers: Sequence[float], device: torch.device) -> Tensor:
    """Return one number a member, float32 (P,)."""
    return torch.tensor(numbers, dtype=torch.float32, device=device)


def prefixed(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def rows_of(tensor: Tensor, places: Tensor) -> Tensor:
    """Return the rows of each member at ``places`` (P, A) of ``tensor`` (P, G, ...)."""
    if tensor.ndim == 2:
        return tensor.gather(1, places)
    if len(tensor) == 1:
        return tensor[0].index_select(0, places[0])[None]
    members = torch.arange(len(places), device=places.device)[:, None]
    # One copy a row, where gather takes one a number.
    flat = (places + members * tensor.shape[1]).flatten()
    rows: Tensor = tensor.flatten(0, 1).index_select(0, flat).unflatten(0, places.shape)
    return rows


def member_stream(seeds: Sequence[int], device: torch.device, *purpose: str) -> Stream:
    """Return the random stream that each member's seed gives for one purpose."""
    return Stream(torch.tensor([derive_key(seed, *purpose) for seed in seeds], device=device))
