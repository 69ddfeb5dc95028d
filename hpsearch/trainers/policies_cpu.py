"""How a learned player chooses on a CPU, in one loop over its games; policies.py has the formulas.

Axes: P members, B games, A actions.
"""

import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, Int64s, scalar


def chosen(
    values: Tensor, legal: Tensor, weights: Tensor, noise: Tensor, exploration: Tensor
) -> Tensor:
    actions = np.empty(values.shape[:2], np.int64)
    rate = exploration.expand(actions.shape)
    tensors = (values, legal, weights, noise, rate)
    given = [each.detach().contiguous().numpy() for each in tensors]
    _choose(*[*given, actions])
    return torch.from_numpy(actions)


@scalar  # a thread more would take longer to compile than it saves
def _choose(
    values: Floats, legal: Bools, weights: Floats, noise: Floats, rate: Floats, actions: Int64s
) -> None:
    num_members, num_games = actions.shape
    for p in range(num_members):
        for b in range(num_games):
            if noise[p, b, 0] < rate[p, b]:
                actions[p, b] = _drawn(weights[p, b], noise[p, b, 1])
            else:
                actions[p, b] = best_legal(values[p, b], legal[p, b])


@scalar
def _drawn(weights: Floats, noise: np.float32) -> int:
    total = 0.0  # in float64 noise < 1 stays below 1 as a product
    for weight in weights:
        total += weight
    bound, cumulated = np.float64(noise) * total, 0.0
    for a in range(len(weights)):
        cumulated += weights[a]
        if cumulated > bound:
            return a
    return 0


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
