"""Adam and clipping against torch's, member by member."""

import pytest
import torch
from torch import Tensor

from hpsearch.trainers.optim import Adam, AdamNumbers, clip_norm

# Of each member: beta1, beta2, eps, largest norm of the gradient, learning rate.
MEMBERS = (
    (0.9, 0.999, 1e-8, 1e9, 1e-3),
    (0.5, 0.9, 1e-3, 0.5, 3e-2),
    (0.0, 0.99, 1e-6, 3.0, 1e-1),
    (0.95, 0.0, 1e-1, 1.0, 1e-2),
)
NUM_WEIGHTS, NUM_UPDATES = 7, 25


def column(numbers) -> Tensor:
    return torch.tensor(numbers)[:, None]


def adam_of(members, weights: Tensor) -> Adam:
    beta1, beta2, eps, max_norm, _ = zip(*members, strict=True)
    return Adam(weights, AdamNumbers(column(beta1), column(beta2), column(eps), column(max_norm)))


def random_weights() -> Tensor:
    return torch.randn(len(MEMBERS), NUM_WEIGHTS, generator=torch.Generator().manual_seed(0))


def random_gradients() -> Tensor:
    generator = torch.Generator().manual_seed(1)
    scales = torch.logspace(-3, 1, NUM_UPDATES)[:, None, None]
    return scales * torch.randn(NUM_UPDATES, len(MEMBERS), NUM_WEIGHTS, generator=generator)


def torch_path(start: Tensor, gradients: Tensor, member) -> Tensor:
    """Return the weights that torch's own Adam and clipping lead to, in float64."""
    beta1, beta2, eps, max_norm, lr = member
    weights = start.double().requires_grad_()
    optimizer = torch.optim.Adam([weights], lr=lr, betas=(beta1, beta2), eps=eps)
    for gradient in gradients:
        weights.grad = gradient.double()
        torch.nn.utils.clip_grad_norm_([weights], max_norm)
        optimizer.step()
    return weights.detach()


def test_every_member_moves_as_torch_adam_moves_it():
    weights, gradients = random_weights(), random_gradients()
    start = weights.clone()
    adam = adam_of(MEMBERS, weights)
    lr = torch.tensor([member[4] for member in MEMBERS])
    for gradient in gradients:
        adam.step(weights, gradient, lr, torch.ones(len(MEMBERS), dtype=torch.bool))
    for p, member in enumerate(MEMBERS):
        expected = torch_path(start[p], gradients[:, p], member)
        torch.testing.assert_close(weights[p].double(), expected, rtol=1e-4, atol=1e-5)


def test_a_member_moves_as_it_does_alone():
    together, gradients = random_weights(), random_gradients()
    alone = [together[p : p + 1].clone() for p in range(len(MEMBERS))]
    adam = adam_of(MEMBERS, together)
    alone_adams = [adam_of([m], w) for m, w in zip(MEMBERS, alone, strict=True)]
    lr = torch.tensor([member[4] for member in MEMBERS])
    active = torch.ones(len(MEMBERS), dtype=torch.bool)
    for gradient in gradients:
        adam.step(together, gradient, lr, active)
        for p, alone_adam in enumerate(alone_adams):
            row = slice(p, p + 1)
            alone_adam.step(alone[p], gradient[row], lr[row], active[row])
    torch.testing.assert_close(together, torch.cat(alone))


def test_inactive_members_stand_still_and_begin_as_if_nothing_had_been():
    weights, gradients = random_weights(), random_gradients()
    start = weights.clone()
    adam = adam_of(MEMBERS, weights)
    lr = torch.tensor([member[4] for member in MEMBERS])
    late = 10
    for update, gradient in enumerate(gradients):
        active = torch.tensor([True, update >= late, True, False])
        adam.step(weights, gradient, lr, active)
        if update < late:
            assert torch.equal(weights[1], start[1])
    assert torch.equal(weights[3], start[3])
    assert adam.count.flatten().tolist() == [NUM_UPDATES, NUM_UPDATES - late, NUM_UPDATES, 0]
    expected = torch_path(start[1], gradients[late:, 1], MEMBERS[1])
    torch.testing.assert_close(weights[1].double(), expected, rtol=1e-4, atol=1e-5)


def test_a_member_whose_gradient_is_no_number_harms_itself_alone():
    weights, gradients = random_weights(), random_gradients()
    gradients[5, 2, 0] = float("nan")
    start = weights.clone()
    adam = adam_of(MEMBERS, weights)
    lr = torch.tensor([member[4] for member in MEMBERS])
    for gradient in gradients:
        adam.step(weights, gradient, lr, torch.ones(len(MEMBERS), dtype=torch.bool))
    assert not weights[2].isfinite().all()
    for p in (0, 1, 3):
        expected = torch_path(start[p], gradients[:, p], MEMBERS[p])
        torch.testing.assert_close(weights[p].double(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [0.0, 1e-3, 1.0, 1e3])
def test_clip_norm_is_torch_clip_grad_norm(scale):
    gradients = scale * random_gradients()[-1]
    max_norms = torch.tensor([[0.1], [1.0], [10.0], [1e6]])
    clipped = clip_norm(gradients, max_norms)
    for p, max_norm in enumerate(max_norms.flatten().tolist()):
        weights = torch.zeros(NUM_WEIGHTS, requires_grad=True)
        weights.grad = gradients[p].clone()
        torch.nn.utils.clip_grad_norm_([weights], max_norm)
        torch.testing.assert_close(clipped[p], weights.grad)
