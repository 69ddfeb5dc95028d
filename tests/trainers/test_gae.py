"""Advantages against the definition: sums of discounted errors, written in plain Python."""

import random

import pytest
import torch

from hpsearch.trainers import gae, ppo_cpu
from hpsearch.trainers.rollouts import Transitions

PLACEHOLDER = torch.zeros(0)


@pytest.fixture(params=[gae.advantages, ppo_cpu.advantages], ids=["torch", "loop"])
def advantages(request):
    return request.param


def rollout(reward, done, truncated) -> Transitions:
    """Return moves (P, T, B) of which only these three matter."""
    nothing = Transitions(*(PLACEHOLDER for _ in Transitions._fields))
    return nothing._replace(reward=reward, done=done, truncated=truncated)


def one_game(advantages, rewards, ends, value, next_value, gamma, gae_lambda) -> list[float]:
    """Return the advantages of one member's game; ``ends`` holds "done", "truncated" or ""."""

    def column(numbers):
        return torch.tensor(numbers)[None, :, None]

    done, truncated = ([end == kind for end in ends] for kind in ("done", "truncated"))
    estimates = advantages(
        rollout(column(rewards), column(done), column(truncated)),
        column(value),
        column(next_value),
        torch.tensor([gamma]),
        torch.tensor([gae_lambda]),
    )
    return estimates.flatten().tolist()


def test_three_moves_by_hand(advantages):
    """Errors 1, 3, 2 at gamma .5; with lambda .5 each further one counts a quarter."""
    value, next_value = [1.0, 2.0, 4.0], [2.0, 6.0, 6.0]
    estimates = one_game(advantages, [1.0, 2.0, 3.0], ["", "", ""], value, next_value, 0.5, 0.5)
    assert estimates == [1 + 3 / 4 + 2 / 16, 3 + 2 / 4, 2.0]


def test_a_finished_game_is_worth_nothing_more(advantages):
    """Errors 1 + .5 * 2 - 1 = 1 and 2 - 2 = 0, whatever is said of the position after the end."""
    estimates = one_game(
        advantages, [1.0, 2.0, 5.0], ["", "done", ""], [1.0, 2.0, 3.0], [2.0, 99.0, 4.0], 0.5, 0.5
    )
    assert estimates == [1.0, 0.0, 4.0]


def test_a_truncated_game_is_worth_what_its_last_position_is(advantages):
    """Errors 1 and 2 + .5 * 8 - 2 = 4 (seeds.md B33)."""
    estimates = one_game(
        advantages,
        [1.0, 2.0, 5.0],
        ["", "truncated", ""],
        [1.0, 2.0, 3.0],
        [2.0, 8.0, 4.0],
        0.5,
        0.5,
    )
    assert estimates == [2.0, 4.0, 4.0]


@pytest.mark.parametrize("end", ["done", "truncated"])
def test_the_next_game_says_nothing_about_this_one(advantages, end):
    """seeds.md B33."""
    ends, value, next_value = ["", "", end, "", ""], [0.1, 0.2, 0.3, 0.4, 0.5], [0.2] * 5
    first = one_game(advantages, [0.0, 0.0, 1.0, 0.0, 0.0], ends, value, next_value, 0.9, 0.9)
    other = one_game(
        advantages,
        [0.0, 0.0, 1.0, 50.0, 70.0],
        ends,
        [*value[:3], 8.0, 9.0],
        [*next_value[:3], 7.0, 6.0],
        0.9,
        0.9,
    )
    assert first[:3] == other[:3]
    assert first[3:] != other[3:]


def by_definition(reward, ends, value, next_value, gamma, gae_lambda) -> list[float]:
    """Return the sum over l of (gamma * lambda)^l * error of the move l later, in one game."""
    estimates = []
    for start in range(len(reward)):
        total = 0.0
        for move in range(start, len(reward)):
            after = 0.0 if ends[move] == "done" else next_value[move]
            error = reward[move] + gamma * after - value[move]
            total += (gamma * gae_lambda) ** (move - start) * error
            if ends[move]:
                break
        estimates.append(total)
    return estimates


@pytest.mark.parametrize("num_moves", [1, 2, 9])
def test_every_game_is_the_sum_of_its_errors(advantages, num_moves):
    draws = random.Random(num_moves)
    shape = (3, num_moves, 20)
    gamma, gae_lambda = torch.tensor([0.9, 1.0, 0.5]), torch.tensor([0.95, 1.0, 0.0])
    generator = torch.Generator().manual_seed(num_moves)
    reward, value, next_value = (torch.randn(shape, generator=generator) for _ in range(3))
    ends = [
        [
            [draws.choice(("", "", "", "done", "truncated")) for _ in range(20)]
            for _ in range(num_moves)
        ]
        for _ in range(3)
    ]
    done, truncated = (
        torch.tensor([[[end == kind for end in row] for row in member] for member in ends])
        for kind in ("done", "truncated")
    )
    estimates = advantages(rollout(reward, done, truncated), value, next_value, gamma, gae_lambda)
    assert estimates.shape == shape
    for member in range(3):
        for game in range(20):
            expected = by_definition(
                reward[member, :, game].tolist(),
                [row[game] for row in ends[member]],
                value[member, :, game].tolist(),
                next_value[member, :, game].tolist(),
                gamma[member].item(),
                gae_lambda[member].item(),
            )
            assert estimates[member, :, game].tolist() == pytest.approx(
                expected, rel=1e-4, abs=1e-5
            )


def test_lambda_one_is_the_return_less_the_value(advantages):
    """Discounted rewards to the end of the game, as Monte Carlo has it."""
    estimates = one_game(
        advantages, [1.0, 2.0, 4.0], ["", "", "done"], [0.5] * 3, [0.5] * 3, 0.5, 1.0
    )
    assert estimates == pytest.approx([1 + 1 + 1 - 0.5, 2 + 2 - 0.5, 4 - 0.5])
