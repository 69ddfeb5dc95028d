"""Longest and shortest games against plain recursion on Python integers, and published depths."""

import math

import numpy as np
import pytest
import torch
from point_sets import Point, as_points, as_tensor, moved_points, repositioned_points

from hpsearch.game.kernels import BACKENDS
from hpsearch.game.players import AGENTS, HOSTS
from hpsearch.game.random import derive_key
from hpsearch.game.rules import HostActionEncoder, subset_bits
from hpsearch.game.solver import SearchLimits, Solver, longest_game, shortest_game

ADE = {
    "A1": ([(2, 0, 0), (0, 2, 0), (0, 0, 2)], 2),
    "A2": ([(2, 0, 0), (0, 2, 0), (0, 0, 3)], 4),
    "A3": ([(2, 0, 0), (0, 2, 0), (0, 0, 4)], 3),
    "A4": ([(2, 0, 0), (0, 2, 0), (0, 0, 5)], 5),
    "D4": ([(2, 0, 0), (0, 2, 1), (0, 0, 3)], 8),
    "E6": ([(2, 0, 0), (0, 3, 0), (0, 0, 4)], 10),
}
LIMITS = SearchLimits(max_moves=40, max_positions=5_000, reposition=True)


@pytest.fixture(scope="module", autouse=True)
def one_thread():
    """Batches this small lose by sharing, above all on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def zeillinger(points):
    return HOSTS["zeillinger"](points, torch.zeros(()))


def all_coord(points):
    return HOSTS["all_coord"](points, torch.zeros(()))


def odd_host(points):
    """Depend on every coordinate, and on their order."""
    weights = torch.tensor([1, 3, 7][: points.shape[-1]])
    return (points.clamp(min=0) * weights).sum((-2, -1)).remainder(2 ** len(weights)) % (
        HostActionEncoder(len(weights)).num_actions
    )


def choose_first(points, subset):
    return AGENTS["choose_first"](points, subset, torch.zeros(()))


def odd_agent(points, subset):
    weights = points.clamp(min=0).sum((-2, -1), keepdim=False).unsqueeze(-1)
    preference = (weights + torch.tensor([0, 2, 4][: subset.shape[-1]])).remainder(5)
    return preference.masked_fill(~subset, -1).argmax(-1)


def random_starts(num_starts, num_points, dimension, max_value, purpose="best response"):
    return BACKENDS["cpu"].random_starts(
        torch.tensor([derive_key("test", purpose)]),
        torch.zeros(1, num_starts, dtype=torch.int64),
        num_points=num_points,
        dimension=dimension,
        max_value=max_value,
    )[0]


def members(bits: int, dimension: int) -> list[int]:
    return [k for k in range(dimension) if bits >> k & 1]


def longest_by_recursion(host, points: list[Point], rows: int, limit: int) -> float:
    if len(points) <= 1:
        return 0
    if limit == 0:
        return math.inf
    dimension = len(points[0])
    action = int(host(as_tensor(points, rows).unsqueeze(0)))
    subset = members(subset_bits(dimension)[action], dimension)
    children = [repositioned_points(moved_points(points, subset, axis)) for axis in subset]
    return 1 + max(longest_by_recursion(host, child, rows, limit - 1) for child in children)


def shortest_by_recursion(agent, points: list[Point], rows: int, limit: int) -> float:
    if len(points) <= 1:
        return 0
    if limit == 0:
        return math.inf
    dimension = len(points[0])
    lengths = []
    for bits in subset_bits(dimension):
        subset = members(bits, dimension)
        chosen = torch.tensor([[k in subset for k in range(dimension)]])
        axis = int(agent(as_tensor(points, rows).unsqueeze(0), chosen))
        child = repositioned_points(moved_points(points, subset, axis))
        lengths.append(shortest_by_recursion(agent, child, rows, limit - 1))
    return 1 + min(lengths)


@pytest.mark.parametrize(("points", "depth"), ADE.values(), ids=ADE)
def test_the_published_depths_of_zeillinger(points, depth):
    starts = as_tensor(sorted(points, reverse=True), 5).unsqueeze(0)
    assert longest_game(zeillinger, starts, LIMITS).tolist() == [depth]


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("host", [zeillinger, odd_host])
def test_the_longest_game_is_that_of_a_plain_recursion(host, dimension):
    limits = SearchLimits(max_moves=7, max_positions=100_000, reposition=True)
    starts = random_starts(40, 4, dimension, 6)
    expected = [longest_by_recursion(host, as_points(start), 4, 7) for start in starts]
    assert longest_game(host, starts, limits).tolist() == expected
    assert len(set(expected)) > 1


@pytest.mark.parametrize("dimension", [2, 3])
@pytest.mark.parametrize("agent", [choose_first, odd_agent])
def test_the_shortest_game_is_that_of_a_plain_recursion(agent, dimension):
    limits = SearchLimits(max_moves=4, max_positions=100_000, reposition=True)
    starts = random_starts(30, 5, dimension, 9)
    expected = [shortest_by_recursion(agent, as_points(start), 5, 4) for start in starts]
    assert shortest_game(agent, starts, limits).tolist() == expected
    assert len(set(expected)) > 2


def test_the_exact_value_lies_between_the_two():
    """No host beats the solver's value and no agent delays beyond it."""
    starts = random_starts(100, 5, 3, 5)
    solver = Solver(3)
    exact = np.array([solver.depth(as_points(start)) for start in starts])
    for host in (zeillinger, odd_host, all_coord):
        assert (longest_game(host, starts, LIMITS) >= exact).all()
    for agent in (choose_first, odd_agent):
        assert (shortest_game(agent, starts, LIMITS) <= exact).all()


def test_a_host_that_follows_the_solver_needs_what_it_says():
    """Against every reply: the longest game of the best host is the exact value."""
    solver = Solver(3)
    encoder = HostActionEncoder(3)

    def best_host(points):
        return torch.tensor([best_action(as_points(position)) for position in points])

    def best_action(points):
        subsets = [members(bits, 3) for bits in subset_bits(3)]
        worst = [max(solver.depth(moved_points(points, s, k)) for k in s) for s in subsets]
        return worst.index(min(worst))

    starts = random_starts(15, 4, 3, 4)
    exact = [solver.depth(as_points(start)) for start in starts]
    assert longest_game(best_host, starts, LIMITS).tolist() == exact
    assert encoder.num_actions == 4


def test_a_cycle_is_unbounded():
    """Axis 2 grows by as much in both points, so repositioned they are where they were."""
    starts = as_tensor([(1, 0, 1), (0, 1, 1)], 3).unsqueeze(0)
    assert longest_game(all_coord, starts, LIMITS).tolist() == [math.inf]


def test_repositioning_changes_no_length_of_a_host_that_sees_no_difference():
    starts = random_starts(60, 4, 3, 5)
    still = SearchLimits(max_moves=40, max_positions=100_000, reposition=False)
    moved = longest_game(zeillinger, starts, LIMITS)
    assert longest_game(zeillinger, starts, still).tolist() == moved.tolist()


def test_a_start_that_is_over_takes_no_move():
    starts = as_tensor([(1, 2, 3)], 3).unsqueeze(0)
    assert longest_game(zeillinger, starts, LIMITS).tolist() == [0]
    assert shortest_game(choose_first, starts, LIMITS).tolist() == [0]


def test_other_starts_change_nothing():
    starts = random_starts(30, 5, 3, 5)
    together = shortest_game(choose_first, starts, LIMITS).tolist()
    alone = [shortest_game(choose_first, start.unsqueeze(0), LIMITS).item() for start in starts]
    assert together == alone


@pytest.mark.parametrize("max_moves", [0, 3, 9, 10])
def test_what_takes_longer_than_the_limit_is_unbounded(max_moves):
    limits = SearchLimits(max_moves=max_moves, max_positions=100_000, reposition=True)
    starts = torch.stack([as_tensor(sorted(points, reverse=True), 3) for points, _ in ADE.values()])
    expected = [depth if depth <= max_moves else math.inf for _, depth in ADE.values()]
    assert longest_game(zeillinger, starts, limits).tolist() == expected


def test_what_needs_too_many_positions_is_unbounded():
    limits = SearchLimits(max_moves=40, max_positions=10, reposition=True)
    starts = as_tensor(ADE["E6"][0], 3).flip(0).unsqueeze(0)
    assert longest_game(zeillinger, starts, limits).tolist() == [math.inf]


def test_the_limit_of_positions_counts_known_ones_and_the_newest_once_more():
    """The known ones with the two that stand for ends, over and beyond the bound; those that are
    still to be expanded count twice, for what they will lead to."""
    points = [tuple(point) for point in ADE["E6"][0]]
    known, new, needed, num_ends = {frozenset(points)}, [points], 0, 2
    while new:
        needed = max(needed, num_ends + len(known) + len(new))
        level, new = new, []
        for position in level:
            action = int(zeillinger(as_tensor(sorted(position, reverse=True), 3).unsqueeze(0)))
            subset = members(subset_bits(3)[action], 3)
            for axis in subset:
                child = repositioned_points(moved_points(position, subset, axis))
                if len(child) > 1 and frozenset(child) not in known:
                    known.add(frozenset(child))
                    new.append(child)
    start = as_tensor(sorted(points, reverse=True), 3).unsqueeze(0)
    for limit, expected in ((needed, 10), (needed - 1, math.inf)):
        limits = SearchLimits(max_moves=40, max_positions=limit, reposition=True)
        assert longest_game(zeillinger, start, limits).tolist() == [expected]


@pytest.mark.gpu
def test_starts_may_lie_on_a_gpu():
    starts = as_tensor([(0, 1, 3), (3, 1, 0), (0, 4, 2)], 3).unsqueeze(0)
    lengths = shortest_game(choose_first, starts, LIMITS)
    assert shortest_game(choose_first, starts.cuda(), LIMITS).tolist() == lengths.tolist()


def test_a_capped_game_has_no_end():
    huge = 2**30
    starts = as_tensor([(huge, 0, 1), (3, 1, huge), (0, huge, 2)], 3).unsqueeze(0)
    assert longest_game(all_coord, starts, LIMITS).tolist() == [math.inf]
    limits = SearchLimits(max_moves=1, max_positions=100, reposition=True)
    assert shortest_game(choose_first, starts, limits).tolist() == [math.inf]
