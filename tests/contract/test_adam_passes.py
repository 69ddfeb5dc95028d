"""Every way to make a pass of Adam against the formula, on banks of every size."""

from importlib.util import find_spec

import pytest
import torch
from kernel_states import device_of  # sets up triton's interpreter where there is no GPU
from torch import Tensor

from hpsearch.trainers.config.optim import AdamWArgs
from hpsearch.trainers.optim import PASSES, Adam, TargetWeights, Update

needs_triton = pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
every_pass = pytest.mark.parametrize(
    "name",
    [
        pytest.param("cpu"),
        pytest.param("cuda", marks=needs_triton),
    ],
)
# One block or many, whole ones or not; of one member or several.
SHAPES = [(1, 1), (1, 1024), (3, 1025), (2, 4097), (5, 700)]
BETAS = ((0.9, 0.999), (0.0, 0.99), (0.95, 0.0), (0.5, 0.9), (0.99, 0.9999))
NUM_UPDATES = 12


class Bank:
    """A bank of weights with its optimizer, and what follows it."""

    def __init__(self, name: str, num_members: int, num_weights: int, *, followed: bool) -> None:
        device = device_of(name) if name in ("cpu", "cuda") else torch.device("cpu")
        generator = torch.Generator().manual_seed(num_weights)
        self.weights = torch.randn(num_members, num_weights, generator=generator).to(device)
        self.behind = (self.weights + 1.0) if followed else None
        args = [
            AdamWArgs(1e-2, *BETAS[p], eps=10.0 ** -(p + 3), weight_decay=0.1 * p)
            for p in range(num_members)
        ]
        self.adam = Adam(self.weights, args)
        self.adam._pass = PASSES[name]

    def move(self, gradients: Tensor, scale: Tensor, active: Tensor, share: Tensor) -> None:
        device = self.weights.device
        lr = torch.linspace(1e-3, 1e-1, len(gradients))
        update = Update(*(tensor.to(device) for tensor in (gradients, scale, lr, active)))
        target = None if self.behind is None else TargetWeights(self.behind, share.to(device))
        self.adam.step(self.weights, update, target)

    def tensors(self) -> list[Tensor]:
        behind = [] if self.behind is None else [self.behind]
        return [tensor.cpu() for tensor in (self.weights, *self.adam.state().values(), *behind)]


@every_pass
@pytest.mark.parametrize("followed", [True, False])
@pytest.mark.parametrize(("num_members", "num_weights"), SHAPES)
def test_a_pass_is_the_formula(name, num_members, num_weights, followed):
    """Members rest at times, overflow while they rest, and are followed at times."""
    given = torch.Generator().manual_seed(0)
    own = Bank(name, num_members, num_weights, followed=followed)
    expected = Bank("reference", num_members, num_weights, followed=followed)
    for update in range(NUM_UPDATES):
        gradients = torch.randn(num_members, num_weights, generator=given) * 10.0 ** (update - 6)
        active = torch.rand(num_members, generator=given) < 0.7
        gradients[~active] = float("inf")
        scale = torch.rand(num_members, generator=given)
        share = torch.rand(num_members, generator=given).round(decimals=1)
        for bank in (own, expected):
            bank.move(gradients, scale, active, share)
    for tensor, other in zip(own.tensors(), expected.tensors(), strict=True):
        torch.testing.assert_close(tensor, other, rtol=2e-5, atol=2e-5)


@every_pass
def test_a_share_of_one_makes_them_equal(name):
    bank = Bank(name, 2, 50, followed=True)
    ones = torch.ones(2)
    bank.move(torch.ones(2, 50), ones, ones.bool(), ones)
    assert torch.equal(bank.behind, bank.weights)


@every_pass
def test_an_overflow_is_seen_and_stays_the_members_own(name):
    bank = Bank(name, 3, 20, followed=False)
    gradients = torch.ones(3, 20)
    gradients[1, 4] = float("nan")
    ones = torch.ones(3)
    bank.move(gradients, ones, ones.bool(), ones)
    finite = bank.weights.cpu().isfinite()
    assert not finite[1, 4]
    assert finite.sum() == 59
