import pytest
import torch

from hpsearch.game import rules
from hpsearch.game.kernels import BACKENDS
from hpsearch.game.random import derive_key, random_starts, simplest_start

KEYS = torch.tensor([derive_key("starts", member) for member in range(3)])


def draw(backend: str, starts: torch.Tensor, num_points=20, dimension=3, max_value=20):
    return BACKENDS[backend].random_starts(
        KEYS, starts, num_points=num_points, dimension=dimension, max_value=max_value
    )


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize(
    ("num_points", "dimension", "max_value"), [(20, 3, 20), (5, 3, 20), (2, 2, 1)]
)
def test_starts_are_canonical_and_never_over(backend, num_points, dimension, max_value):
    starts = torch.arange(3 * 100).view(3, 100)
    points = draw(backend, starts, num_points, dimension, max_value)
    assert points.shape == (3, 100, num_points, dimension)
    assert points.dtype == torch.int32
    assert torch.equal(points, rules.newton_polytope(points))
    assert not rules.is_over(points).any()
    assert points.max() <= max_value


@pytest.mark.parametrize("backend", ["reference", "cpu"])
def test_a_start_is_a_function_of_key_lane_and_number(backend):
    starts = torch.tensor([[0, 1, 2, 2**32 - 1]]).expand(3, -1).clone()
    points = draw(backend, starts)
    starts[1, 2] = 77
    changed = draw(backend, starts)
    same = torch.ones(3, 4, dtype=torch.bool)
    same[1, 2] = False
    assert torch.equal((changed == points).all(-1).all(-1), same)
    assert len(points.flatten(0, 1).unique(dim=0)) == 12


def test_what_is_never_drawn_is_the_simplest_start(monkeypatch):
    monkeypatch.setattr("hpsearch.game.random.MAX_ATTEMPTS", 0)
    points = random_starts(
        KEYS, torch.zeros(3, 1, dtype=torch.int64), num_points=3, dimension=2, max_value=4
    )
    expected = torch.tensor([[4, 0], [0, 4], [-1, -1]], dtype=torch.int32)
    assert (points == expected).all()
    assert torch.equal(expected, simplest_start(3, 2, 4, torch.device("cpu")))


@pytest.mark.parametrize("backend", ["reference", "cpu"])
@pytest.mark.parametrize("num_points", [2, 3, 6])
def test_with_coordinates_of_0_and_1_in_a_plane_there_is_one_start(backend, num_points):
    """Two points are left of it alone; one of 28 draws of three is over sixteen times in a row."""
    starts = torch.arange(3 * 400).view(3, 400)
    points = draw(backend, starts, num_points, dimension=2, max_value=1)
    expected = torch.full((num_points, 2), -1, dtype=torch.int32)
    expected[:2] = torch.eye(2, dtype=torch.int32)
    assert (points == expected).all()


def test_pairs_are_uniform():
    """Two points in a plane stay two if x1 > x2 and y1 < y2, all such pairs as likely."""
    num_values = 16
    points = draw("cpu", torch.arange(60_000).view(3, 20_000), 2, 2, num_values - 1)
    for larger, smaller in [
        (points[..., 0, 0], points[..., 1, 0]),
        (points[..., 1, 1], points[..., 0, 1]),
    ]:
        assert (larger > smaller).all()
        counts = (larger * num_values + smaller).flatten().bincount(minlength=num_values**2)
        counts = counts[counts > 0].float()
        assert len(counts) == 120
        chi_square = ((counts - 500) ** 2 / 500).sum()
        assert 70 < chi_square < 180  # 119 degrees of freedom: 119 +- 15


def test_coordinates_are_uniform():
    """Of two points in ten coordinates nearly every pair stays, so no coordinate is biased."""
    points = draw("cpu", torch.arange(30_000).view(3, 10_000), 2, 10, 20)
    counts = points.flatten().bincount(minlength=21).float()
    assert len(counts) == 21
    assert ((counts / counts.mean() - 1).abs() < 0.02).all()
