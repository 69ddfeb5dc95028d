"""Which members replace which: by hand where all is sure, by statistics where nothing is."""

import time
from functools import partial

import numpy as np
import pytest

from hpsearch.population import selection
from hpsearch.population.options import Pareto, Tournament, Truncation
from hpsearch.population.selection import Replacement, better_of_two
from hpsearch.population.statistics import chance_better

CONFIDENCE = 0.9


def with_options(rule, options):
    """Return a rule that takes its options as keywords; without species all members are of one."""

    def replacements(named, fresh, *, rng, species=None, **changes):
        return rule(named, fresh, options(**changes), species or ["one"] * named.shape[1], rng)

    return replacements


by_truncation = with_options(selection.by_truncation, Truncation)
by_tournament = with_options(selection.by_tournament, partial(Tournament, "tournament"))
by_pareto = with_options(selection.by_pareto, partial(Pareto, "pareto"))
TRUNCATE = partial(by_truncation, share=0.5, confidence=CONFIDENCE)


def rng(seed=0):
    return np.random.default_rng(seed)


def surely(*scores):
    """Return samples (R, K) without noise."""
    return np.tile(np.array(scores, dtype=float), (50, 1))


def drawn_again(scores, num_samples, seed):
    """Return what resampling the games gives, (R, K): means of starts drawn with replacement."""
    games = scores.shape[1]
    times = rng(seed).multinomial(games, np.full(games, 1 / games), size=num_samples)
    return times @ scores.T / games


def test_the_worst_give_way_to_the_best_and_all_others_go_on():
    scores = surely(3, 1, 4, 2)
    for seed in range(20):
        replacements = TRUNCATE(scores, scores, rng=rng(seed))
        assert [replacements[0], replacements[2]] == [Replacement(0, False), Replacement(2, False)]
        assert all(
            replacements[worst].is_child and replacements[worst].source in (0, 2)
            for worst in (1, 3)
        )


def test_fresh_starts_must_confirm_what_named_a_parent():
    named, fresh = surely(3, 1, 4, 2), surely(1, 3, 1, 3)
    assert TRUNCATE(named, fresh, rng=rng()) == [Replacement(m, False) for m in range(4)]


def test_equals_stay_however_little_confidence_is_asked_for():
    scores = surely(1, 1, 1, 1)
    replacements = by_truncation(scores, scores, share=0.5, confidence=0.5, rng=rng())
    assert replacements == [Replacement(member, False) for member in range(4)]
    winners = by_tournament(scores, scores, size=3, elites=1, confidence=0.5, rng=rng())
    assert winners == [Replacement(0, False)] + [Replacement(m, True) for m in (1, 2, 3)]


@pytest.mark.parametrize("confidence", [0.5, 0.8, 0.95])
def test_a_chance_that_is_just_enough_is_enough(confidence):
    better = round(confidence * 100)
    fresh = np.stack([np.r_[np.ones(better), -np.ones(100 - better)], np.zeros(100)], axis=1)
    replacements = by_truncation(surely(2, 1), fresh, share=0.5, confidence=confidence, rng=rng())
    assert replacements[1].is_child == (better > 50)
    more = by_truncation(surely(2, 1), fresh, share=0.5, confidence=confidence + 0.02, rng=rng())
    assert not more[1].is_child


@pytest.mark.parametrize("confidence", [0.8, 0.9])
def test_a_twin_is_replaced_no_more_often_than_the_confidence_says(confidence):
    """All members are one player; the one that is named best was lucky, and fresh starts tell."""
    trials, num, replaced, asked = 300, 6, 0, 0
    for seed in range(trials):
        games = rng(seed).normal(size=(2, num, 64))
        named, fresh = (drawn_again(game, 200, seed) for game in games)
        replacements = by_truncation(
            named, fresh, share=1 / 3, confidence=confidence, rng=rng(seed)
        )
        replaced += sum(decision.is_child for decision in replacements)
        asked += 2
    # Members share parents, so the error is at most that of one question a match.
    error = np.sqrt(confidence * (1 - confidence) / trials)
    assert replaced / asked < 1 - confidence + 3 * error
    assert replaced / asked > 1 - confidence - 4 * error


def test_a_pareto_twin_is_replaced_no_more_often_than_the_confidence_says():
    trials, replaced, asked = 150, 0, 0
    for seed in range(trials):
        games = rng(seed).normal(size=(2, 2, 4, 64))  # sets, objectives, members
        named, fresh = (
            np.stack([drawn_again(objective, 60, seed) for objective in half], axis=2)
            for half in games
        )
        replacements = by_pareto(named, fresh, share=0.5, confidence=0.9, rng=rng(seed))
        replaced += sum(decision.is_child for decision in replacements)
        asked += 2
    assert replaced / asked < 0.1 + 3 * np.sqrt(0.09 / trials)


def test_a_member_that_is_surely_better_takes_over():
    replaced = 0
    for seed in range(50):
        games = rng(seed).normal(size=(2, 2, 64)) + np.array([[0.0], [0.8]])
        named, fresh = (drawn_again(game, 200, seed) for game in games)
        replaced += by_truncation(named, fresh, share=0.5, confidence=0.9, rng=rng(seed))[
            0
        ].is_child
    assert replaced > 45


@pytest.mark.parametrize("elites", [0, 1, 3])
def test_elites_live_on_and_all_others_change(elites):
    scores = surely(3, 1, 4, 2)
    replacements = by_tournament(scores, scores, size=4, elites=elites, confidence=0.9, rng=rng())
    best = [2, 0, 3, 1][:elites]
    for member, decision in enumerate(replacements):
        assert decision == (Replacement(member, False) if member in best else Replacement(2, True))


def test_a_winner_that_fresh_starts_do_not_confirm_leaves_a_changed_member():
    replacements = by_tournament(
        surely(3, 1, 4, 2), surely(0, 0, 0, 0), size=4, elites=1, confidence=0.9, rng=rng()
    )
    assert replacements == [
        Replacement(0, True),
        Replacement(1, True),
        Replacement(2, False),
        Replacement(3, True),
    ]


def test_the_dominated_give_way_to_the_unsurpassed():
    objectives = np.array([[4.0, 1.0], [1.0, 4.0], [0.5, 0.5], [0.2, 0.2]])
    samples = np.tile(objectives, (20, 1, 1))
    sources = set()
    for seed in range(30):
        replacements = by_pareto(samples, samples, share=0.25, confidence=0.9, rng=rng(seed))
        assert replacements[:3] == [Replacement(member, False) for member in range(3)]
        assert replacements[3].is_child
        sources.add(replacements[3].source)
    assert sources == {0, 1}


@pytest.mark.alone
def test_a_thousand_members_are_sorted_while_a_driver_waits():
    samples = rng().normal(size=(200, 1000, 3))
    began = time.perf_counter()
    by_pareto(samples, samples, share=0.25, confidence=0.9, rng=rng())
    assert time.perf_counter() - began < 3.0  # one sample after another takes far longer


def test_no_member_is_replaced_within_one_front():
    samples = np.tile(np.array([[4.0, 1.0], [3.0, 2.0], [2.0, 3.0], [1.0, 4.0]]), (20, 1, 1))
    replacements = by_pareto(samples, samples, share=0.5, confidence=0.9, rng=rng())
    assert replacements == [Replacement(member, False) for member in range(4)]


def test_the_second_parent_is_the_better_of_two_others():
    scores = np.array([0.0, 1.0, 2.0, 3.0])
    parents = [better_of_two(scores, [0, 1, 2], rng(seed)) for seed in range(3000)]
    shares = np.bincount(parents, minlength=4) / 3000
    # Of nine pairs of three, drawn with replacement, the best is in five, the second in three more.
    assert shares == pytest.approx([1 / 9, 3 / 9, 5 / 9, 0.0], abs=0.03)
    assert better_of_two(scores, [2], rng()) == 2


def test_the_chance_of_being_better_is_a_fair_judge():
    """Of two equal players it is above 0.9 in a tenth of all matches, as a p-value is."""
    chances = []
    for seed in range(400):
        samples = drawn_again(rng(seed).normal(size=(2, 64)), 200, seed)
        chances.append(chance_better(samples[:, 0], samples[:, 1]))
    assert np.mean(np.array(chances) > 0.9) == pytest.approx(0.1, abs=0.05)


@pytest.mark.parametrize("num", [2, 3])
@pytest.mark.parametrize("rule", [by_truncation, by_pareto])
def test_a_share_above_nothing_is_at_least_one_member(rule, num):
    scores = surely(*range(num))
    scores = scores[:, :, None] if rule is by_pareto else scores
    for share, replaced in ((0.25, 1), (0.01, 1), (0.0, 0)):
        replacements = rule(scores, scores, share=share, confidence=0.9, rng=rng())
        assert sum(decision.is_child for decision in replacements) == replaced
        assert replacements[0] == Replacement(num - 1 if replaced else 0, bool(replaced))
    assert rule(scores[:, :1], scores[:, :1], share=0.5, confidence=0.9, rng=rng()) == [
        Replacement(0, False)
    ]


def who_gives_way(scores, species, num):
    """Return the worst of all, but for the best of each species, by going through them all."""
    best = {max(range(len(scores)), key=lambda k: (species[k] == i, scores[k])) for i in species}
    return set(sorted(set(range(len(scores))) - best, key=lambda k: scores[k])[:num])


@pytest.mark.parametrize("seed", range(30))
def test_the_worst_of_all_give_way_to_the_best_of_their_species(seed):
    size = int(rng(seed).integers(2, 12))
    species = rng(seed).choice(list("abc"), size=size).tolist()
    scores = rng(seed + 1).permutation(size).astype(float)
    num = max(1, size // 3)
    replacements = by_truncation(
        surely(*scores), surely(*scores), species=species, share=1 / 3, confidence=0.9, rng=rng()
    )
    leaving = who_gives_way(scores, species, num)
    assert {member for member, decision in enumerate(replacements) if decision.is_child} == leaving
    for member in leaving:
        source = replacements[member].source
        above = [
            k for k in range(size) if species[k] == species[member] and scores[k] > scores[member]
        ]
        assert source in above
        top = [k for k in above if scores[k] >= size - num]
        assert source in (top or [max(above, key=lambda k: scores[k])])


def test_the_worst_species_stalls_no_other():
    scores = surely(9, 8, 7, 1)
    for seed in range(10):
        replacements = by_truncation(
            scores, scores, species="aaab", share=0.25, confidence=0.9, rng=rng(seed)
        )
        assert [decision.is_child for decision in replacements] == [False, False, True, False]
        assert replacements[2].source == 0


def test_a_pareto_parent_is_unsurpassed_in_its_species():
    # Front 0 is of species a alone; on b the third is in front 1, and the fourth behind it.
    objectives = np.array([[4.0, 5.0], [5.0, 4.0], [3.0, 3.0], [1.0, 1.0], [2.0, 0.5]])
    samples = np.tile(objectives, (20, 1, 1))
    for seed in range(10):
        replacements = by_pareto(
            samples, samples, species="aabbb", share=0.4, confidence=0.9, rng=rng(seed)
        )
        assert replacements[:3] == [Replacement(member, False) for member in range(3)]
        assert replacements[3:] == [Replacement(2, True), Replacement(2, True)]


def test_a_tournament_is_held_in_a_species():
    scores = surely(9, 8, 3, 2, 1)
    for seed in range(10):
        replacements = by_tournament(
            scores, scores, species="aabbc", size=3, elites=1, confidence=0.9, rng=rng(seed)
        )
        assert replacements == [
            Replacement(0, False),
            Replacement(0, True),
            Replacement(2, True),
            Replacement(2, True),
            Replacement(4, True),
        ]
