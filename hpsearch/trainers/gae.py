"""Generalized advantage estimation (Schulman et al., arXiv 1506.02438, equation 16).

Axes: P members, T moves, B games.
"""

import torch
from torch import Tensor

from hpsearch.trainers.rollouts import Transitions


def advantages(
    rollout: Transitions, value: Tensor, next_value: Tensor, gamma: Tensor, gae_lambda: Tensor
) -> Tensor:
    """Return the advantage of every move over the position's value, float32 (P, T, B).

    ``rollout`` holds T moves of every game, tensors (P, T, B, ...); ``value`` and ``next_value``
    float32 (P, T, B) are of the positions before and after each move; ``gamma`` and ``gae_lambda``
    float32 (P,) discount a move and a further error.

    A finished game is worth nothing more, a truncated one the value of where it was broken off;
    after either the next game begins, which says nothing about this one.
    """
    going = ~rollout.done
    error = rollout.reward + gamma[:, None, None] * going * next_value - value
    carries = (gamma * gae_lambda)[:, None, None] * (going & ~rollout.truncated)
    advantage = torch.zeros_like(error[:, 0])
    results = []
    for delta, carry in zip(error.unbind(1)[::-1], carries.unbind(1)[::-1], strict=True):
        advantage = torch.addcmul(delta, carry, advantage)
        results.append(advantage)
    return torch.stack(results[::-1], dim=1)
