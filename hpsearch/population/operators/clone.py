"""Copies: children that are what their parents are.

The exploit step of population based training (Jaderberg et al., arXiv 1711.09846).
"""

from collections.abc import Mapping
from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.philox import Stream
from hpsearch.trainers.networks import Network


def clone(net: Network) -> Network:
    """Return a copy of all members, which shares no memory with ``net``."""
    return clone_members(net, every_member(net))


def clone_members(net: Network, members: Tensor) -> Network:
    """Return copies of the members int64 (Q,), each as often as it stands there.

    Raises:
        ValueError: if there is no such member.
    """
    num_members = net.weights.shape[0]
    if ((members < 0) | (members >= num_members)).any():
        raise ValueError(f"members must be in 0..{num_members - 1}, got {members.tolist()}")
    return child(net, net.weights[members], net.statistics[members])


def child(net: Network, weights: Tensor, statistics: Tensor) -> Network:
    """Return a network of the structure of ``net`` with ``weights`` (Q, W), ``statistics`` (Q, S).

    Both are copied.
    """
    other = net.like(weights.shape[0])
    other.weights.copy_(weights)
    other.statistics.copy_(statistics)
    return other


def scratch(net: Network, members: Tensor) -> Network:
    """Return copies of the members int64 (Q,) to compute with and throw away.

    Never compiled, because each network of its own shape would be a case of the one function that
    torch compiles, and drawn at no cost, because its first weights are written over.
    """
    towers = [replace(tower, init="uniform") for tower in net.towers]
    keys = torch.zeros_like(members)
    other = Network(net.inputs, towers, replace(net.arithmetic, compile="off"), Stream(keys, keys))
    other.weights.copy_(net.weights[members])
    other.statistics.copy_(net.statistics[members])
    return other


def every_member(net: Network) -> Tensor:
    """Return 0, 1, ..., int64 (P,)."""
    return torch.arange(net.weights.shape[0], device=net.weights.device)


def pair(host_of: Mapping[str, Network], agent_of: Mapping[str, Network]) -> dict[str, Network]:
    """Return copies of the host of one parent and of the agent of the other.

    Either parent may lack the role that is not taken from it; a child of two parents needs no
    common structure.

    Raises:
        ValueError: if a parent lacks the role that is to be taken from it.
    """
    found = {}
    for role, parent in (("host", host_of), ("agent", agent_of)):
        if role not in parent:
            raise ValueError(f"the {role}'s parent must have learned the {role}, got {[*parent]}")
        found[role] = clone(parent[role])
    return found
