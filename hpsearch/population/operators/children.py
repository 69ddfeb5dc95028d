"""Networks made from others: children of given weights, and copies to compute with."""

from dataclasses import replace

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.trainers.networks import Network


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
