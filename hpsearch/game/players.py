"""Scripted hosts and agents for whole batches.

A host is a function of (points int32 (..., N, D), noise float32 (...)) to action indices int64
(...); an agent of (points, subset bool (..., D), noise) to axes int64 (...). Noise is uniform in
[0, 1); it is all the randomness that a player has.
"""

from collections.abc import Callable
from functools import cache
from typing import Final

import torch
from torch import Tensor

from hpsearch.extensions import Parts
from hpsearch.game.kernels import BACKENDS, default_backend
from hpsearch.game.rules import HostActionEncoder, subset_bits

HostPlayer = Callable[[Tensor, Tensor], Tensor]
AgentPlayer = Callable[[Tensor, Tensor, Tensor], Tensor]


def random_host(points: Tensor, noise: Tensor) -> Tensor:
    return _uniform_below(HostActionEncoder(points.shape[-1]).num_actions, noise)


def random_pair_host(points: Tensor, noise: Tensor) -> Tensor:
    pairs = _pair_actions(points.shape[-1], points.device)
    return pairs[_uniform_below(len(pairs), noise)]


def all_coord_host(points: Tensor, noise: Tensor) -> Tensor:
    last = HostActionEncoder(points.shape[-1]).num_actions - 1
    return torch.full(points.shape[:-2], last, dtype=torch.int64, device=points.device)


def zeillinger_host(points: Tensor, noise: Tensor) -> Tensor:
    return BACKENDS[default_backend(points.device)].zeillinger(points)


def random_agent(points: Tensor, subset: Tensor, noise: Tensor) -> Tensor:
    rank = _uniform_below(subset.sum(-1), noise)
    return _first(subset.cumsum(-1) > rank.unsqueeze(-1))


def choose_first_agent(points: Tensor, subset: Tensor, noise: Tensor) -> Tensor:
    return _first(subset)


def choose_last_agent(points: Tensor, subset: Tensor, noise: Tensor) -> Tensor:
    return subset.shape[-1] - 1 - _first(subset.flip(-1))


HOSTS: Final[Parts[HostPlayer]] = Parts(
    "hosts",
    {
        "random": random_host,
        "random_pair": random_pair_host,
        "all_coord": all_coord_host,
        "zeillinger": zeillinger_host,
    },
)

AGENTS: Final[Parts[AgentPlayer]] = Parts(
    "agents",
    {"random": random_agent, "choose_first": choose_first_agent, "choose_last": choose_last_agent},
)


def host_player(name: str) -> HostPlayer:
    """Return the host of that name; a ValueError lists the names there are."""
    if name not in HOSTS:
        raise ValueError(f"a scripted host must be one of {sorted(HOSTS)}, got {name!r}")
    return HOSTS[name]


def agent_player(name: str) -> AgentPlayer:
    """Return the agent of that name; a ValueError lists the names there are."""
    if name not in AGENTS:
        raise ValueError(f"a scripted agent must be one of {sorted(AGENTS)}, got {name!r}")
    return AGENTS[name]


def _uniform_below(bound: int | Tensor, noise: Tensor) -> Tensor:
    """Return uniform integers in 0..bound-1, int64 (...)."""
    # In float64 the product of a float32 and a small integer is exact, hence less than the bound.
    return (noise.double() * bound).long()


def _first(chosen: Tensor) -> Tensor:
    """Return the lowest chosen coordinate: bool (..., D) to int64 (...)."""
    return chosen.view(torch.uint8).argmax(-1)  # the first of equals; bool has one byte, too


@cache
def _pair_actions(dimension: int, device: torch.device) -> Tensor:
    actions = [a for a, bits in enumerate(subset_bits(dimension)) if bits.bit_count() == 2]
    return torch.tensor(actions, device=device)
