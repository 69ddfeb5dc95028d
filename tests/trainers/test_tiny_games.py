"""Small games whose best answer is known are learned in seconds.

A position of two points is their difference d, and a move sets d_i to the sum of d over the
subset. It is over when d has one sign.
"""

from functools import cache
from itertools import combinations

import pytest
import torch

from hpsearch.game import FusedGame, GameConfig
from hpsearch.game.kernels import default_backend
from hpsearch.game.philox import derive_key
from hpsearch.trainers.algorithms import build

CPU = torch.device("cpu")
CAP, NUM_GAMES, SPLIT = 15, 400, "test"


def differences(dimension: int, max_value: int) -> list[tuple[int, ...]]:
    """Return the starts that `evaluate_rho` meets, each as the difference of its two points."""
    config = GameConfig(
        dimension=dimension, max_num_points=2, max_value=max_value, max_steps=CAP, reposition=True
    )
    keys = torch.tensor([derive_key("evaluation", SPLIT)])
    points = FusedGame(config, keys, NUM_GAMES, CPU, default_backend(CPU)).points[0].tolist()
    return [tuple(a - b for a, b in zip(*game, strict=True)) for game in points]


def is_over(d: tuple[int, ...]) -> bool:
    return all(c >= 0 for c in d) or all(c <= 0 for c in d)


def after(d: tuple[int, ...], subset: tuple[int, ...], axis: int) -> tuple[int, ...]:
    return tuple(sum(d[k] for k in subset) if i == axis else c for i, c in enumerate(d))


@cache
def longest(d: tuple[int, int]) -> int:
    """Return how long an agent can survive in two coordinates: Euclid's algorithm."""
    if is_over(d):
        return 0
    return 1 + max(longest(after(d, (0, 1), axis)) for axis in (0, 1))


def subsets(dimension: int) -> list[tuple[int, ...]]:
    return [s for size in range(2, dimension + 1) for s in combinations(range(dimension), size)]


def shortest(d: tuple[int, ...]) -> int:
    """Return how soon a host can win against choose_first: a search in breadth."""
    frontier, moves = {d}, 0
    while not any(is_over(each) for each in frontier):
        frontier = {after(each, s, s[0]) for each in frontier for s in subsets(len(d))}
        moves += 1
    return moves


def tiny_game(dimension: int, max_value: int) -> dict[str, object]:
    return {
        "dimension": dimension,
        "max_num_points": 2,
        "max_value": max_value,
        "max_steps": CAP,
        "rollout_length": 1,
        "replay_buffer.buffer_size": 4000,
        "evaluation.max_steps": CAP,
        "evaluation.opponents": ["choose_first", "all_coord"],
    }


def learning(role: str) -> dict[str, object]:
    changes = {
        "net_arch": [32, 32],
        "optim.args.lr": 1e-3,
        "optim.lr_schedule": {"mode": "linear", "initial": 5e-3, "steps": 250},
        "max_grad_norm": 10.0,
        "batch_size": 128,
        "rollout_size": 32,
        "er": 0.05,
        "er_schedule": {"mode": "linear", "initial": 1.0, "steps": 150},
        "tau": 1.0,
        "steps_before_update_target": 20,
        "huber_delta": 1.0,
    }
    return {f"{role}.{key}": value for key, value in changes.items()}


def mean_length(metric) -> float:
    return 1 / metric.value


def test_an_agent_learns_euclids_algorithm(tiny_config):
    roles = {"agent": "learn", "host": {"player": "all_coord"}}
    config = tiny_config({**tiny_game(2, 8), **roles, **learning("agent")})
    trainer = build([config])
    best = sum(min(longest(d), CAP) for d in differences(2, 8)) / NUM_GAMES
    (before,) = trainer.evaluate_rho(num_games=NUM_GAMES, split=SPLIT)
    trainer.train(250)
    (metrics,) = trainer.evaluate_rho(num_games=NUM_GAMES, split=SPLIT)
    learned = mean_length(metrics["rho/agent/all_coord"])
    assert mean_length(before["rho/agent/all_coord"]) < 0.8 * best
    assert 0.95 * best < learned <= best * (1 + 1e-9)


@pytest.mark.parametrize("double", [True, False])
def test_a_host_learns_to_win_in_the_fewest_moves(tiny_config, double):
    roles = {"agent": {"player": "choose_first"}, "dqn.double": double}
    config = tiny_config({**tiny_game(3, 4), **roles, **learning("host")})
    trainer = build([config])
    best = sum(shortest(d) for d in differences(3, 4)) / NUM_GAMES
    (before,) = trainer.evaluate_rho(num_games=NUM_GAMES, split=SPLIT)
    trainer.train(400)
    (metrics,) = trainer.evaluate_rho(num_games=NUM_GAMES, split=SPLIT)
    learned = mean_length(metrics["rho/host/choose_first"])
    assert mean_length(before["rho/host/choose_first"]) > 1.5 * best
    assert best * (1 - 1e-9) <= learned < 1.1 * best
