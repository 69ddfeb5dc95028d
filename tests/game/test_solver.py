"""Exact values against published ones and against a plain search without tables."""

import random
from itertools import combinations

import pytest

from hpsearch.game.solver import Solver

ADE = {
    "A1": ([[2, 0, 0], [0, 2, 0], [0, 0, 2]], 1),
    "A2": ([[2, 0, 0], [0, 2, 0], [0, 0, 3]], 3),
    "A3": ([[2, 0, 0], [0, 2, 0], [0, 0, 4]], 2),
    "A4": ([[2, 0, 0], [0, 2, 0], [0, 0, 5]], 4),
    "D4": ([[2, 0, 0], [0, 2, 1], [0, 0, 3]], 4),
    "E6": ([[2, 0, 0], [0, 3, 0], [0, 0, 4]], 6),
}


def minimax_depth(points):
    return Solver(len(points[0])).depth(points)


@pytest.mark.parametrize(("points", "depth"), ADE.values(), ids=ADE)
def test_the_published_values(points, depth):
    assert minimax_depth(points) == depth


def minimal(points):
    kept = []
    for point in sorted(set(points)):  # what lies below comes first
        if not any(all(q <= p for q, p in zip(low, point, strict=True)) for low in kept):
            kept.append(point)
    return kept


def wins_within(points, limit):
    """Search without table, symmetry or repositioning."""
    if len(points) <= 1:
        return True
    dimension = len(points[0])
    subsets = [c for size in range(2, dimension + 1) for c in combinations(range(dimension), size)]
    return limit > 0 and any(
        all(
            wins_within(
                minimal(
                    [
                        tuple(
                            sum(p[k] for k in subset) if c == axis else p[c]
                            for c in range(dimension)
                        )
                        for p in points
                    ]
                ),
                limit - 1,
            )
            for axis in subset
        )
        for subset in subsets
    )


@pytest.mark.parametrize("dimension", [2, 3])
def test_the_value_is_the_least_depth_at_which_a_plain_search_wins(dimension):
    rng = random.Random(dimension)
    solver = Solver(dimension)
    for _ in range(25):
        start = [tuple(rng.randint(0, 4) for _ in range(dimension)) for _ in range(4)]
        depth = solver.depth(start)
        if depth <= 5:
            assert wins_within(minimal(start), depth)
            assert depth == 0 or not wins_within(minimal(start), depth - 1)


def test_the_value_of_a_game_that_is_over_is_zero():
    assert minimax_depth([[1, 2, 3]]) == 0
    assert minimax_depth([[1, 2, 3], [1, 2, 3], [4, 4, 4]]) == 0


def test_neither_the_order_of_coordinates_nor_a_translation_changes_the_value():
    rng = random.Random(7)
    for _ in range(10):
        start = [[rng.randint(0, 5) for _ in range(3)] for _ in range(5)]
        moved = [[p[2] + 4, p[0], p[1] + 1] for p in start]
        assert minimax_depth(moved) == minimax_depth(start)


@pytest.mark.parametrize(
    "points", [[[1, 2]], [[1, -1, 0]], [[0.5, 1, 2]], [[2**32, 0, 0], [0, 3, 0]]]
)
def test_what_is_no_position_is_refused(points):
    with pytest.raises(ValueError, match="natural numbers"):
        Solver(3).depth(points)


@pytest.mark.parametrize(("points", "depth"), ADE.values(), ids=ADE)
def test_a_value_is_found_up_to_the_depth_at_which_the_solver_stops(points, depth, monkeypatch):
    monkeypatch.setattr("hpsearch.game.solver.MAX_DEPTH", depth)
    assert minimax_depth(points) == depth
    monkeypatch.setattr("hpsearch.game.solver.MAX_DEPTH", depth - 1)
    with pytest.raises(ValueError, match=f"exceeds MAX_DEPTH={depth - 1}"):
        minimax_depth(points)


def test_a_value_beyond_the_bound_of_the_rules_is_refused():
    huge = 2**30
    with pytest.raises(ValueError, match="2\\^30"):
        minimax_depth([[huge, 0, 1], [0, huge, 2], [3, 1, huge]])
