"""Adam on a GPU: one launch. See `reference.adam`; importing this imports triton."""

from typing import Final

import torch
import triton
import triton.language as tl
from torch import Tensor

from hpsearch.trainers.optim.reference import AdamOptions, Averages, TargetWeights, Update

BLOCK: Final = 512
"""weights of a program: four a thread. With eight, registers do not suffice on an A100."""


def adam(
    weights: Tensor,
    update: Update,
    averages: Averages,
    options: AdamOptions,
    target: TargetWeights | None,
) -> None:
    num_members, num_weights = weights.shape
    # Without a target network any bank does: the program does not look at it.
    followed = target or TargetWeights(weights, update.lr)
    grid = (num_members, -(-num_weights // BLOCK))
    with torch.cuda.device_of(weights):
        update_weights[grid](
            weights,
            *update,
            *averages,
            *options,
            *followed,
            num_weights,
            HAS_TARGET=target is not None,
            BLOCK=BLOCK,
        )


@triton.jit
def update_weights(
    weights: tl.tensor,
    gradients: tl.tensor,
    scale: tl.tensor,
    lr: tl.tensor,
    active: tl.tensor,
    mean: tl.tensor,
    square: tl.tensor,
    updates: tl.tensor,
    beta1: tl.tensor,
    beta2: tl.tensor,
    eps: tl.tensor,
    weight_decay: tl.tensor,
    target: tl.tensor,
    tau: tl.tensor,
    num_weights: tl.tensor,
    HAS_TARGET: tl.constexpr,
    BLOCK: tl.constexpr,
) -> None:
    """Update BLOCK weights of one member; all tensors are contiguous, (P, W) or (P,)."""
    p = tl.program_id(0)
    w = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    is_weight = w < num_weights
    places = p.to(tl.int64) * num_weights + w
    now = tl.load(weights + places, is_weight)
    if tl.load(active + p):
        gradient = tl.load(gradients + places, is_weight) * tl.load(scale + p)
        decay1, decay2 = tl.load(beta1 + p), tl.load(beta2 + p)
        age = tl.load(updates + p)
        old_mean = tl.load(mean + places, is_weight)
        old_square = tl.load(square + places, is_weight)
        new_mean = old_mean * decay1 + gradient * (1.0 - decay1)
        new_square = old_square * decay2 + gradient * gradient * (1.0 - decay2)
        tl.store(mean + places, new_mean, is_weight)
        tl.store(square + places, new_square, is_weight)
        rate = tl.load(lr + p)
        corrected = new_mean / _correction(decay1, age)
        variance = new_square / _correction(decay2, age)
        size = tl.sqrt(variance) + tl.load(eps + p)
        now = now * (1.0 - rate * tl.load(weight_decay + p)) - rate * corrected / size
        tl.store(weights + places, now, is_weight)
    if HAS_TARGET:
        way = tl.load(tau + p)
        if way != 0.0:
            behind = tl.load(target + places, is_weight)
            tl.store(target + places, now - (now - behind) * (1.0 - way), is_weight)


@triton.jit
def _correction(decay: tl.tensor, age: tl.tensor) -> tl.tensor:
    """Return 1 - decay^age; in float64, as for a decay near 1 little is left of it."""
    # A decay of 0 has no logarithm; any power of the smallest one is as good as 0.
    exponent = age.to(tl.float64) * tl.log2(tl.maximum(decay, 1e-38).to(tl.float64))
    return (1.0 - tl.exp2(exponent)).to(tl.float32)
