import numpy as np
import pytest
import torch
from exact_polytope import MAX_EXACT_COORDINATE, exact_polytope
from point_sets import Point, as_points, as_tensor
from scipy.optimize import linprog

from hpsearch.game import rules


def is_vertex(point: Point, others: list[Point]) -> bool:
    """Ask a linear program for a convex combination of the others below the point."""
    if not others:
        return True
    rows = np.array(others).T
    solution = linprog(
        c=np.zeros(len(others)),
        A_ub=rows,
        b_ub=np.array(point) + 1e-9,
        A_eq=np.ones((1, len(others))),
        b_eq=[1],
    )
    return not solution.success


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize(("num_points", "largest"), [(1, 5), (2, 5), (7, 4), (14, 20)])
def test_vertices_equal_a_linear_program(dimension, num_points, largest):
    generator = torch.Generator().manual_seed(num_points)
    shape = (12, num_points, dimension)
    points = torch.randint(0, largest + 1, shape, generator=generator, dtype=torch.int32)
    # Make it harder: all near the plane where the coordinates have one sum.
    points[::2, :, 0] = (largest * dimension // 2 - points[::2, :, 1:].sum(-1)).clamp(min=0)
    for rows, vertices in zip(points, exact_polytope(points), strict=True):
        distinct = sorted(set(as_points(rows)), reverse=True)
        expected = [p for p in distinct if is_vertex(p, [q for q in distinct if q != p])]
        assert as_points(vertices) == expected
        assert torch.equal(vertices, as_tensor(expected, num_points))


def test_a_point_within_an_edge_or_a_face_is_no_vertex():
    edge = as_tensor([(4, 0), (2, 2), (0, 4)], 3)
    assert as_points(exact_polytope(edge)) == [(4, 0), (0, 4)]
    face = as_tensor([(3, 0, 0), (1, 1, 1), (0, 3, 0), (0, 0, 3)], 4)
    assert as_points(exact_polytope(face)) == [(3, 0, 0), (0, 3, 0), (0, 0, 3)]


def test_the_largest_coordinates_are_exact():
    top = MAX_EXACT_COORDINATE
    corners: list[Point] = [(top, 0, 0), (0, top, 0), (0, 0, top)]
    third = top // 3  # three thirds are one less than top, so this point lies below the face
    for inner, stays in [((third, third, third), True), ((third, third, third + 1), False)]:
        vertices = as_points(exact_polytope(as_tensor([*corners, inner], 5)))
        assert (inner in vertices) == stays


def test_the_game_ends_at_the_same_moment():
    generator = torch.Generator().manual_seed(0)
    points = torch.randint(0, 4, (300, 4, 3), generator=generator, dtype=torch.int32)
    exact, minimal = exact_polytope(points), rules.newton_polytope(points)
    assert torch.equal(rules.is_over(exact), rules.is_over(minimal))
    assert rules.is_over(exact).any()


def test_what_is_out_of_range_is_an_error():
    with pytest.raises(ValueError, match="in 2 or 3 coordinates, got dimension=4"):
        exact_polytope(torch.zeros(1, 4, dtype=torch.int32))
    points = as_tensor([(MAX_EXACT_COORDINATE + 1, 0, 0)], 1)
    with pytest.raises(ValueError, match=f"got {MAX_EXACT_COORDINATE + 1}"):
        exact_polytope(points)
