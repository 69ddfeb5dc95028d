"""Distillation crossover: a child that learns from both parents' play.

From each where that one values a position higher: the Q-filtered crossover of Bodnar, Day, Lio,
Proximal distilled evolutionary reinforcement learning, arXiv 1906.09807, for discrete actions. Or
what they think together, whose errors partly cancel (Anschel, Baram, Shimkin, Averaged-DQN, arXiv
1611.01929). Weights never mix, so parents and child may differ in shape and in algorithm: a network
of one tower values actions, one of two is an actor-critic. Q-values teach and learn as policies by
their softmax (Rusu et al., Policy distillation, arXiv 1511.06295).

Axes: P members, B positions, b of them in a batch, A actions.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from hpsearch.game.stream import Stream
from hpsearch.population.operators.base import below, check_members, scratch
from hpsearch.population.operators.base import child as child_of
from hpsearch.population.operators.options import Distillation
from hpsearch.population.operators.safe_mutation import MetPositions
from hpsearch.population.operators.weights import with_statistics_of
from hpsearch.trainers.config.weight_layout import POLICY, VALUE
from hpsearch.trainers.networks import Network
from hpsearch.trainers.policies import legal_values


class Play(NamedTuple):
    """What a player thinks of positions."""

    log_policy: Tensor  # float32 (P, B, A), 0 where the action is illegal
    value: Tensor  # float32 (P, B)
    action_values: Tensor | None
    """float32 (P, B, A), of a network that values actions, the illegal ones too"""


class Lesson(NamedTuple):
    policy: Tensor  # float32 (P, B, A), probabilities, 0 where the action is illegal
    value: Tensor  # float32 (P, B)


def distilled(
    first: Network,
    second: Network,
    child: Network,
    *,
    seen: MetPositions,
    options: Distillation,
    stream: Stream,
) -> Network:
    """Return children that have learned from both parents, on positions that these meet.

    They begin as ``child``, which is not changed. All networks are of P members, of any shape and
    algorithm over the same observations and actions, else ValueError.
    """
    for name, net in (("second", second), ("child", child)):
        own, wanted = (
            f"{of.inputs} and {of.towers[POLICY].num_outputs} actions" for of in (net, first)
        )
        if own != wanted:
            raise ValueError(f"{name} must see and do what first does, {wanted}; got {own}")
        check_members(net, first=first.weights, stream=stream, seen=seen.features)
    lesson = lesson_of(first, second, seen, options)
    student = scratch(child)
    betas = (options.beta1, options.beta2)
    adam = torch.optim.Adam([student.weights], lr=options.lr, betas=betas, eps=options.eps)
    member = torch.arange(len(student.weights), device=student.weights.device)[:, None]
    for _ in range(options.num_steps):
        index = below(stream, options.batch_size, seen.features.shape[1])
        part = Lesson(lesson.policy[member, index], lesson.value[member, index])
        loss = imitation_loss(student, seen.at(index), part, options)
        # The sum over members: no member's gradient sees another.
        student.weights.grad = student.gradients(loss.sum())
        adam.step()
    taught = child_of(child, student.weights, student.statistics)
    return with_statistics_of(taught, seen.features)


@torch.no_grad()
def lesson_of(first: Network, second: Network, seen: MetPositions, options: Distillation) -> Lesson:
    """Return what there is to learn at each position, as ``options.compare`` says.

    What the parent thinks who values the position higher (the Q-filter), of equals the first; or
    the mean of both.
    """
    plays = [play_of(net, seen, options, training=False) for net in (first, second)]
    if options.compare == "mean":
        return _of_both(plays, seen.legal)
    own, other = (play.value for play in plays)
    if options.compare == "standardised":
        own, other = _standardised(own), _standardised(other)
    is_first = own >= other
    policies = [play.log_policy.exp() * seen.legal for play in plays]
    return Lesson(
        torch.where(is_first[..., None], policies[0], policies[1]),
        torch.where(is_first, plays[0].value, plays[1].value),
    )


def _of_both(plays: Sequence[Play], legal: Tensor) -> Lesson:
    """Return the mean of what both think: of values, and of logits."""
    play, other = plays
    if play.action_values is not None and other.action_values is not None:
        # What the mean of two Q-functions values highest: less than the mean of what each does.
        value = legal_values((play.action_values + other.action_values) / 2, legal).amax(dim=2)
    else:
        value = (play.value + other.value) / 2
    logits = legal_values((play.log_policy + other.log_policy) / 2, legal)
    return Lesson(logits.softmax(dim=2), value)


def imitation_loss(
    student: Network, seen: MetPositions, lesson: Lesson, options: Distillation
) -> Tensor:
    """Return the cross-entropy of the policies plus the squared error of the values, (P,)."""
    play = play_of(student, seen, options, training=True)
    entropy = -(lesson.policy * play.log_policy).sum(dim=2)
    error = (play.value - lesson.value).square()
    return (entropy + options.value_weight * error).mean(dim=1)


def play_of(net: Network, seen: MetPositions, options: Distillation, *, training: bool) -> Play:
    """Return what a network thinks of positions, whichever algorithm it learned by."""
    out = net(seen.features, tower=POLICY, training=training)
    legal = seen.legal
    if len(net.towers) == 1:
        action_values, logits = out, out / options.temperature
        value = legal_values(out, legal).amax(dim=2)
    else:
        action_values, logits = None, out
        value = net(seen.features, tower=VALUE, training=training).squeeze(2)
    log_policy = legal_values(logits, legal).log_softmax(dim=2).masked_fill(~legal, 0.0)
    return Play(log_policy, value, action_values)


def _standardised(values: Tensor) -> Tensor:
    """Return (P, B) in standard deviations from each member's mean."""
    deviation = values.std(dim=1, keepdim=True, correction=0)
    return (values - values.mean(dim=1, keepdim=True)) / deviation.clamp(min=1e-12)
