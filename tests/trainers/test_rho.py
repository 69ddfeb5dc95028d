"""rho against its published formula, computed by hand."""

import math

import numpy as np
import pytest

from hpsearch.trainers.rho import Lengths, bootstrap, panel, rho

CAP = 10


def lengths(moves, cap=CAP) -> Lengths:
    moves = np.asarray(moves)
    return Lengths(np.minimum(moves, cap), moves <= cap)


def test_by_hand():
    # Four games over after 1, 2, 3 and 4 moves: 4 / 10.
    measured = rho(lengths([1, 2, 3, 4]))
    assert measured.value == pytest.approx(0.4)
    assert measured.capped == 0.0
    assert measured.games == 4
    # Two over after 2 and 6 moves, two unfinished at the cap of 10: 4 / (8 + 20).
    measured = rho(lengths([2, 99, 6, 99]))
    assert measured.value == pytest.approx(4 / 28)
    assert measured.capped == 0.5


def test_games_that_all_last_alike_leave_no_doubt():
    measured = rho(lengths([5] * 8))
    assert (measured.low, measured.value, measured.high) == pytest.approx((0.2, 0.2, 0.2))


def test_panel_is_the_geometric_mean():
    opponents = [lengths([1, 1]), lengths([2, 6]), lengths([99, 99])]
    measured = panel(opponents)
    assert measured.value == pytest.approx((1 * 0.25 * 0.1) ** (1 / 3))
    assert measured.capped == pytest.approx(1 / 3)
    assert measured.games == 6


def test_bootstrap_resamples_games_with_replacement():
    """Of three games the 27 samples have known chances: all three the first, 1 in 27."""
    samples = np.concatenate([bootstrap(lengths([1, 2, 4]), seed) for seed in range(20)])
    values, counts = np.unique(np.round(samples, 6), return_counts=True)
    assert math.isclose(values.max(), 1.0)
    assert math.isclose(values.min(), 0.25)
    share = counts[values.argmax()] / counts.sum()
    assert share == pytest.approx(1 / 27, abs=4 * math.sqrt(1 / 27 / len(samples)))


def test_the_interval_covers_the_truth_95_times_in_100():
    rng = np.random.default_rng(0)
    chance, cap, trials = 0.2, 15, 400
    # The mean of a geometric length cut at the cap.
    truth = 1 / sum((1 - chance) ** k for k in range(cap))
    covered = 0
    for _ in range(trials):
        measured = rho(lengths(rng.geometric(chance, size=150), cap))
        assert measured.low <= measured.value <= measured.high
        covered += measured.low <= truth <= measured.high
    # Four standard errors of a share of 400.
    assert covered / trials == pytest.approx(0.95, abs=0.045)


def test_more_games_leave_less_doubt():
    rng = np.random.default_rng(1)
    few, many = (rho(lengths(rng.geometric(0.3, size=n))) for n in (100, 1600))
    ratio = (few.high - few.low) / (many.high - many.low)
    assert ratio == pytest.approx(4.0, rel=0.3)
