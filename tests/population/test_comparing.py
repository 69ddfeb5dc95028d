"""Chances of being the best and interquartile means, against integrals, scipy and repetition."""

import numpy as np
import pytest
from scipy import stats

from hpsearch.population.statistics import (
    chance_of_best,
    drawn_means,
    interquartile_mean,
)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_highest_is_counted_and_equals_share():
    assert chance_of_best([[3, 1, 2], [0, 5, 5], [1, 1, 1], [9, 0, 0]]) == pytest.approx(
        [(1 + 0 + 1 / 3 + 1) / 4, (0.5 + 1 / 3) / 4, (0.5 + 1 / 3) / 4]
    )


def test_of_two_candidates_the_chance_is_that_of_the_t_test():
    """With a flat prior and one spread, the difference of means has Student's distribution."""
    a, b = [0.12, 0.15, 0.11, 0.14], [0.11, 0.12, 0.10]
    one_sided = stats.ttest_ind(a, b, equal_var=True, alternative="greater").pvalue
    chances = chance_of_best(drawn_means([a, b], rng(), 200_000))
    assert chances[0] == pytest.approx(1 - one_sided, abs=0.004)


def test_a_candidate_of_one_seed_has_the_spread_of_the_others():
    means = drawn_means([[1.0], [2.0, 2.2, 1.8]], rng(), 50_000)
    # Student's distribution with 2 degrees of freedom, scale .2 and .2 / sqrt(3).
    for column, scale in ((0, 0.2), (1, 0.2 / np.sqrt(3))):
        middle_half = np.diff(np.quantile(means[:, column], [0.25, 0.75]))[0]
        assert middle_half == pytest.approx(2 * scale * stats.t(2).ppf(0.75), rel=0.05)


def test_said_chances_come_true():
    """Worlds drawn from a wide prior: among picks said to be 60-80 % sure so many are right."""
    generator, said, right = rng(1), [], []
    for _ in range(600):
        truth = 3 * generator.normal(size=4)
        scores = [mean + generator.normal(size=3) for mean in truth]
        chances = chance_of_best(drawn_means(scores, generator, 400))
        said.append(chances.max())
        right.append(chances.argmax() == truth.argmax())
    middling = (np.array(said) > 0.5) & (np.array(said) < 0.9)
    assert middling.sum() > 80
    assert np.mean(np.array(right)[middling]) == pytest.approx(
        np.mean(np.array(said)[middling]), abs=0.1
    )


@pytest.mark.parametrize("num", [1, 3, 4, 7, 12, 41])
def test_interquartile_means_against_scipy(num):
    scores = rng(num).normal(size=(5, num))
    expected = stats.trim_mean(scores, 0.25, axis=1)
    assert interquartile_mean(scores) == pytest.approx(expected)


def test_an_outlier_moves_nothing():
    assert interquartile_mean([1, 2, 3, 4]) == interquartile_mean([-1e9, 2, 3, 1e9]) == 2.5


def test_what_tells_nothing_is_refused():
    with pytest.raises(ValueError, match="at least two"):
        drawn_means([[1.0], [2.0]], rng(), 10)
    for scores in ([], [np.nan]):
        with pytest.raises(ValueError, match="every candidate"):
            drawn_means([[1.0, 2.0], scores], rng(), 10)
    with pytest.raises(ValueError, match="R x K"):
        chance_of_best([[np.nan, 1.0]])


@pytest.mark.parametrize("draws", [[1.0, 2.0], [[]], [[[1.0]]], [[1.0, float("nan")]]])
def test_draws_that_are_no_table_of_numbers_are_refused(draws):
    with pytest.raises(ValueError, match="draws are numbers, R x K"):
        chance_of_best(draws)
