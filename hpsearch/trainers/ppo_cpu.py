"""PPO's formulas on a CPU, one loop each; gae.py and ppo_loss.py say what they are of.

Axes: P members, T moves, B games, m moves of a minibatch, A actions.
"""

import math

import numba
import numpy as np
import torch
from torch import Tensor

from hpsearch.game.kernels.interface import Bools, Doubles, Floats, Int64s, batched, scalar
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies_cpu import LOWEST, exponentials, raised
from hpsearch.trainers.ppo_loss import LossCoefficients, Losses, Moves
from hpsearch.trainers.rollouts import Transitions


def advantages(
    rollout: Transitions, value: Tensor, next_value: Tensor, gamma: Tensor, gae_lambda: Tensor
) -> Tensor:
    result = np.empty(value.shape, np.float32)
    of_moves = (rollout.reward, rollout.done, rollout.truncated, value, next_value)
    given = [tensor.contiguous().numpy() for tensor in (*of_moves, gamma, gae_lambda)]
    _advantages(*[*given, result])
    return torch.from_numpy(result)


@scalar
def _advantages(
    reward: Floats,
    done: Bools,
    truncated: Bools,
    value: Floats,
    next_value: Floats,
    gamma: Floats,
    gae_lambda: Floats,
    result: Floats,
) -> None:
    num_members, num_moves, num_games = result.shape
    for p in range(num_members):
        for t in range(num_moves - 1, -1, -1):
            for b in range(num_games):
                going = np.float32(not done[p, t, b])
                error = reward[p, t, b] + gamma[p] * going * next_value[p, t, b] - value[p, t, b]
                if t + 1 < num_moves and not truncated[p, t, b]:
                    error += gamma[p] * gae_lambda[p] * going * result[p, t + 1, b]
                result[p, t, b] = error


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

    Computed in float64, so a ratio that float32 cannot hold is finite here. Actions are legal.
    """
    num_members, num_moves, num_actions = values.shape
    for p in numba.prange(num_members):
        shares = np.empty(num_actions)  # of the sum of exponentials: probabilities
        policy_loss, value_loss, entropy, kl, clipped = 0.0, 0.0, 0.0, 0.0, 0.0
        for m in range(num_moves):
            best, total = exponentials(values[p, m], legal[p, m], shares)
            log_total = math.log(total)
            of_move = _entropy(values[p, m], legal[p, m], best, total, shares)
            entropy += of_move
            chosen = (raised(values[p, m, action[p, m]]) - best) - log_total
            ratio_log = chosen - log_prob[p, m]
            ratio = math.exp(ratio_log)
            kl += ratio - 1 - ratio_log
            clipped += abs(ratio - 1) > clip[p, 0]
            loss, policy_slope = _surrogate(ratio, advantage[p, m], clip[p, 0])
            policy_loss += loss
            for a in range(num_actions):
                if legal[p, m, a] and not values[p, m, a] < LOWEST:  # what is raised has no slope
                    log_share = (raised(values[p, m, a]) - best) - log_total
                    by_policy = policy_slope * (np.float64(a == action[p, m]) - shares[a])
                    by_entropy = shares[a] * (log_share + of_move)
                    grad_values[p, m, a] = (by_policy + ent_coef[p] * by_entropy) / num_moves
            loss, value_slope = _squared(
                value[p, m], value_before[p, m], target[p, m], value_clip[p, 0]
            )
            value_loss += loss
            grad_value[p, m] = vf_coef[p] * value_slope / num_moves
        total = policy_loss + vf_coef[p] * value_loss - ent_coef[p] * entropy
        told[0, p], told[1, p] = total / num_moves, policy_loss / num_moves
        told[2, p], told[3, p] = value_loss / num_moves, entropy / num_moves
        told[4, p], told[5, p] = kl / num_moves, clipped / num_moves


@scalar
def _entropy(values: Floats, legal: Bools, best: float, total: float, shares: Doubles) -> float:
    """Divide ``shares``, the exponentials, by their ``total``; return the entropy."""
    entropy, log_total = 0.0, math.log(total)
    for a in range(len(values)):
        if legal[a]:
            shares[a] /= total
            entropy -= ((raised(values[a]) - best) - log_total) * shares[a]
    return entropy


@scalar
def _surrogate(ratio: float, advantage: np.float32, clip: np.float32) -> tuple[float, float]:
    """Return the clipped surrogate as a loss, and its derivative by the ratio's logarithm."""
    near, gain = float(clip), float(advantage)
    surrogate = ratio * gain
    bounded = min(max(ratio, 1 - near), 1 + near) * gain
    return (-bounded, 0.0) if bounded < surrogate else (-surrogate, -surrogate)


@scalar
def _squared(
    value: np.float32, before: np.float32, target: np.float32, bound: np.float32
) -> tuple[float, float]:
    """Return half the larger squared error of a value and of its bound, and the derivative."""
    change, error = float(value) - float(before), float(value) - float(target)
    within = min(max(change, -float(bound)), float(bound))
    error_within = float(before) + within - float(target)
    if error_within * error_within <= error * error:
        return 0.5 * error * error, error
    return 0.5 * error_within * error_within, error_within if within == change else 0.0
