"""Safe mutation: noise that moves a player no further than asked for.

Lehman et al., arXiv 1712.06563 (SM-G and SM-R); the proximal mutation of Bodnar et al., arXiv
1906.09807, is its SM-G-SUM. Axes: P members, B positions, I inputs, W weights.
"""

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.checks import check_members, check_shares
from hpsearch.population.operators.children import child, every_member, scratch
from hpsearch.population.operators.divergence import Measure
from hpsearch.population.operators.noise import normal
from hpsearch.population.operators.sensitivity import Gradient, sensitivity
from hpsearch.population.operators.survey import anatomy
from hpsearch.trainers.networks import Network

LEAST_SENSITIVITY = 0.1
"""of the tower's root mean square: what matters less moves as if it mattered so much"""

SMALLEST_LOG2_SCALE = -24.0
"""the first lower end, in root mean squares of the weights; the upper is 0, noise as large as the
weights"""

NUM_HALVINGS = 16
"""of that range: the scale is found to 0.03 %"""


def safe_mutation(
    net: Network,
    features: Tensor,
    *,
    tower: int,
    bound: Tensor,
    measure: Measure,
    gradient: Gradient,
    max_passes: int,
    stream: Stream,
) -> Network:
    """Return children whose ``tower`` differs by as much noise as ``bound`` admits.

    The noise on a weight is divided by how much the weight matters (`sensitivity`). The gradients
    say what is safe to first order only, so the noise is scaled by bisection (the paper's SM-R) on
    what ``measure`` really says: a child is never further from its parent than ``bound``. It may
    stay nearer: noise is never larger than the weights themselves; and where no noise is near
    enough, or the parent has diverged, the child is the parent.

    The other tower and running statistics stay those of the parent.

    Args:
        net: P parents.
        features: float32 (P, B, I), positions that the parents meet.
        tower: which one mutates.
        bound: float32 (P,), of what ``measure`` says of outputs before and after.
        measure: from `divergence`.
        gradient: "sum" or "abs", see `sensitivity`.
        max_passes: see `sensitivity`.
        stream: one row a member.

    Raises:
        ValueError: if something is not of P members, or there is no such tower.
    """
    check_shares(net, bound=bound)
    check_members(net, features=features, stream=stream)
    if not 0 <= tower < len(net.towers):
        raise ValueError(f"tower must be in 0..{len(net.towers) - 1}, got {tower}")
    matters = sensitivity(
        net, features, tower=tower, gradient=gradient, max_passes=max_passes, stream=stream
    )
    own = anatomy(net).columns(tower)
    noise = torch.zeros_like(net.weights)
    noise[:, own] = normal(stream, own.stop - own.start) / _floored(matters[:, own])
    noise *= _size(net.weights[:, own]) / _size(noise[:, own])
    scale = _largest_scale(net, features, tower=tower, noise=noise, bound=bound, measure=measure)
    return child(net, net.weights + scale[:, None] * noise, net.statistics)


@torch.no_grad()
def _largest_scale(
    net: Network, features: Tensor, *, tower: int, noise: Tensor, bound: Tensor, measure: Measure
) -> Tensor:
    """Return the largest scale (P,) found at which the measure keeps to the bound, else 0."""
    before, tried = net(features, tower=tower), scratch(net, every_member(net))
    low, high = torch.full_like(bound, SMALLEST_LOG2_SCALE), torch.zeros_like(bound)
    found = torch.zeros_like(bound)
    for _ in range(NUM_HALVINGS):
        middle = (low + high) / 2
        scale = middle.exp2()
        tried.weights.copy_(net.weights + scale[:, None] * noise)
        is_safe = measure(before, tried(features, tower=tower)) <= bound
        found = torch.where(is_safe, scale, found)
        low, high = torch.where(is_safe, middle, low), torch.where(is_safe, high, middle)
    return found


def _floored(matters: Tensor) -> Tensor:
    """Return sensitivities in units of their root mean square, no longer near 0."""
    size = _size(matters)
    # Outputs that no weight moves, as of a member that has died, leave all weights alike.
    return torch.where(size > 0, matters / size, 1.0).clamp(min=LEAST_SENSITIVITY)


def _size(rows: Tensor) -> Tensor:
    """Return the root mean square of each row, (P, 1)."""
    return rows.square().mean(dim=1, keepdim=True).sqrt()
