"""The loss of proximal policy optimisation (Schulman et al., arXiv 1707.06347), of P members.

Apart from ppo.py, as ppo_cpu.py computes the same and ppo.py chooses between the two.

Axes: P members, M moves of a step, m of them in a minibatch, I inputs, A actions.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.trainers.policies import legal_values


class Moves(NamedTuple):
    """What a role learns from in one step; the position axis is M, or m in a minibatch."""

    features: Tensor  # float32 (P, M, I)
    legal: Tensor  # bool (P, M, A)
    action: Tensor  # int64 (P, M)
    log_prob: Tensor  # float32 (P, M): of the action, by the policy that played
    value: Tensor  # float32 (P, M): by the value network that there was while playing
    advantage: Tensor  # float32 (P, M)
    target: Tensor  # float32 (P, M): what the value network learns


class LossCoefficients(NamedTuple):
    """What the configurations say of the loss, of each member."""

    clip: Tensor  # float32 (P, 1)
    value_clip: Tensor  # float32 (P, 1)
    vf_coef: Tensor  # float32 (P,)
    ent_coef: Tensor  # float32 (P,)


class Losses(NamedTuple):
    loss: Tensor
    policy_loss: Tensor
    value_loss: Tensor
    policy_entropy: Tensor
    kl: Tensor
    clipped: Tensor


def losses(values: Tensor, value: Tensor, batch: Moves, coefficients: LossCoefficients) -> Losses:
    """Return the losses of a minibatch.

    ``values`` (P, m, A) are of the actions, by the policy network; ``value`` (P, m) of the
    positions, by the value network.
    """
    log_probs = legal_values(values, batch.legal).log_softmax(dim=2)
    ratio_log = log_probs.gather(2, batch.action[..., None]).squeeze(2) - batch.log_prob
    ratio = ratio_log.exp()
    policy_loss = _policy_loss(ratio, batch.advantage, coefficients.clip)
    value_loss = _value_loss(value, batch, coefficients.value_clip)
    entropy = _entropy(log_probs, batch.legal)
    return Losses(
        loss=policy_loss + coefficients.vf_coef * value_loss - coefficients.ent_coef * entropy,
        policy_loss=policy_loss,
        value_loss=value_loss,
        policy_entropy=entropy,
        # An unbiased, never negative estimate: http://joschu.net/blog/kl-approx.html, k3.
        kl=(ratio - 1 - ratio_log).mean(dim=1),
        clipped=((ratio - 1).abs() > coefficients.clip).float().mean(dim=1),
    )


def _policy_loss(ratio: Tensor, advantage: Tensor, clip: Tensor) -> Tensor:
    """Return the clipped surrogate (arXiv 1707.06347, equation 7) as a loss, (P,)."""
    near = ratio.clamp(1 - clip, 1 + clip)
    return -torch.minimum(ratio * advantage, near * advantage).mean(dim=1)


def _value_loss(value: Tensor, batch: Moves, bound: Tensor) -> Tensor:
    """Return half the squared error, where the value moved too far that of the bound, (P,)."""
    change = (value - batch.value).clamp(-bound, bound)
    error = (value - batch.target).square()
    bounded = (batch.value + change - batch.target).square()
    return 0.5 * torch.maximum(error, bounded).mean(dim=1)


def _entropy(log_probs: Tensor, legal: Tensor) -> Tensor:
    """Return the mean entropy in nats (P,) of log-probabilities (P, m, A), legal actions alone."""
    terms = torch.where(legal, log_probs, 0.0) * log_probs.exp()
    return -terms.sum(dim=2).mean(dim=1)
