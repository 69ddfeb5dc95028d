"""How a learned player chooses on a CPU, and how likely that was, in one loop over its games.

policies.py has the formulas.

Axes: P members, B games, A actions.
"""

import math
from typing import Final

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Doubles, Floats, Int64s, scalar
from hpsearch.trainers.config.common import PlaysBy

LOWEST: Final = float(np.finfo(np.float32).min)


def chosen(
    plays_by: PlaysBy, values: Tensor, legal: Tensor, noise: Tensor, exploration: Tensor
) -> tuple[Tensor, Tensor]:
    actions = np.empty(values.shape[:2], np.int64)
    log_probs = np.zeros(actions.shape, np.float32)
    tensors = (values.detach(), legal, noise, exploration)
    *given, rates = (each.contiguous().numpy() for each in tensors)
    rates = np.atleast_2d(rates)
    assert all(size in (1, full) for size, full in zip(rates.shape, actions.shape, strict=True))
    _choose(plays_by == "probabilities", *[*given, rates, actions, log_probs])
    return torch.from_numpy(actions), torch.from_numpy(log_probs)


@scalar  # a thread more would take longer to compile than it saves
def _choose(
    by_probabilities: bool,
    values: Floats,
    legal: Bools,
    noise: Floats,
    rates: Floats,
    actions: Int64s,
    log_probs: Floats,
) -> None:
    """Fill ``actions``, and by probabilities ``log_probs``.

    ``rates`` of exploration are (P, B), or have one row or one column for all.
    """
    num_members, num_games = actions.shape
    last_row, last_column = rates.shape[0] - 1, rates.shape[1] - 1
    weights = np.empty(values.shape[2])
    best, total = 0.0, math.nan  # all legal actions alike often, where roles play by values
    for p in range(num_members):
        for b in range(num_games):
            if by_probabilities:
                best, total = exponentials(values[p, b], legal[p, b], weights)
            if noise[p, b, 0] < rates[min(p, last_row), min(b, last_column)]:
                action = _drawn(legal[p, b], weights, total, noise[p, b, 1])
            else:
                action = best_legal(values[p, b], legal[p, b])
            if by_probabilities:
                log_probs[p, b] = (raised(values[p, b, action]) - best) - math.log(total)
            actions[p, b] = action


@scalar
def _drawn(legal: Bools, weights: Doubles, total: float, noise: np.float32) -> int:
    """Return a legal action by the ``weights``, any alike often if their ``total`` is NaN."""
    is_uniform = math.isnan(total)  # also where the net has diverged
    if is_uniform:
        total = float(legal.sum())
    # In float64 noise < 1 stays below 1 as a product, so the last legal action passes the bound: up
    # to it the same numbers are added in the same order.
    bound, cumulated = np.float64(noise) * total, 0.0
    for a in range(len(legal)):
        if legal[a]:
            cumulated += 1.0 if is_uniform else weights[a]
            if cumulated > bound:
                return a
    return 0


@scalar
def exponentials(values: Floats, legal: Bools, weights: Doubles) -> tuple[float, float]:
    """Fill ``weights`` with the exponentials of legal values less their best, 0 for other actions.

    Return this best value and the sum of the weights.
    """
    best = LOWEST
    for a in range(len(values)):
        if legal[a]:
            best = max(best, raised(values[a]))
    total = 0.0
    for a in range(len(values)):
        weights[a] = math.exp(raised(values[a]) - best) if legal[a] else 0.0
        total += weights[a]
    return best, total


@scalar
def raised(value: np.float32) -> float:
    """Return a value, raised as `policies.legal_values` does; what is no number stays so."""
    return LOWEST if value < LOWEST else float(value)


@scalar
def best_legal(values: Floats, legal: Bools) -> int:
    """Return the first legal action of the highest value, or else of none that is a number."""
    best = -1
    for a in range(len(values)):
        if not legal[a]:
            continue
        if np.isnan(values[a]):  # counts as the highest, as for argmax
            return a
        if best < 0 or values[a] > values[best]:
            best = a
    return max(best, 0)
