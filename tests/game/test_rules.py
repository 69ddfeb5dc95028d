import json
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from point_sets import Point, as_points, as_tensor, minimal_points, moved_points
from point_sets import repositioned_points as expected_reposition

from hpsearch.game import HostActionEncoder, rules

CASES = json.loads((Path(__file__).parents[1] / "data" / "game_cases.json").read_text())


def subset_of(dimension: int, members: list[int]) -> torch.Tensor:
    return torch.tensor([k in members for k in range(dimension)])


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_every_recorded_case(case):
    """160 games that the seed system's own operators played on exact integers."""
    dimension = case["dimension"]
    points = rules.newton_polytope(torch.tensor(case["points"], dtype=torch.int32))
    assert as_points(points) == sorted(map(tuple, case["minimal"]), reverse=True)
    encoder = HostActionEncoder(dimension)
    for recorded in case["moves"]:
        subset = subset_of(dimension, recorded["subset"])
        assert encoder.encode(subset) == recorded["host_action"]
        assert torch.equal(encoder.decode(torch.tensor(recorded["host_action"])), subset)
        points = rules.move(points, subset, torch.tensor(recorded["agent_axis"]))
        assert as_points(points) == sorted(map(tuple, recorded["points"]), reverse=True)
        assert rules.is_over(points) == recorded["done"]
        repositioned = sorted(map(tuple, recorded["repositioned"]), reverse=True)
        assert as_points(rules.reposition(points)) == repositioned


def test_the_seed_systems_example():
    points = as_tensor([(1, 2, 3, 4), (2, 3, 4, 5), (4, 1, 2, 3), (1, 6, 7, 3)], 4)
    points = rules.newton_polytope(points)
    assert as_points(points) == [(4, 1, 2, 3), (1, 6, 7, 3), (1, 2, 3, 4)]
    shifted = rules.shift(points, subset_of(4, [1, 2]), torch.tensor(1))
    assert as_points(shifted) == [(4, 3, 2, 3), (1, 13, 7, 3), (1, 5, 3, 4)]
    repositioned = rules.reposition(shifted)
    assert as_points(repositioned) == [(3, 0, 0, 0), (0, 10, 5, 0), (0, 2, 1, 1)]
    observed = rules.observe(repositioned).unflatten(-1, (4, 4))
    assert torch.equal(observed[:3], repositioned[:3] / torch.tensor(10.0))
    assert (observed[3] == -1).all()


@st.composite
def point_lists(draw):
    """Up to 12 points, often with ties and duplicates, and a legal move."""
    dimension = draw(st.integers(2, 10))
    largest = draw(st.sampled_from([0, 1, 2, 20, rules.MAX_COORDINATE]))
    point = st.tuples(*[st.integers(0, largest)] * dimension)
    points: list[Point] = draw(st.lists(point, min_size=1, max_size=12))
    subset = draw(st.lists(st.integers(0, dimension - 1), min_size=2, unique=True))
    return points, subset, draw(st.sampled_from(subset))


@given(point_lists())
@settings(deadline=None, max_examples=200)
def test_operators_equal_their_definition(game):
    points, subset, axis = game
    tensor = as_tensor(points, len(points) + 1)
    reduced = rules.newton_polytope(tensor)
    minimal = minimal_points(points)
    assert torch.equal(reduced, as_tensor(minimal, len(points) + 1))
    assert rules.is_over(reduced) == (len(minimal) <= 1)
    assert torch.equal(
        rules.reposition(reduced), as_tensor(expected_reposition(minimal), len(points) + 1)
    )
    moved = rules.move(reduced, subset_of(len(points[0]), subset), torch.tensor(axis))
    expected = moved_points(minimal, subset, axis)
    capped = max(map(max, expected)) > rules.MAX_COORDINATE
    assert rules.is_capped(moved) == capped
    if not capped:
        assert torch.equal(moved, as_tensor(expected, len(points) + 1))


def test_order_of_the_input_does_not_matter():
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, 9, (30, 15, 4), generator=generator, dtype=torch.int32)
    points[:, 3] = -1
    shuffled = points[:, torch.randperm(15, generator=generator)]
    assert torch.equal(rules.newton_polytope(points), rules.newton_polytope(shuffled))


def test_reposition_changes_no_length():
    generator = torch.Generator().manual_seed(1)
    points = torch.randint(0, 21, (200, 10, 3), generator=generator, dtype=torch.int32)
    free = rules.newton_polytope(points)
    moved = free
    encoder = HostActionEncoder(3)
    for _ in range(8):
        subset = encoder.decode(torch.randint(4, (200,), generator=generator))
        axis = torch.multinomial(subset.float(), 1, generator=generator).squeeze(-1)
        free = rules.move(free, subset, axis)
        moved = rules.reposition(rules.move(moved, subset, axis))
        assert not rules.is_capped(free).any()
        assert torch.equal(rules.reposition(free), moved)


def test_a_game_is_capped_above_two_to_the_thirty():
    for coordinate, expected in ((2**30, False), (2**30 + 1, True), (2**31 - 1, True)):
        points = as_tensor([(coordinate, 0, 1), (0, 2, 1)], 3)
        assert rules.is_capped(points) == expected
    points = as_tensor([(2**29, 2**29, 0), (1, 2**30, 2**30)], 3)
    subset = subset_of(3, [0, 1])
    assert not rules.is_capped(rules.move(points[:1], subset, torch.tensor(0)))
    assert rules.is_capped(rules.move(points[1:], subset, torch.tensor(0)))


def test_sums_saturate_and_never_wrap():
    largest = rules.MAX_COORDINATE
    points = as_tensor([(largest, 0, largest), (0, largest, largest)], 3)
    everything = torch.ones(3, dtype=torch.bool)
    assert not rules.is_capped(points)
    shifted = rules.shift(points, everything, torch.tensor(0))
    assert as_points(shifted) == [(largest + 1, largest, largest), (largest + 1, 0, largest)]
    assert rules.is_capped(shifted)
    assert rules.is_capped(rules.move(points, everything, torch.tensor(0)))


@pytest.mark.parametrize(
    ("subset", "axis"), [([0, 1], 2), ([1], 1), ([], 0), ([0, 1, 2], 3), ([0, 1, 2], -1)]
)
def test_an_illegal_move_is_an_error(subset, axis):
    points = as_tensor([(1, 0, 2), (0, 2, 1)], 2)
    with pytest.raises(ValueError, match=rf"subset={subset}".replace("[", r"\[")) as caught:
        rules.move(points, subset_of(3, subset), torch.tensor(axis))
    assert f"axis={axis}" in str(caught.value)


def test_observations():
    points = torch.tensor([[[3, 1], [0, 2]], [[0, 0], [-1, -1]]], dtype=torch.int32)
    observed = rules.observe(points)
    assert observed.dtype == torch.float32
    third = torch.tensor(1.0) / 3
    assert torch.equal(observed, torch.tensor([[1, third, 0, 2 * third], [0, 0, -1, -1]]))


@pytest.mark.parametrize("batch", [(), (3,), (2, 3), (1, 1, 2)])
def test_any_batch_shape(batch):
    points = as_tensor([(3, 1, 0), (0, 2, 4), (1, 1, 1)], 5).expand(*batch, 5, 3)
    subset = subset_of(3, [0, 2]).expand(*batch, 3)
    moved = rules.move(points, subset, torch.full(batch, 2))
    assert moved.shape == (*batch, 5, 3)
    assert rules.is_over(moved).shape == rules.is_capped(moved).shape == batch
    assert rules.observe(moved).shape == (*batch, 15)
    assert (
        moved == rules.move(points[(0,) * len(batch)], subset_of(3, [0, 2]), torch.tensor(2))
    ).all()


@pytest.mark.parametrize("dimension", range(2, 8))
def test_host_actions_are_the_subsets_of_two_coordinates_or_more(dimension):
    subsets = [n for n in range(2**dimension) if n.bit_count() >= 2]
    assert list(rules.subset_bits(dimension)) == subsets
    assert rules.HostActionEncoder(dimension).num_actions == len(subsets)


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("dimension", 2, 16), ("max_num_points", 1, 2**40), ("max_value", 1, 2**30),
     ("max_steps", 1, 2**31 - 1)],
)  # fmt: skip
def test_the_ends_of_what_a_game_may_be(name, low, high):
    numbers = {"dimension": 3, "max_num_points": 5, "max_value": 9, "max_steps": 6}

    def config(value):
        return rules.GameConfig(**(numbers | {name: value}), reposition=True, reward="terminal")

    assert getattr(config(low), name) == low
    assert getattr(config(high), name) == high
    for value in (low - 1, *([] if name == "max_num_points" else [high + 1])):
        with pytest.raises(ValueError, match=f"{name} must be at least {low}.* got {name}={value}"):
            config(value)
