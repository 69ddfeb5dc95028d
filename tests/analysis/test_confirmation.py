"""Chances, intervals and the sentence that says what to do."""

import numpy as np
import pytest
from scipy import stats

from hpsearch.analysis.confirmation import (
    CandidateVerdict,
    Confirmation,
    ConfirmedTrial,
    SeedTraining,
    advice_text,
    judge_draws,
    judge_seeds,
    plain_confirmation,
    ranked,
)

KEYS = {
    *("study", "trained_by", "metric", "goal", "games", "top", "match", "favourite", "best"),
    *("held_up", "advice", "trials", "response_steps"),
}
TRIAL_KEYS = {"trial", "search", "mean", "low", "high", "iqm", "chance", "failed", "seeds"}


def confirmation(scores, believed, goal="maximize", favourite=0, trained_by="tiny-confirm"):
    """Return what is found of trials 0, 1, ... with these scores of their seeds."""
    verdicts = judge_seeds(scores, goal)
    trials = [
        ConfirmedTrial(
            number,
            {"value": value, "low": value - 0.01, "high": value + 0.01},
            *verdict,
            seeds=tuple(SeedTraining(10 + k, k, {"rho": score}) for k, score in enumerate(some)),
        )
        for number, (value, verdict, some) in enumerate(
            zip(believed, verdicts, scores, strict=True)
        )
    ]
    return Confirmation(
        *("tiny", trained_by, "rho", goal, 100, len(trials), None, favourite),
        ranked(trials, goal),
    )


@pytest.mark.parametrize("goal", ["maximize", "minimize"])
def test_two_candidates_meet_the_closed_form(goal):
    """The difference of two means, spread common and unknown, is Student's (two-sample t)."""
    scores = [[0.15, 0.18, 0.12, 0.16], [0.11, 0.17, 0.13]]
    first, second = judge_seeds(scores, goal)
    a, b = map(np.array, scores)
    freedom = len(a) + len(b) - 2
    spread = np.sqrt((a.var() * len(a) + b.var() * len(b)) / freedom)
    error = spread * np.sqrt(1 / len(a) + 1 / len(b))
    above = stats.t.cdf((a.mean() - b.mean()) / error, freedom)
    chance = above if goal == "maximize" else 1.0 - above
    assert first.chance == pytest.approx(chance, abs=0.006)
    assert first.chance + second.chance == pytest.approx(1.0)
    half = stats.t.ppf(0.975, freedom) * spread / np.sqrt(len(a))
    assert first.mean == pytest.approx(a.mean())
    assert (first.low, first.high) == pytest.approx((a.mean() - half, a.mean() + half), abs=1e-3)
    assert (first.iqm, second.iqm) == (pytest.approx(0.155), None)


def test_one_seed_of_each_tells_nothing_of_the_spread():
    for verdict in judge_seeds([[0.3], [0.1]], "maximize"):
        assert (verdict.low, verdict.high, verdict.chance) == (None, None, None)
    said = advice_text(confirmation([[0.3], [0.1]], [0.3, 0.1]), " --runs x")
    assert "none is known to be the best" in said
    assert said.endswith("hpsearch confirm tiny --runs x --seeds 5")


def test_one_seed_is_enough_where_another_has_more():
    first, second = judge_seeds([[0.3], [0.1, 0.12, 0.11]], "maximize")
    assert first.chance > 0.9 > second.chance
    assert first.low < 0.3 < first.high


def test_scores_that_all_agree_share_the_chance():
    assert [seed.chance for seed in judge_seeds([[0.2, 0.2]] * 4, "maximize")] == [0.25] * 4


def test_draws_are_compared_as_they_are():
    draws = np.array([[0.1, 0.2], [0.3, 0.2], [0.5, 0.1], [0.2, 0.2]])
    first, second = judge_draws([0.25, 0.2], draws)
    assert (first.chance, second.chance) == (0.625, 0.375)
    assert (first.mean, first.iqm) == (0.25, None)


def test_a_favourite_that_holds_up():
    told = confirmation([[0.2, 0.21, 0.19], [0.1, 0.11, 0.09]], [0.22, 0.2])
    assert advice_text(told, "") == (
        "the search's best, trial 0, held up; export it with: hpsearch export tiny --trial 0"
    )


def test_a_favourite_that_was_lucky():
    told = confirmation([[0.1, 0.11, 0.09], [0.2, 0.21, 0.19]], [0.22, 0.2])
    assert [trial.trial for trial in told.trials] == [1, 0]
    assert advice_text(told, "") == (
        "the search's best, trial 0, was lucky: 0.2200 in the search, 0.1000 when held out, where "
        "trial 1 has 0.2000; export it with: hpsearch export tiny --trial 1"
    )


def test_signs_turn_where_low_is_good():
    told = confirmation([[0.2, 0.21], [0.1, 0.11]], [0.05, 0.12], goal="minimize")
    assert [trial.trial for trial in told.trials] == [1, 0]
    assert "trial 0, was lucky: 0.0500 in the search" in advice_text(told, "")
    told = confirmation([[0.2, 0.21], [0.1, 0.11]], [0.3, 0.4], goal="minimize")
    assert "trial 0, does not hold up: 0.2050 when held out" in advice_text(told, "")


def test_what_is_not_settled_is_said():
    told = confirmation([[0.2, 0.1, 0.15], [0.19, 0.11, 0.14]], [0.2, 0.2])
    said = advice_text(told, "")
    assert "that trial 0 is the best has a chance of 5" in said
    assert "--seeds 6 tells more" in said


def test_candidates_of_which_nothing_is_known_come_last():
    lost = ConfirmedTrial(7, {"value": 0.9, "low": 0.8, "high": 1.0}, *CandidateVerdict(), failed=3)
    told = confirmation([[0.1, 0.2]], [0.1])
    for goal in ("maximize", "minimize"):
        assert [trial.trial for trial in ranked([lost, *told.trials], goal)] == [0, 7]


def test_json_has_its_keys():
    plain = plain_confirmation(confirmation([[0.1, 0.2], [0.3, 0.4]], [0.2, 0.1]))
    assert plain.keys() == KEYS
    assert (plain["best"], plain["favourite"], plain["held_up"]) == (1, 0, False)
    assert [trial["trial"] for trial in plain["trials"]] == [1, 0]
    for trial in plain["trials"]:
        assert trial.keys() == TRIAL_KEYS
        assert trial["search"].keys() == {"value", "low", "high"}
        assert [seed.keys() for seed in trial["seeds"]] == [{"seed", "trial", "metrics"}] * 2


def test_a_confirmation_shows_itself_in_a_notebook():
    shown = confirmation([[0.3, 0.31], [0.1, 0.12]], [0.3, 0.1])._repr_html_()
    assert "tiny: rho on seeds held out" in shown
    assert "P(best)" in shown
