"""The baseline plays the same game as the rules, so that its speed can be compared."""

import pytest
import torch
from seed_game import PublishedGame, SeedGame, choose_first, random_host, rescale

from hpsearch.game import HostActionEncoder, rules
from hpsearch.game.random import derive_key, random_starts

NUM_GAMES, NUM_MOVES = 400, 12
VARIANTS = pytest.mark.parametrize("variant", [SeedGame, PublishedGame])
SHAPES = pytest.mark.parametrize(("num_points", "dimension"), [(20, 3), (5, 3), (7, 4), (2, 2)])


@pytest.fixture(autouse=True)
def _same_numbers_each_time():
    with torch.random.fork_rng():
        torch.manual_seed(1)
        yield


def starts(num_points: int, dimension: int) -> torch.Tensor:
    keys = torch.tensor([derive_key(1, "seed game")])
    numbers = torch.zeros(1, NUM_GAMES, dtype=torch.int64)
    sizes = {"num_points": num_points, "dimension": dimension, "max_value": 6}
    return random_starts(keys, numbers, **sizes)[0]


def canonical(points: torch.Tensor) -> torch.Tensor:
    assert torch.equal(points, points.round())  # exact: small integers in float32
    return rules.sort_points(points.to(torch.int32))


@VARIANTS
@SHAPES
def test_moves_are_those_of_the_rules(variant, num_points, dimension):
    points = starts(num_points, dimension)
    seed = points.float()[:, torch.randperm(num_points)]
    num_actions = HostActionEncoder(dimension).num_actions
    game = variant(dimension, random_host(num_actions), choose_first, rescale=False)
    for _ in range(NUM_MOVES):
        action = torch.randint(num_actions, (NUM_GAMES,))
        subset = game.decode(action)
        axis = (subset * torch.rand(subset.shape)).argmax(dim=1)
        over = rules.is_over(points)
        moved = rules.move(points, subset, axis)
        points = torch.where(over[:, None, None], points, moved)
        seed = game.newton_polytope(game.shift(seed, subset, axis))
        assert torch.equal(canonical(seed), points)


@VARIANTS
def test_repeated_points_and_those_above_others_go(variant):
    points = torch.randint(-1, 4, (NUM_GAMES, 9, 3))
    points = torch.where(points[..., :1] < 0, -1, points.abs())
    game = variant(3, random_host(4), choose_first, rescale=False)
    reduced = canonical(game.newton_polytope(points.float()))
    assert torch.equal(reduced, rules.newton_polytope(points.to(torch.int32)))


@VARIANTS
def test_a_step_shows_the_games_that_were_not_over(variant):
    points = starts(5, 3).float()
    game = variant(3, random_host(4), choose_first, rescale=False)
    for _ in range(NUM_MOVES):
        over = rules.is_over(points)
        moved, sample = game.step(points)
        assert len(sample.action) == (~over).sum()
        assert torch.equal(sample.done, rules.is_over(moved)[~over])
        assert torch.equal(sample.reward, sample.done.float())
        assert torch.equal(moved[over], points[over])
        axis = game.decode(sample.action).to(torch.uint8).argmax(dim=1)
        ours = rules.move(
            rules.sort_points(points[~over].to(torch.int32)), game.decode(sample.action), axis
        )
        assert torch.equal(canonical(moved[~over]), ours)
        assert torch.equal(game.features(moved)[~over], sample.next_observation)
        points = moved


def test_rescaled_games_are_seen_as_ours_are():
    points = starts(20, 3)
    seen = SeedGame(3, random_host(4), choose_first, rescale=True).features(rescale(points.float()))
    # Sorted by the first coordinate alone; the order of equal ones is not compared.
    first = seen.unflatten(1, (20, 3))[..., 0]
    assert torch.equal(first, rules.observe(points).unflatten(1, (20, 3))[..., 0])
