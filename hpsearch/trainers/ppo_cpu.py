"""The loss of PPO on a CPU, one loop over a minibatch; ppo_loss.py says what it is of.

Axes: P members, m moves of a minibatch, A actions.
"""

import math

import numba
import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Floats, Int64s, batched, scalar
from hpsearch.trainers.networks import Network
from hpsearch.trainers.ppo_loss import LossCoefficients, Losses, Moves

LOWEST = float(np.finfo(np.float32).min)


def differentiate(
    net: Network, batch: Moves, coefficients: LossCoefficients, out: Tensor
) -> Losses:
    (values, value), pull_back = net.differentiable_pass(batch.features, training=False)
    found, grad_values, grad_value = losses(values, value.squeeze(2), batch, coefficients)
    pull_back([grad_values, grad_value[..., None]], out)
    return found


def losses(
    values: Tensor, value: Tensor, batch: Moves, coefficients: LossCoefficients
) -> tuple[Losses, Tensor, Tensor]:
    """Return, besides what ppo_loss.py says, the loss's derivatives.

    These, float32 (P, m, A) and (P, m), are by ``values`` and by ``value``.
    """
    told = np.zeros((len(Losses._fields), len(values)), np.float32)
    grad_values, grad_value = np.zeros(values.shape, np.float32), np.empty(value.shape, np.float32)
    _, *of_moves = batch  # without the features
    given = [tensor.numpy() for tensor in (values, value, *of_moves, *coefficients)]
    _losses(*[*given, told, grad_values, grad_value])
    found = Losses._make(torch.from_numpy(told).unbind())
    return found, torch.from_numpy(grad_values), torch.from_numpy(grad_value)


@batched
def _losses(
    values: Floats,
    value: Floats,
    legal: Bools,
    action: Int64s,
    log_prob: Floats,
    value_before: Floats,
    advantage: Floats,
    target: Floats,
    clip: Floats,
    value_clip: Floats,
    vf_coef: Floats,
    ent_coef: Floats,
    told: Floats,
    grad_values: Floats,
    grad_value: Floats,
) -> None:
    """Fill ``told`` (fields of `Losses`, P) and the derivatives, of which ``grad_values`` holds 0.

    Computed in float64.
    """
    num_members, num_moves, num_actions = values.shape
    for p in numba.prange(num_members):
        policy_loss, value_loss, entropy, kl, clipped = 0.0, 0.0, 0.0, 0.0, 0.0
        near, bound = np.float64(clip[p, 0]), np.float64(value_clip[p, 0])
        for m in range(num_moves):
            log_total = _log_total(values[p, m], legal[p, m])
            move_entropy = 0.0
            for a in range(num_actions):
                if legal[p, m, a]:
                    log_share = _raised(values[p, m, a]) - log_total
                    move_entropy -= log_share * math.exp(log_share)
            entropy += move_entropy

            chosen = _raised(values[p, m, action[p, m]]) - log_total
            ratio_log = chosen - log_prob[p, m]
            ratio = math.exp(ratio_log)
            surrogate = ratio * advantage[p, m]
            bounded = min(max(ratio, 1 - near), 1 + near) * advantage[p, m]
            slope = -surrogate  # by the logarithm
            if bounded < surrogate:
                surrogate, slope = bounded, 0.0
            policy_loss -= surrogate
            kl += ratio - 1 - ratio_log
            clipped += abs(ratio - 1) > near

            for a in range(num_actions):
                if legal[p, m, a]:
                    log_share = _raised(values[p, m, a]) - log_total
                    share = math.exp(log_share)
                    by_policy = slope * (np.float64(a == action[p, m]) - share)
                    by_entropy = share * (log_share + move_entropy)
                    grad_values[p, m, a] = (by_policy + ent_coef[p] * by_entropy) / num_moves

            change = np.float64(value[p, m]) - value_before[p, m]
            error = np.float64(value[p, m]) - target[p, m]
            within = min(max(change, -bound), bound)
            error_within = value_before[p, m] + within - target[p, m]
            slope = error
            if error_within * error_within > error * error:
                error, slope = error_within, error_within if within == change else 0.0
            value_loss += 0.5 * error * error
            grad_value[p, m] = vf_coef[p] * slope / num_moves
        loss = policy_loss + vf_coef[p] * value_loss - ent_coef[p] * entropy
        told[0, p], told[1, p], told[2, p] = loss, policy_loss, value_loss
        told[3, p], told[4, p], told[5, p] = entropy, kl, clipped
        told[:, p] /= num_moves


@scalar
def _log_total(values: Floats, legal: Bools) -> float:
    """Return the logarithm of the sum of the exponentials of the legal values."""
    best = LOWEST
    for a in range(len(values)):
        if legal[a]:
            best = max(best, _raised(values[a]))
    total = 0.0
    for a in range(len(values)):
        if legal[a]:
            total += math.exp(_raised(values[a]) - best)
    return best + math.log(total)


@scalar
def _raised(value: np.float32) -> float:
    """Return a value, raised as `policies.legal_values` does; what is no number stays so."""
    return LOWEST if value < LOWEST else float(value)
