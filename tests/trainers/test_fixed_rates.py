"""A learner's opponent plays at its own rate, whichever games it is given."""

import pytest
import torch
from torch import Tensor

from hpsearch.trainers.policies import (
    FixedRatePolicy,
    LearnedPolicy,
    Position,
    RegroupedPolicy,
    Turn,
)

NUM_MEMBERS, NUM_GAMES, NUM_POINTS, DIMENSION = 3, 40, 2, 3
NUM_FEATURES = NUM_POINTS * DIMENSION


class RowNetwork:
    """Stands for a network of R members: each a matrix of its own."""

    def __init__(self, num_rows: int, num_inputs: int, num_outputs: int) -> None:
        generator = torch.Generator().manual_seed(num_rows)
        self.weights = torch.randn(num_rows, num_inputs, num_outputs, generator=generator)

    def __call__(self, features: Tensor) -> Tensor:
        return features @ self.weights


def seen(points: Tensor) -> Position:
    """Return points as players see them here: as they are."""
    return Position(points, lambda: points.flatten(2).float())


def host(num_rows: int, plays_by="values") -> LearnedPolicy:
    return LearnedPolicy(RowNetwork(num_rows, NUM_FEATURES, 4), plays_by)


def agent(num_rows: int, plays_by="values") -> LearnedPolicy:
    return LearnedPolicy(RowNetwork(num_rows, NUM_FEATURES + DIMENSION, 3), plays_by)


@pytest.fixture
def games() -> tuple[Tensor, Tensor, Tensor]:
    """Return points, subsets and noise of P members' games."""
    generator = torch.Generator().manual_seed(7)
    shape = NUM_MEMBERS, NUM_GAMES
    points = torch.randint(0, 9, (*shape, NUM_POINTS, DIMENSION), generator=generator)
    subset = torch.rand(*shape, DIMENSION, generator=generator) < 0.5
    subset[..., :2] |= subset.sum(dim=2, keepdim=True) < 2
    return points.to(torch.int32), subset, torch.rand(*shape, 2, generator=generator)


@pytest.mark.parametrize("plays_by", ["values", "probabilities"])
@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("asked", [torch.tensor(0.0), torch.ones(NUM_MEMBERS, 1)])
def test_a_seat_draws_at_its_own_rate_whatever_is_asked(games, plays_by, rate, asked):
    points, subset, noise = games
    own = torch.tensor(rate)
    policy, other = host(NUM_MEMBERS, plays_by), agent(NUM_MEMBERS, plays_by)
    actions = FixedRatePolicy(policy, rate)(Turn(seen(points), None, noise, asked))
    assert torch.equal(actions, policy(Turn(seen(points), None, noise, own)))
    axes = FixedRatePolicy(other, rate)(Turn(seen(points), subset, noise, asked))
    assert torch.equal(axes, other(Turn(seen(points), subset, noise, own)))


def row_of(member: int, game: int, num_rows: int) -> int:
    """Return who plays a game: one for all, or each member's share of the rows in turn."""
    if num_rows == 1:
        return 0
    at_once = num_rows // NUM_MEMBERS
    return member * at_once + game // (NUM_GAMES // at_once)


@pytest.mark.parametrize("num_rows", [1, NUM_MEMBERS, 4 * NUM_MEMBERS])
@pytest.mark.parametrize("exploration", ["one", "members", "games"])
def test_regrouped_players_play_the_games_that_are_theirs(games, num_rows, exploration):
    """Against a loop: game by game, a network of the one row that plays it."""
    points, subset, noise = games
    shape = {"one": (), "members": (NUM_MEMBERS, 1), "games": (NUM_MEMBERS, NUM_GAMES)}
    rates = torch.rand(shape[exploration], generator=torch.Generator().manual_seed(3))
    policy, other = host(num_rows), agent(num_rows)
    actions = RegroupedPolicy(policy, num_rows)(Turn(seen(points), None, noise, rates))
    axes = RegroupedPolicy(other, num_rows)(Turn(seen(points), subset, noise, rates))
    assert actions.shape == axes.shape == (NUM_MEMBERS, NUM_GAMES)
    every_rate = rates.expand(NUM_MEMBERS, NUM_GAMES)
    for p in range(NUM_MEMBERS):
        for game in range(NUM_GAMES):
            row, at = row_of(p, game, num_rows), (slice(p, p + 1), slice(game, game + 1))
            row_host, another = host(num_rows), agent(num_rows)
            row_host.net.weights = policy.net.weights[row : row + 1]
            another.net.weights = other.net.weights[row : row + 1]
            action = row_host(Turn(seen(points[at]), None, noise[at], every_rate[at]))
            assert action.item() == actions[p, game]
            axis = another(Turn(seen(points[at]), subset[at], noise[at], every_rate[at]))
            assert axis.item() == axes[p, game]
