"""Resampled payoffs against loops over games, and against fresh samples."""

import numpy as np
import pytest

from hpsearch.population.ratings.nash import nash_averaging
from hpsearch.population.statistics import chance_of_best, interval, resampled_rho, rho_errors


def test_every_pair_is_drawn_from_the_same_starts():
    # Every game of the second pair takes twice as long from the same start.
    moves = np.random.default_rng(0).geometric(0.2, size=30)
    samples = resampled_rho(np.stack([moves, 2 * moves])[None], 200, np.random.default_rng(1))
    assert samples.shape == (200, 1, 2)
    assert samples[:, 0, 0] == pytest.approx(2 * samples[:, 0, 1])
    assert samples[:, 0, 0].std() > 0


def test_samples_of_two_games_have_their_known_chances():
    samples = resampled_rho(np.array([[[1, 3]]]), 8000, np.random.default_rng(0)).ravel()
    values, counts = np.unique(samples, return_counts=True)
    assert values == pytest.approx([1 / 3, 1 / 2, 1])
    assert counts / 8000 == pytest.approx([0.25, 0.5, 0.25], abs=0.02)


def test_errors_and_intervals_agree_with_fresh_games():
    rng = np.random.default_rng(2)
    fresh = 1 / rng.geometric(0.2, size=(4000, 150)).mean(axis=1)
    moves = rng.geometric(0.2, size=(5, 4, 150))
    assert rho_errors(moves).mean() == pytest.approx(fresh.std(), rel=0.1)
    ends = interval(resampled_rho(moves, 500, rng), confidence=0.95)
    assert ends.shape == (2, 5, 4)
    assert (ends[1] - ends[0]).mean() == pytest.approx(
        np.diff(np.quantile(fresh, [0.025, 0.975]))[0], rel=0.1
    )


def test_the_same_generator_draws_the_same():
    moves = np.random.default_rng(3).integers(1, 20, size=(2, 3, 25))
    once, again = (resampled_rho(moves, 10, np.random.default_rng(4)) for _ in range(2))
    assert np.array_equal(once, again)


def test_too_few_games_are_refused():
    with pytest.raises(ValueError, match="at least two games"):
        rho_errors(np.ones((2, 2, 1), dtype=np.int64))
    with pytest.raises(ValueError, match="G games"):
        resampled_rho(np.ones((2, 2), dtype=np.int64), 3, np.random.default_rng(0))


def test_from_games_to_ratings_and_chances():
    """The README's way: the host that is fastest against both agents is surely the best."""
    means = np.array([[3.0, 4.0], [6.0, 9.0], [6.0, 9.1]])
    moves = np.random.default_rng(5).geometric(1 / means[..., None], size=(3, 2, 300))
    samples = resampled_rho(moves, 60, np.random.default_rng(6))
    spread = np.stack([nash_averaging(sample).hosts for sample in samples])
    low, high = interval(spread, confidence=0.95)
    assert low[0] > max(high[1:])
    assert chance_of_best(spread)[0] == 1
