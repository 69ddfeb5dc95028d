"""Distillation: the child becomes, position by position, the parent who values it higher."""

from dataclasses import replace

import pytest
import torch
from operator_nets import (
    ENCODERS,
    FP32,
    P,
    every_structure,
    network,
    observations,
    stream,
    tower,
)
from torch import Tensor
from torch.nn.functional import kl_div, mse_loss

from hpsearch.population.operators.distillation import (
    Lesson,
    distilled,
    imitation_loss,
    lesson_of,
    play_of,
)
from hpsearch.population.operators.options import Distillation
from hpsearch.population.operators.safe_mutation import MetPositions
from hpsearch.population.operators.weights import clone
from hpsearch.trainers.config.weight_layout import Inputs
from hpsearch.trainers.networks import Network

OPTIONS = Distillation(
    num_steps=400,
    batch_size=32,
    lr=1e-2,
    beta1=0.9,
    beta2=0.999,
    eps=1e-8,
    temperature=0.3,
    value_weight=1.0,
    compare="raw",
)
Q_LEARNER = (tower([16, "l"]),)
ACTOR_CRITIC = (tower([12]), tower([12], num_outputs=1))
OTHER_ENCODER = (tower(["r16"], encoder=ENCODERS["deep sets"]),)


def positions(seed: int = 0) -> MetPositions:
    legal = torch.rand(P, 24, 4, generator=torch.Generator().manual_seed(seed)) < 0.7
    legal[..., seed % 4] = True
    return MetPositions(observations() + 0.3 * seed, legal)


def sharp(*towers, seed: int = 1) -> Network:
    """Return networks with decided opinions."""
    net = network(*towers, seeds=(seed, seed + 1, seed + 2))
    for part in (part for name, part in net.parts(net.weights).items() if name.endswith("weight")):
        if part.shape[1] > 1:
            part.mul_(2.0)
    return net


def distil(first: Network, second: Network, child: Network, **changes) -> Network:
    return distilled(
        first,
        second,
        child,
        seen=positions(0) + positions(1),
        options=replace(OPTIONS, **changes),
        stream=stream(7, 8, 9),
    )


def policy_and_value(net: Network, seen: MetPositions) -> tuple[Tensor, Tensor]:
    """Return what a network plays and values, written down independently."""
    with torch.no_grad():
        out = net(seen.features).masked_fill(~seen.legal, -torch.inf)
        if len(net.towers) == 1:
            return torch.softmax(out / OPTIONS.temperature, dim=2), out.max(dim=2).values
        return torch.softmax(out, dim=2), net(seen.features, tower=1)[..., 0]


def expected_lesson(first: Network, second: Network, seen: MetPositions) -> Lesson:
    lessons = [policy_and_value(net, seen) for net in (first, second)]
    policy, value = lessons[0][0].clone(), lessons[0][1].clone()
    for p in range(P):
        for b in range(seen.features.shape[1]):
            if lessons[1][1][p, b] > value[p, b]:
                policy[p, b], value[p, b] = lessons[1][0][p, b], lessons[1][1][p, b]
    return Lesson(policy, value)


@pytest.mark.parametrize("first", [Q_LEARNER, ACTOR_CRITIC], ids=["q", "actor-critic"])
@pytest.mark.parametrize("second", [OTHER_ENCODER, ACTOR_CRITIC], ids=["q", "actor-critic"])
def test_the_lesson_is_that_of_the_parent_who_values_higher(first, second):
    parent, other, seen = sharp(*first), sharp(*second, seed=4), positions()
    lesson, expected = lesson_of(parent, other, seen, OPTIONS), expected_lesson(parent, other, seen)
    torch.testing.assert_close(lesson.policy, expected.policy)
    torch.testing.assert_close(lesson.value, expected.value)


@pytest.mark.parametrize("first", [Q_LEARNER, ACTOR_CRITIC], ids=["q", "actor-critic"])
@pytest.mark.parametrize("second", [OTHER_ENCODER, ACTOR_CRITIC], ids=["q", "actor-critic"])
def test_the_mean_of_both_is_the_geometric_mean_of_their_policies(first, second):
    parent, other, seen = sharp(*first), sharp(*second, seed=4), positions()
    lesson = lesson_of(parent, other, seen, replace(OPTIONS, compare="mean"))
    (policy, value), (others, others_value) = (
        policy_and_value(net, seen) for net in (parent, other)
    )
    geometric = (policy * others).sqrt()
    torch.testing.assert_close(lesson.policy, geometric / geometric.sum(dim=2, keepdim=True))
    if (len(first), len(second)) != (1, 1):
        torch.testing.assert_close(lesson.value, (value + others_value) / 2)


def test_two_q_networks_together_play_by_the_mean_of_their_values():
    parent, other, seen = sharp(*Q_LEARNER), sharp(*OTHER_ENCODER, seed=4), positions()
    lesson = lesson_of(parent, other, seen, replace(OPTIONS, compare="mean"))
    with torch.no_grad():
        mean = (parent(seen.features) + other(seen.features)) / 2
    mean = mean.masked_fill(~seen.legal, -torch.inf)
    torch.testing.assert_close(lesson.policy, torch.softmax(mean / OPTIONS.temperature, dim=2))
    torch.testing.assert_close(lesson.value, mean.max(dim=2).values)


def test_standardised_values_know_no_unit():
    parent, other, seen = sharp(*ACTOR_CRITIC), sharp(*ACTOR_CRITIC, seed=4), positions()
    options = replace(OPTIONS, compare="standardised")
    before = lesson_of(parent, other, seen, options).policy
    last = anatomy_of_value_tower(other)
    other.weights[:, last] *= 10.0
    torch.testing.assert_close(lesson_of(parent, other, seen, options).policy, before)
    raw = [lesson_of(parent, other, seen, OPTIONS).policy]
    assert not torch.allclose(raw[0], before)


def anatomy_of_value_tower(net: Network) -> slice:
    """Return the place of the value tower's last layer."""
    return slice(net.weights.shape[1] - 13, net.weights.shape[1])


@every_structure
def test_the_loss_is_that_of_torch(towers):
    student, seen = network(*towers), positions()
    lesson = expected_lesson(sharp(*Q_LEARNER), sharp(*ACTOR_CRITIC, seed=4), seen)
    with torch.no_grad():
        losses = imitation_loss(clone(student), seen, lesson, OPTIONS)
        play = play_of(student, seen, OPTIONS, training=True)
    for p in range(P):
        policy, value = lesson.policy[p], lesson.value[p]
        entropy = -torch.special.xlogy(policy, policy).sum(dim=1).mean()
        divergence = kl_div(play.log_policy[p], policy, reduction="batchmean")
        expected = divergence + entropy + mse_loss(play.value[p], value)
        torch.testing.assert_close(losses[p], expected)


@pytest.mark.parametrize(
    ("first", "second", "child"),
    [
        (Q_LEARNER, Q_LEARNER, Q_LEARNER),
        (Q_LEARNER, OTHER_ENCODER, Q_LEARNER),
        (ACTOR_CRITIC, ACTOR_CRITIC, ACTOR_CRITIC),
        (Q_LEARNER, ACTOR_CRITIC, ACTOR_CRITIC),
        (Q_LEARNER, ACTOR_CRITIC, Q_LEARNER),
        (ACTOR_CRITIC, ACTOR_CRITIC, (tower([24, "b"], dueling=True),)),
    ],
    ids=["q", "q of two shapes", "actor-critic", "to actor-critic", "to q", "to dueling"],
)
def test_children_play_as_the_better_parent_and_parents_stay(first, second, child):
    parent, other, start = (
        sharp(*first),
        sharp(*second, seed=4),
        network(*child, seeds=(11, 12, 13)),
    )
    before = [tensor.clone() for net in (parent, other, start) for tensor in net.state().values()]
    children = distil(parent, other, start)
    after = [tensor for net in (parent, other, start) for tensor in net.state().values()]
    assert all(torch.equal(*pair) for pair in zip(before, after, strict=True))
    seen = positions(0) + positions(1)
    lesson = expected_lesson(parent, other, seen)
    assert children.structure == start.structure
    far, near = (distance(net, seen, lesson) for net in (start, children))
    assert (near < 0.35 * far).all()


def distance(net: Network, seen: MetPositions, lesson: Lesson) -> Tensor:
    """Return the mean total variation between a network's policy and the lesson's, (P,)."""
    policy, _ = policy_and_value(net, seen)
    return 0.5 * (policy - lesson.policy).abs().sum(dim=2).mean(dim=1)


def test_a_child_that_plays_as_taught_stays():
    net = sharp(*ACTOR_CRITIC)
    children = distil(net, net, net, num_steps=5)
    # Adam makes whole steps of gradients that are nothing but rounding.
    assert (children.weights - net.weights).abs().max() <= 5 * OPTIONS.lr
    seen = positions(0) + positions(1)
    lesson = expected_lesson(net, net, seen)
    assert (distance(children, seen, lesson) < 0.1).all()


def test_batch_norms_end_with_statistics_of_all_positions():
    parent, other = sharp(*Q_LEARNER), sharp(*Q_LEARNER, seed=4)
    child = distil(parent, other, network(tower(["b", 8])), num_steps=3)
    mean, _ = child.statistics.chunk(2, dim=1)
    seen = (positions(0) + positions(1)).features[:, :, : mean.shape[1]]
    torch.testing.assert_close(mean, seen.mean(dim=1))


def test_a_child_depends_on_its_own_seed_and_parents_alone():
    parent, other = sharp(*Q_LEARNER), sharp(*ACTOR_CRITIC, seed=4)
    whole, again = (
        distilled(
            parent,
            other,
            parent,
            seen=positions(0) + positions(1),
            options=replace(OPTIONS, num_steps=5),
            stream=stream(*seeds),
        )
        for seeds in ((7, 8, 9), (1, 8, 2))
    )
    assert torch.equal(whole.weights[1], again.weights[1])
    assert not torch.equal(whole.weights[0], again.weights[0])


def test_players_must_see_and_do_the_same():
    net = network(*Q_LEARNER)
    fewer = network(tower([16, "l"], num_outputs=3))
    blind = Network(Inputs(3, 3, 0), Q_LEARNER, FP32, stream(1, 2, 3))
    with pytest.raises(ValueError, match="second must see and do what first does"):
        distil(net, fewer, net)
    with pytest.raises(ValueError, match="child must see and do what first does"):
        distil(net, net, blind)
    with pytest.raises(ValueError, match=r"needs a row for each of 2 members"):
        distil(net, net.like(2), net)
