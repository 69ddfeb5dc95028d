"""Fronts, crowding, robustness and novelty against their definitions, written as loops."""

import numpy as np
import pytest

from hpsearch.population.fitness import mean_of_worst, novelty
from hpsearch.population.pareto import (
    crowding_distance,
    front_of_each,
    fronts_of_samples,
    nsga2_order,
)


def dominates(a, b):
    return all(a >= b) and any(a > b)


def fronts_by_definition(values):
    left, fronts, front = set(range(len(values))), np.zeros(len(values), dtype=int), 0
    while left:
        best = {i for i in left if not any(dominates(values[j], values[i]) for j in left)}
        fronts[list(best)] = front
        left, front = left - best, front + 1
    return fronts.tolist()


def test_fronts_by_their_definition():
    rng = np.random.default_rng(0)
    for _ in range(50):
        values = rng.integers(0, 5, size=(rng.integers(0, 15), rng.integers(1, 4))).astype(float)
        assert front_of_each(values).tolist() == fronts_by_definition(values)


@pytest.mark.parametrize("num_objectives", [1, 2, 3, 4])
@pytest.mark.parametrize("num_values", [3, 1000])
def test_each_sample_has_its_own_fronts(num_objectives, num_values):
    rng = np.random.default_rng(num_objectives)
    samples = rng.integers(0, num_values, size=(9, 17, num_objectives)).astype(float)
    samples[2, 5] = samples[2, 6] = np.nan
    samples[3, :, 0] = -np.inf
    fronts = fronts_of_samples(samples)
    assert fronts.dtype == np.int64
    lowest = np.nan_to_num(samples, nan=-np.inf)
    assert fronts.tolist() == [fronts_by_definition(sample) for sample in lowest]


@pytest.mark.parametrize("num", [254, 255, 256, 300])
def test_as_many_fronts_as_members(num):
    ladder = np.random.default_rng(0).permutation(num).astype(float)
    fronts = front_of_each(np.stack([ladder, ladder], axis=1))
    assert fronts.tolist() == (num - 1 - ladder).tolist()


def test_crowding_by_hand():
    # A line: ends are infinite, the second is 3 of 4 wide in one and 3 of 4 in the other.
    values = np.array([[0.0, 4.0], [1.0, 3.0], [3.0, 1.0], [4.0, 0.0]])
    assert crowding_distance(values) == pytest.approx([np.inf, 1.5, 1.5, np.inf])
    assert crowding_distance(np.full((3, 2), 7.0)) == pytest.approx([0, 0, 0])
    assert crowding_distance(np.zeros((0, 2))).shape == (0,)


def test_crowding_by_its_definition():
    rng = np.random.default_rng(1)
    for _ in range(20):
        values = rng.normal(size=(7, 3))
        expected = np.zeros(7)
        for m in range(3):
            order = sorted(range(7), key=lambda i: values[i, m])
            spread = values[order[-1], m] - values[order[0], m]
            expected[order[0]] = expected[order[-1]] = np.inf
            for before, here, after in zip(order, order[1:], order[2:], strict=False):
                expected[here] += (values[after, m] - values[before, m]) / spread
        assert crowding_distance(values) == pytest.approx(expected)


def test_selection_takes_fronts_first_and_then_room():
    values = np.array(
        [[0.0, 0.0], [0.0, 4.0], [1.0, 3.2], [1.1, 3.0], [4.0, 0.0], [np.nan, 9.0], [-1.0, -1.0]]
    )
    assert front_of_each(values).tolist() == [1, 0, 0, 0, 0, 0, 2]
    order = nsga2_order(values)
    assert set(order[:2]) == {4, 5}  # the ends of the first front
    assert order[-2:].tolist() == [0, 6]
    with pytest.raises(ValueError, match="M objectives"):
        nsga2_order([1.0, 2.0])


def test_members_that_failed_are_dominated():
    assert front_of_each([[1.0, 2.0], [np.nan, np.nan]]).tolist() == [0, 1]


def test_worst_results_of_a_panel():
    results = np.array([[4.0, 1.0, 3.0, 2.0], [2.0, 2.0, 2.0, 2.0], [np.nan, 9.0, 9.0, 9.0]])
    assert mean_of_worst(results, 1e-9).tolist() == [1, 2, -np.inf]
    assert mean_of_worst(results, 0.5).tolist() == [1.5, 2, -np.inf]
    assert mean_of_worst(results, 0.1).tolist() == [1, 2, -np.inf]
    assert mean_of_worst(results, 1.0)[:2] == pytest.approx([2.5, 2])
    # Three eighths are one and a half opponents: (1 + 2 / 2) / 1.5.
    assert mean_of_worst(results, 3 / 8)[0] == pytest.approx(4 / 3)


def test_the_mean_of_the_worst_is_what_its_optimisation_gives():
    """Rockafellar and Uryasev: the largest over c of c - mean((c - result)+) / share."""
    results = np.random.default_rng(2).normal(size=(5, 9))
    for share in (0.15, 0.5, 0.77):
        levels = results[:, :, None] - results[:, None]
        brute = (results - np.maximum(levels, 0).mean(axis=2) / share).max(axis=1)
        assert mean_of_worst(results, share) == pytest.approx(brute)


def test_novelty_by_its_definition():
    rng = np.random.default_rng(3)
    members, archive = rng.normal(size=(5, 3)), rng.normal(size=(4, 3))
    novelties = novelty(members, archive, 3)
    for k, member in enumerate(members):
        others = [*np.delete(members, k, axis=0), *archive]
        distances = sorted(np.linalg.norm(member - other) for other in others)
        assert novelties[k] == pytest.approx(np.mean(distances[:3]))
    of_all = novelty(members, archive, 99)
    assert of_all[0] == pytest.approx(
        np.mean([np.linalg.norm(members[0] - x) for x in [*members[1:], *archive]])
    )


def test_a_twin_is_no_news():
    twins, far = np.array([[1.0, 2.0], [1.0, 2.0]]), np.array([[1.0, 5.0]])
    assert novelty(twins, np.zeros((0, 2)), 1).tolist() == [0, 0]
    assert novelty(twins[:1], far, 1).tolist() == [3]
    assert novelty(twins[:1], np.zeros((0, 2)), 1).tolist() == [0]
