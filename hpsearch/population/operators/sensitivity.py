"""How much each weight matters for what a network puts out.

Lehman, Chen, Clune, Stanley, Safe mutations for deep and recurrent neural networks through output
gradients, arXiv 1712.06563 (SM-G). Axes: P members, B positions, I inputs, O outputs,
W weights of one member, K backward passes.
"""

from math import sqrt
from typing import Literal

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.children import every_member, scratch
from hpsearch.population.operators.noise import signs
from hpsearch.trainers.networks import Network

Gradient = Literal["sum", "abs"]


def sensitivity(
    net: Network,
    features: Tensor,
    *,
    tower: int,
    gradient: Gradient,
    max_passes: int,
    stream: Stream,
) -> Tensor:
    """Return how far the outputs move with each weight, float32 (P, W).

    The root of the sum, over outputs, of the squared mean derivative over positions ("sum", the
    paper's SM-G-SUM) or of the squared mean of its absolute value ("abs", SM-G-ABS, which does not
    let positions cancel and takes the memory of B networks). Weights of other towers get 0.

    Args:
        net: P members.
        features: float32 (P, B, I).
        tower: whose outputs.
        gradient: "sum" or "abs".
        max_passes: if there are more outputs, so many sums of them with random signs stand for
            all. The expected square of such a sum is the sum of squares, so "sum" is estimated
            without bias; "abs" then is of the sums.
        stream: one row a member, for the signs.
    """
    sums = _sums(net.towers[tower].num_outputs, max_passes, stream)
    if gradient == "sum":
        return _of_mean(scratch(net, every_member(net)), features, tower=tower, sums=sums)
    rows = zip(every_member(net), features, sums, strict=True)
    return torch.stack([_by_position(net, p, x, tower=tower, sums=of) for p, x, of in rows])


def _of_mean(net: Network, features: Tensor, *, tower: int, sums: Tensor) -> Tensor:
    """Return the root of the sum of the squared derivatives of outputs' means, (P, W)."""
    squares = torch.zeros_like(net.weights)
    for of in sums.unbind(1):
        out = net(features, tower=tower).mean(dim=1)
        squares += net.gradients((out * of).sum()).square()
    return squares.sqrt()


def _by_position(net: Network, member: Tensor, x: Tensor, *, tower: int, sums: Tensor) -> Tensor:
    """Return the same of one member (W,), with the mean of the derivatives' absolute values.

    ``x`` is (B, I), ``sums`` (K, O).
    """
    # Positions as members: each has a gradient of its own.
    bank = scratch(net, member.expand(len(x)))
    squares = torch.zeros_like(net.weights[0])
    for of in sums:
        out = bank(x[:, None], tower=tower)[:, 0]
        squares += bank.gradients((out * of).sum()).abs().mean(dim=0).square()
    return squares.sqrt()


def _sums(num_outputs: int, max_passes: int, stream: Stream) -> Tensor:
    """Return which sums of outputs to derive, (P, K, O): each alone, or with random signs."""
    num_members = stream.keys.shape[0]
    if num_outputs <= max_passes:
        each = torch.eye(num_outputs, device=stream.keys.device)
        return each.expand(num_members, -1, -1)
    drawn = signs(stream, max_passes * num_outputs)
    found: Tensor = drawn.unflatten(1, (max_passes, num_outputs)) / sqrt(max_passes)
    return found
