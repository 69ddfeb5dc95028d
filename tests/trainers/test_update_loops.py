"""The loops of an update on a CPU compute what the formulas do that other devices follow."""

import pytest
import torch

from hpsearch.trainers import dqn, dqn_cpu, moves, moves_cpu

NUM_RINGS, NUM_PLACES, NUM_GAMES = 3, 35, 5


def random_rings(generator: torch.Generator, num_points: int) -> moves.Rings:
    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(NUM_RINGS, NUM_PLACES, *shape, generator=generator)

    return moves.Rings(
        points=(numbers(num_points, 3) * 100).int(),
        observation=numbers(7),
        subset=(numbers() * 100).long(),
        action=(numbers() * 100).long(),
        reward=numbers().where(numbers() < 2.0, torch.inf),
        done=numbers() > 0.8,
        last=numbers() > 1.0,
    )


@pytest.mark.parametrize("n_step", [1, 2, 7])
@pytest.mark.parametrize("num_points", [0, 2])
def test_moves_are_found_as_by_tensors(n_step, num_points):
    generator = torch.Generator().manual_seed(n_step)
    rings = random_rings(generator, num_points)
    added = torch.tensor([20, 35, 1005])
    drawn = torch.randint(NUM_PLACES, (NUM_RINGS, 200), generator=generator)
    arguments = {
        "places": drawn,
        "weight": torch.rand(drawn.shape, generator=generator),
        "added": added,
        "gamma": torch.tensor([0.0, 0.9, 1.0]),
        "n_step": n_step,
    }
    expected = moves.look_up(rings, NUM_GAMES, **arguments)
    found = moves_cpu.look_up(rings, NUM_GAMES, **arguments)
    for name, part in expected._asdict().items():
        same = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}
        torch.testing.assert_close(getattr(found, name), part, **same, msg=name)


def test_the_best_value_is_that_of_argmax():
    generator = torch.Generator().manual_seed(0)
    choices = torch.tensor([-1.0, 0.0, 2.0, torch.inf, -torch.inf, torch.nan])
    index = torch.randint(len(choices), (4, 500, 5), generator=generator)
    values, chooser = torch.randn(index.shape, generator=generator), choices[index]
    legal = torch.rand(index.shape, generator=generator) > 0.4
    expected = dqn.best_value(values, chooser, legal)
    assert torch.equal(dqn_cpu.best_value(values, chooser, legal), expected)


def test_errors_losses_and_gradients_are_those_of_autograd():
    generator = torch.Generator().manual_seed(0)
    values = torch.randn(3, 64, 4, generator=generator).requires_grad_()
    batch = {
        "action": torch.randint(4, (3, 64), generator=generator),
        "target": torch.randn(3, 64, generator=generator),
        "weight": torch.rand(3, 64, generator=generator),
        "delta": torch.tensor([[0.1], [1.0], [torch.inf]]),
    }
    batch["target"][0, 0], batch["target"][1, 3] = torch.nan, torch.inf
    told = []
    for difference in (dqn.temporal_difference, dqn_cpu.temporal_difference):
        loss, value, error = difference(values, **batch)
        factor = torch.tensor([1.0, 2.0, 3.0])
        (gradient,) = torch.autograd.grad((loss * factor).sum(), values)
        told.append((loss, value, error, gradient))
    for expected, found in zip(*told, strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)
