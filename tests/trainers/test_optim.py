"""Optimizers and clipping against torch's, member by member."""

from math import nan

import pytest
import torch
from torch import Tensor

from hpsearch.trainers.config.optim import (
    AdamArgs,
    AdamOptim,
    AdamWArgs,
    AdamWOptim,
    ConstantSchedule,
    SGDArgs,
    SGDOptim,
)
from hpsearch.trainers.optim import (
    SGD,
    Adam,
    Optimizer,
    TargetWeights,
    Update,
    build_optimizer,
    clipping,
)

# Of each member: the arguments, and the largest norm of the gradient.
ADAM = (
    (AdamArgs(1e-3, 0.9, 0.999, 1e-8), 1e9),
    (AdamArgs(3e-2, 0.5, 0.9, 1e-3), 0.5),
    (AdamArgs(1e-1, 0.0, 0.99, 1e-6), 3.0),
    (AdamArgs(1e-2, 0.95, 0.0, 1e-1), 1.0),
)
ADAMW = (
    (AdamWArgs(1e-3, 0.9, 0.999, 1e-8, 0.0), 1e9),
    (AdamWArgs(3e-2, 0.5, 0.9, 1e-3, 0.1), 0.5),
    (AdamWArgs(1e-1, 0.0, 0.99, 1e-6, 1.0), 3.0),
    (AdamWArgs(1e-2, 0.95, 0.0, 1e-1, 0.01), 1.0),
)
SGD_ = (
    (SGDArgs(1e-2, 0.0, 0.0), 1e9),
    (SGDArgs(3e-2, 0.9, 0.0), 0.5),
    (SGDArgs(1e-3, 0.5, 0.3), 3.0),
    (SGDArgs(1e-1, 0.0, 0.1), 1.0),
)
POPULATIONS = {"adam": ADAM, "adamw": ADAMW, "sgd": SGD_}
every_optimizer = pytest.mark.parametrize("members", POPULATIONS.values(), ids=POPULATIONS)
NUM_MEMBERS, NUM_WEIGHTS, NUM_UPDATES = 4, 7, 25
ACTIVE = torch.ones(NUM_MEMBERS, dtype=torch.bool)
CONSTANT = ConstantSchedule("constant")


def optimizer_of(weights: Tensor, members):
    """Return the optimizer that a configuration of these members asks for."""
    kinds = {
        AdamArgs: lambda args: AdamOptim("adam", args, CONSTANT),
        AdamWArgs: lambda args: AdamWOptim("adamw", args, CONSTANT),
        SGDArgs: lambda args: SGDOptim("sgd", args, CONSTANT),
    }
    return build_optimizer(weights, [kinds[type(args)](args) for args, _ in members])


def rates_of(members) -> Tensor:
    return torch.tensor([args.lr for args, _ in members])


def norms_of(members) -> Tensor:
    return torch.tensor([max_norm for _, max_norm in members])


def random_weights() -> Tensor:
    return torch.randn(NUM_MEMBERS, NUM_WEIGHTS, generator=torch.Generator().manual_seed(0))


def random_gradients() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    scales = torch.logspace(-3, 1, NUM_UPDATES)[:, None, None]
    return scales * torch.randn(NUM_UPDATES, NUM_MEMBERS, NUM_WEIGHTS, generator=generator)


def torch_optimizer(weights: Tensor, args) -> torch.optim.Optimizer:
    match args:
        case AdamWArgs(lr, beta1, beta2, eps, weight_decay):
            return torch.optim.AdamW(
                [weights], lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=weight_decay
            )
        case AdamArgs(lr, beta1, beta2, eps):
            return torch.optim.Adam([weights], lr=lr, betas=(beta1, beta2), eps=eps)
        case SGDArgs(lr, momentum, weight_decay):
            return torch.optim.SGD([weights], lr=lr, momentum=momentum, weight_decay=weight_decay)


def torch_path(start: Tensor, gradients: Tensor, member, rates=None) -> Tensor:
    """Return the weights that torch's own optimizer and clipping lead to, in float64."""
    args, max_norm = member
    weights = start.double().requires_grad_()
    optimizer = torch_optimizer(weights, args)
    for update, gradient in enumerate(gradients):
        if rates is not None:
            optimizer.param_groups[0]["lr"] = rates[update].item()
        weights.grad = gradient.double()
        torch.nn.utils.clip_grad_norm_([weights], max_norm)
        optimizer.step()
    return weights.detach()


def assert_as_torch(weights: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(weights.double(), expected, rtol=1e-4, atol=1e-5)


def move(
    optimizer: Optimizer,
    weights: Tensor,
    gradients: Tensor,
    lr: Tensor,
    active: Tensor,
    max_norm: Tensor | None = None,
    target: TargetWeights | None = None,
) -> None:
    """Make an update, clipped where a norm is given."""
    scale = torch.ones(len(weights)) if max_norm is None else clipping(gradients, max_norm)[0]
    optimizer.step(weights, Update(gradients, scale, lr, active), target)


def snapshot(optimizer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in optimizer.state().items()}


@every_optimizer
def test_every_member_moves_as_torch_moves_it(members):
    weights, gradients = random_weights(), random_gradients()
    start = weights.clone()
    optimizer = optimizer_of(weights, members)
    for gradient in gradients:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE, norms_of(members))
    for p, member in enumerate(members):
        assert_as_torch(weights[p], torch_path(start[p], gradients[:, p], member))


@every_optimizer
def test_learning_rates_may_move_between_updates(members):
    weights, gradients = random_weights(), random_gradients()
    start = weights.clone()
    optimizer = optimizer_of(weights, members)
    rates = rates_of(members) * torch.linspace(2.0, 0.0, NUM_UPDATES)[:, None]
    for gradient, lr in zip(gradients, rates, strict=True):
        move(optimizer, weights, gradient, lr, ACTIVE, norms_of(members))
    for p, member in enumerate(members):
        expected = torch_path(start[p], gradients[:, p], member, rates[:, p])
        assert_as_torch(weights[p], expected)


@every_optimizer
def test_a_member_moves_as_it_does_alone(members):
    together, gradients = random_weights(), random_gradients()
    alone = [together[p : p + 1].clone() for p in range(NUM_MEMBERS)]
    optimizer = optimizer_of(together, members)
    alone_optimizers = [optimizer_of(w, [m]) for m, w in zip(members, alone, strict=True)]
    lr = rates_of(members)
    for gradient in gradients:
        move(optimizer, together, gradient, lr, ACTIVE)
        for p, alone_optimizer in enumerate(alone_optimizers):
            row = slice(p, p + 1)
            move(alone_optimizer, alone[p], gradient[row], lr[row], ACTIVE[row])
    torch.testing.assert_close(together, torch.cat(alone))


@every_optimizer
def test_inactive_members_stand_still_and_begin_as_if_nothing_had_been(members):
    weights, gradients = random_weights(), random_gradients()
    start = weights.clone()
    optimizer = optimizer_of(weights, members)
    before = snapshot(optimizer)
    late = 10
    for update, gradient in enumerate(gradients):
        active = torch.tensor([True, update >= late, True, False])
        move(optimizer, weights, gradient, rates_of(members), active, norms_of(members))
        if update < late:
            assert torch.equal(weights[1], start[1])
    assert torch.equal(weights[3], start[3])
    for name, tensor in optimizer.state().items():
        assert torch.equal(tensor[3], before[name][3]), name
    assert_as_torch(weights[1], torch_path(start[1], gradients[late:, 1], members[1]))
    assert_as_torch(weights[2], torch_path(start[2], gradients[:, 2], members[2]))


@every_optimizer
@pytest.mark.parametrize("value", [nan, float("inf")])
def test_an_inactive_member_keeps_everything_whatever_its_gradient(members, value):
    """A step that is stopped because its loss overflowed must not bring the overflow in."""
    weights, gradients = random_weights(), random_gradients()
    optimizer = optimizer_of(weights, members)
    move(optimizer, weights, gradients[20], rates_of(members), ACTIVE)
    kept, before = weights.clone(), snapshot(optimizer)
    gradients[21, 2] = value
    active = torch.tensor([True, True, False, True])
    move(optimizer, weights, gradients[21], rates_of(members), active)
    assert torch.equal(weights[2], kept[2])
    for name, tensor in optimizer.state().items():
        assert torch.equal(tensor[2], before[name][2]), name
    assert (weights[[0, 1, 3]] != kept[[0, 1, 3]]).any(dim=1).all()


def test_adam_counts_each_members_own_updates():
    weights, gradients = random_weights(), random_gradients()
    adam = optimizer_of(weights, ADAM)
    for update, gradient in enumerate(gradients):
        active = torch.tensor([True, update >= 10, True, False])
        move(adam, weights, gradient, rates_of(ADAM), active)
    assert adam.averages.updates.flatten().tolist() == [
        NUM_UPDATES,
        NUM_UPDATES - 10,
        NUM_UPDATES,
        0,
    ]


@every_optimizer
def test_a_member_whose_gradient_is_no_number_harms_itself_alone(members):
    weights, gradients = random_weights(), random_gradients()
    gradients[5, 2, 0] = nan
    start = weights.clone()
    optimizer = optimizer_of(weights, members)
    for gradient in gradients:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE, norms_of(members))
    assert not weights[2].isfinite().all()
    for p in (0, 1, 3):
        assert_as_torch(weights[p], torch_path(start[p], gradients[:, p], members[p]))


@every_optimizer
def test_a_member_that_forgets_begins_anew(members):
    weights, gradients = random_weights(), random_gradients()
    optimizer = optimizer_of(weights, members)
    for gradient in gradients[:10]:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE)
    optimizer.forget()
    fresh_weights = weights.clone()
    fresh = optimizer_of(fresh_weights, members)
    for gradient in gradients[10:]:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE)
        move(fresh, fresh_weights, gradient, rates_of(members), ACTIVE)
    assert torch.equal(weights, fresh_weights)


@every_optimizer
def test_state_is_all_that_an_optimizer_remembers(members):
    weights, gradients = random_weights(), random_gradients()
    optimizer = optimizer_of(weights, members)
    for gradient in gradients[:10]:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE)
    other_weights = weights.clone()
    other = optimizer_of(other_weights, members)
    for name, tensor in other.state().items():
        assert len(tensor) == NUM_MEMBERS
        tensor.copy_(optimizer.state()[name])
    for gradient in gradients[10:]:
        move(optimizer, weights, gradient, rates_of(members), ACTIVE)
        move(other, other_weights, gradient, rates_of(members), ACTIVE)
    assert torch.equal(weights, other_weights)


def test_the_configuration_names_the_optimizer():
    weights = random_weights()
    assert isinstance(optimizer_of(weights, ADAM), Adam)
    assert isinstance(optimizer_of(weights, ADAMW), Adam)
    assert isinstance(optimizer_of(weights, SGD_), SGD)


@every_optimizer
def test_a_target_goes_its_share_of_the_way_to_where_the_weights_are_now(members):
    weights, gradients = random_weights(), random_gradients()
    optimizer, behind = optimizer_of(weights, members), random_weights() + 1.0
    share, before = torch.tensor([0.0, 0.25, 1.0, 0.5]), behind.clone()
    active = torch.tensor([True, True, True, False])  # a member that stands still is followed too
    target = TargetWeights(behind, share)
    move(optimizer, weights, gradients[9], rates_of(members), active, target=target)
    torch.testing.assert_close(behind, before + (weights - before) * share[:, None])
    assert torch.equal(behind[0], before[0])
    assert torch.equal(behind[2], weights[2])


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3])
def test_clipping_is_torch_clip_grad_norm(scale):
    gradients = scale * random_gradients()[-1]
    max_norms = torch.tensor([0.1, 1.0, 10.0, 1e6])
    scale, norms = clipping(gradients, max_norms)
    clipped = gradients * scale[:, None]
    for p, max_norm in enumerate(max_norms.tolist()):
        weights = torch.zeros(NUM_WEIGHTS, requires_grad=True)
        weights.grad = gradients[p].clone()
        expected = torch.nn.utils.clip_grad_norm_([weights], max_norm)
        torch.testing.assert_close(clipped[p], weights.grad)
        torch.testing.assert_close(norms[p], expected)
