"""Truncation and tournaments against counting, and what noise may not do to them."""

from itertools import combinations
from math import comb

import numpy as np
import pytest

from hpsearch.population.options import Truncation
from hpsearch.population.selection import best_first, by_truncation, tournament
from hpsearch.population.statistics import chance_better

SCORES = np.array([3.0, 1.0, np.nan, 5.0, 4.0, 2.0])


def rng(seed=0):
    return np.random.default_rng(seed)


def truncation(scores, share, generator):
    """Return the source of what comes in each place, where scores are sure."""
    samples, options = np.tile(scores, (5, 1)), Truncation(share=share, confidence=0.5)
    species = ["one"] * len(scores)
    replacements = by_truncation(samples, samples, options, species, generator)
    return np.array([replacement.source for replacement in replacements])


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


def test_tournament_winners_have_their_known_chances():
    num, generator, members = 20_000, rng(), np.arange(5)
    winners = np.array([tournament(SCORES, members, 2, generator) for _ in range(num)])
    for member, chance in enumerate(_chances_by_counting([3.0, 1.0, -np.inf, 5.0, 4.0], 2)):
        assert (winners == member).mean() == pytest.approx(chance, abs=0.015)


def test_all_of_a_small_species_meet():
    for size in (3, 6, 9):
        assert {tournament(SCORES, np.array([1, 2, 5]), size, rng(seed)) for seed in range(9)} == {
            5
        }


def test_in_a_tournament_of_equals_the_draw_decides():
    generator, members = rng(), np.arange(6)
    winners = [tournament(np.ones(6), members, 6, generator) for _ in range(6000)]
    shares = np.bincount(winners, minlength=6) / 6000
    assert shares == pytest.approx(np.full(6, 1 / 6), abs=0.03)


def _chances_by_counting(scores, size):
    wins = np.zeros(len(scores))
    for group in combinations(range(len(scores)), size):
        wins[max(group, key=lambda member: scores[member])] += 1
    return wins / comb(len(scores), size)
