"""The seed's update as a baseline computes what its description says, by formulas in float64."""

import pytest
import torch
from seed_dqn import SeedDQN, SeedLearning, network
from torch import Tensor, nn

RESIDUAL = ["r6", "r6"]


def seed(net_arch) -> SeedDQN:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        learning = SeedLearning(net_arch, 16, 50, lr=1e-3, gamma=0.99, max_grad_norm=10.0)
        return SeedDQN((4, 3), 4, learning)


def normalised(x: Tensor) -> Tensor:
    """Return rows of mean 0 and variance 1, as fresh norms give them."""
    return (x - x.mean(0)) / (x.var(0, correction=0) + 1e-5).sqrt()


def values(net: nn.Module, x: Tensor, is_residual: bool) -> Tensor:
    """Return a network's values by its formula, with the batch's own moments."""
    linears = [m for m in net.modules() if isinstance(m, nn.Linear)]
    first, *rest = ((m.weight.double().T, m.bias.double()) for m in linears)
    x = x.double().flatten(1).relu()
    if not is_residual:
        for number, (weight, bias) in enumerate([first, *rest]):
            x = (x.relu() if number == 1 else x) @ weight + bias
        return x
    second, skip, third, fourth, last = rest
    y = normalised(normalised(x @ first[0] + first[1]).relu() @ second[0] + second[1])
    x = (y + normalised(x @ skip[0] + skip[1])).relu()
    y = normalised(normalised(x @ third[0] + third[1]).relu() @ fourth[0] + fourth[1])
    return (y + x) @ last[0] + last[1]


@pytest.mark.parametrize("net_arch", [RESIDUAL, [6, 6]], ids=["residual", "plain"])
def test_an_update(net_arch):
    learner = seed(net_arch)
    for own in learner.target_net.parameters():  # norms stay the identity
        if own.ndim == 2:
            own.data.mul_(0.9)
    observation, action, reward, done, next_observation = batch = learner.sample()
    is_residual = net_arch == RESIDUAL
    next_value = values(learner.target_net, next_observation, is_residual).amax(1, keepdim=True)
    target = reward + learner.learning.gamma * torch.where(done, 0.0, next_value)
    parameters = list(learner.net.parameters())
    before = [own.detach().clone() for own in parameters]
    error = values(learner.net, observation, is_residual).gather(1, action.long()) - target.detach()
    expected = torch.where(error.abs() < 1, error.square() / 2, error.abs() - 0.5).mean()
    gradients = torch.autograd.grad(expected, parameters, materialize_grads=True)
    assert sum(each.square().sum() for each in gradients).sqrt() < learner.learning.max_grad_norm
    # The learner computes in float32, of which this is the rounding of a sum.
    near = {"rtol": 1.3e-6, "atol": 0.0, "check_dtype": False}
    torch.testing.assert_close(learner.update(batch).double(), expected.detach(), **near)
    for own, old, gradient in zip(parameters, before, gradients, strict=True):
        # Adam's first step is as long for every weight whose gradient is not all but 0.
        moves = gradient.abs() > 1e-5
        step = -learner.learning.lr * gradient.sign()
        torch.testing.assert_close((own - old)[moves], step[moves], rtol=1e-2, atol=0.0)


def test_a_network_has_no_activation_before_its_last_layer():
    kinds = [type(module).__name__ for module in network(12, [6, 6], 4)]
    assert kinds == ["Flatten", "ReLU", "Linear", "ReLU", "Linear", "Linear"]
