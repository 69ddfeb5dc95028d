"""Adam on a CPU: one loop over the bank, shared among the threads. See `reference.adam`."""

import numba
import numpy as np
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, batched, scalar
from hpsearch.trainers.optim.reference import AdamOptions, Averages, TargetWeights, Update

CHUNK = 4096  # weights that a thread updates at a time; five rows of them fit its cache
ONE = np.float32(1.0)
ZERO = np.float32(0.0)


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    options: AdamOptions,
    target: TargetWeights | None,
) -> None:
    # Without a target network the weights stand in for it; tau 0 leaves them as they are.
    followed = target or TargetWeights(weights, update.lr.new_zeros(len(weights)))
    tensors = (weights, *update, *averages, *options, *followed)
    _update(*(tensor.numpy() for tensor in tensors))


@batched
def _update(
    weights: Floats,
    gradients: Floats,
    scale: Floats,
    lr: Floats,
    active: Bools,
    mean: Floats,
    square: Floats,
    updates: Floats,
    beta1: Floats,
    beta2: Floats,
    eps: Floats,
    weight_decay: Floats,
    target: Floats,
    tau: Floats,
) -> None:
    """Update all members; shapes as in `Update`, `Averages`, `AdamOptions`, `TargetWeights`."""
    num_members, num_weights = weights.shape
    num_chunks = (num_weights + CHUNK - 1) // CHUNK
    for task in numba.prange(num_members * num_chunks):
        p, start = task // num_chunks, task % num_chunks * CHUNK
        chunk = slice(start, min(start + CHUNK, num_weights))
        if active[p]:
            _update_chunk(
                weights[p, chunk],
                gradients[p, chunk],
                mean[p, chunk],
                square[p, chunk],
                scale[p],
                beta1[p, 0],
                beta2[p, 0],
                lr[p] / (ONE - beta1[p, 0] ** updates[p, 0]),
                ONE / np.sqrt(ONE - beta2[p, 0] ** updates[p, 0]),
                ONE - lr[p] * weight_decay[p, 0],
                eps[p, 0],
            )
        if tau[p] != ZERO:
            _follow_chunk(weights[p, chunk], target[p, chunk], tau[p])


@scalar
def _update_chunk(
    weights: Floats,
    gradients: Floats,
    mean: Floats,
    square: Floats,
    scale: np.float32,
    beta1: np.float32,
    beta2: np.float32,
    rate: np.float32,
    correction: np.float32,
    decay_factor: np.float32,
    eps: np.float32,
) -> None:
    """Update some weights of a member; ``decay_factor`` is what weight decay leaves of them.

    Both averages are corrected outside of the loop, in which a division takes longest: ``rate``
    does it for the mean, ``correction`` for the root of the square.
    """
    for w in range(len(weights)):
        gradient = gradients[w] * scale
        mean[w] = mean[w] * beta1 + gradient * (ONE - beta1)
        square[w] = square[w] * beta2 + gradient * gradient * (ONE - beta2)
        size = np.sqrt(square[w]) * correction + eps
        weights[w] = weights[w] * decay_factor - rate * mean[w] / size


@scalar
def _follow_chunk(weights: Floats, target: Floats, tau: np.float32) -> None:
    for w in range(len(weights)):
        target[w] = weights[w] - (weights[w] - target[w]) * (ONE - tau)
