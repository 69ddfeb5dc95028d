"""Truncation and tournaments against counting, and what noise may not do to them."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from hpsearch.population.selection.ranking import best_first, chance_better
from hpsearch.population.selection.truncation import (
    confident_tournament,
    confident_truncation,
    tournament,
)
from hpsearch.population.selection.truncation import truncation as truncation_of_islands

SCORES = np.array([3.0, 1.0, np.nan, 5.0, 4.0, 2.0])


def rng(seed=0):
    return np.random.default_rng(seed)


def truncation(scores, share, generator):
    return truncation_of_islands(scores, share, generator, islands=["one"] * len(scores))


def samples(means, error, num=400, seed=0):
    return np.asarray(means) + error * rng(seed).normal(size=(num, len(means)))


def test_failed_members_come_last_and_equals_in_order():
    assert best_first([1.0, np.nan, 2.0, 2.0, -np.inf]).tolist() == [2, 3, 0, 1, 4]


def test_chances_count_equals_half():
    assert chance_better([1.0, 2.0, 3.0, 4.0], [0.0, 2.0, 4.0, 4.0]) == 0.5
    assert chance_better([1.0, np.nan], [np.nan, np.nan]) == 0.75


def test_the_worst_third_copies_the_best_third():
    picked = np.array([truncation(SCORES, 1 / 3, rng(seed)) for seed in range(400)])
    assert (picked[:, [0, 3, 4, 5]] == [0, 3, 4, 5]).all()
    for worst in (1, 2):
        assert set(picked[:, worst]) == {3, 4}
        assert (picked[:, worst] == 3).mean() == pytest.approx(0.5, abs=0.1)


def test_shares_are_rounded_down_without_rounding_errors():
    moved = truncation(np.arange(100.0), 0.29, rng()) != np.arange(100)
    assert moved.sum() == 29
    assert (truncation(SCORES, 0.49, rng()) != np.arange(6)).sum() == 2
    assert (truncation(SCORES, 0.0, rng()) == np.arange(6)).all()
    # Rounded down to none, a small population would never change.
    assert truncation(SCORES, 0.1, rng()).tolist() == [0, 1, 3, 3, 4, 5]
    with pytest.raises(ValueError, match="share"):
        truncation(SCORES, 0.6, rng())


def test_differences_within_noise_move_nobody():
    noisy = samples([0.0, 0.1, 0.2, 0.3], error=1.0)
    assert (confident_truncation(noisy, 0.5, 0.95, rng()) == np.arange(4)).all()
    sure = samples([0.0, 0.1, 10.0, 10.1], error=1.0)
    assert set(confident_truncation(sure, 0.5, 0.95, rng())[:2]) <= {2, 3}


def test_without_doubt_confidence_changes_nothing():
    sure = samples([3, 1, 6, 5, 4, 2], error=1e-6)
    for seed in range(20):
        expected = truncation(sure.mean(axis=0), 0.5, rng(seed))
        assert (confident_truncation(sure, 0.5, 0.99, rng(seed)) == expected).all()
        children = dict(num_children=9, num_elites=2, size=3)
        plain = tournament(sure.mean(axis=0), **children, rng=rng(seed))
        confident = confident_tournament(sure, **children, confidence=0.99, rng=rng(seed))
        assert (plain == confident).all()


def test_pairs_on_the_same_starts_are_told_apart():
    """Starts move both scores by far more than the difference, which is the same on every start."""
    starts = 10 * rng().normal(size=(200, 1))
    paired = starts + np.array([0.0, 0.5])
    assert confident_truncation(paired, 0.5, 0.99, rng()).tolist() == [1, 1]


def test_tournament_winners_have_their_known_chances():
    num = 20_000
    winners = tournament(SCORES[:5], num_children=num, num_elites=0, size=2, rng=rng())
    for member, chance in enumerate(_chances_by_counting([3.0, 1.0, -np.inf, 5.0, 4.0], 2)):
        assert (winners == member).mean() == pytest.approx(chance, abs=0.015)


def test_elites_come_first_and_a_full_tournament_takes_the_best():
    found = tournament(SCORES, num_children=5, num_elites=3, size=6, rng=rng())
    assert found.tolist() == [3, 4, 0, 3, 3]
    assert found.dtype == np.int64


def test_in_a_tournament_of_equals_the_draw_decides():
    noisy = samples(np.linspace(0, 0.3, 6), error=1.0)
    winners = confident_tournament(
        noisy, num_children=6000, num_elites=0, size=6, confidence=0.95, rng=rng()
    )
    shares = np.bincount(winners, minlength=6) / 6000
    assert shares == pytest.approx(np.full(6, 1 / 6), abs=0.03)
    greedy = tournament(noisy.mean(axis=0), num_children=9, num_elites=0, size=6, rng=rng())
    assert len(set(greedy)) == 1


@pytest.mark.parametrize("wrong", [{"size": 0}, {"size": 7}, {"num_elites": 5}])
def test_numbers_that_do_not_fit_are_refused(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        tournament(SCORES, **{"num_children": 4, "num_elites": 1, "size": 2, **wrong}, rng=rng())


def test_a_confidence_below_a_half_is_refused():
    with pytest.raises(ValueError, match="confidence"):
        confident_truncation(samples([1, 2], 1.0), 0.5, 0.4, rng())


def _chances_by_counting(scores, size):
    wins = np.zeros(len(scores))
    for group in combinations(range(len(scores)), size):
        wins[max(group, key=lambda member: scores[member])] += 1
    return wins / comb(len(scores), size)
