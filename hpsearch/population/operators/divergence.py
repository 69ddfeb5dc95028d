"""How differently two networks play the same positions.

A measure takes outputs before and after, float32 (P, B, A), and returns a number a member, float32
(P,), 0 where nothing changed. Axes: P members, B positions, A actions.
"""

from collections.abc import Callable

from torch import Tensor

from hpsearch.trainers.policies import legal_values, softmax

Measure = Callable[[Tensor, Tensor], Tensor]


def policy_change(legal: Tensor) -> Measure:
    """Return the measure of players who draw by probabilities.

    The mean over positions of the total variation between the two: the share of moves that would
    be others. ``legal`` is bool (P, B, A).
    """

    def measure(before: Tensor, after: Tensor) -> Tensor:
        change = softmax(after, legal) - softmax(before, legal)
        return 0.5 * change.abs().sum(dim=2).mean(dim=1)

    return measure


def greedy_change(legal: Tensor) -> Measure:
    """Return the measure of players who play what they value highest.

    The share of positions where that is another action. ``legal`` is bool (P, B, A).
    """

    def measure(before: Tensor, after: Tensor) -> Tensor:
        best, new = (legal_values(one, legal).argmax(dim=2) for one in (before, after))
        return (best != new).float().mean(dim=1)

    return measure


def output_change(legal: Tensor) -> Measure:
    """Return the root mean square change of the outputs at ``legal`` bool (P, B, A)."""

    def measure(before: Tensor, after: Tensor) -> Tensor:
        squares = (after - before).square().where(legal, 0.0)
        return (squares.sum(dim=(1, 2)) / legal.sum(dim=(1, 2))).sqrt()

    return measure


def relative_change(legal: Tensor) -> Measure:
    """Return the measure `output_change` in standard deviations of the outputs before.

    For values, whose unit depends on rewards and discount.
    """
    change = output_change(legal)

    def measure(before: Tensor, after: Tensor) -> Tensor:
        mean = before.where(legal, 0.0).sum(dim=(1, 2)) / legal.sum(dim=(1, 2))
        return change(before, after) / change(mean[:, None, None].expand_as(before), before)

    return measure
