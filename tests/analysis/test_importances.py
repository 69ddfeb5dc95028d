"""Importances against what is known beforehand: of parameters that decide all, some, or nothing."""

import random

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.importance import PedAnovaImportanceEvaluator
from tried import tried

from hpsearch.analysis.importances import MAX_TRIALS, Importances, best_share
from hpsearch.analysis.importances import estimate as estimated

SPACE = {
    "decides": FloatDistribution(0.0, 1.0),
    "scale": FloatDistribution(1e-4, 1e-1, log=True),
    "size": IntDistribution(16, 1024, log=True),
    "kind": CategoricalDistribution(["a", "b", "c"]),
}


def random_trials(number: int, seed: int) -> list[optuna.trial.FrozenTrial]:
    rng = random.Random(seed)
    return [
        optuna.trial.create_trial(
            params={
                "decides": rng.random(),
                "scale": 10 ** rng.uniform(-4, -1),
                "size": int(2 ** rng.uniform(4, 10)),
                "kind": rng.choice("abc"),
            },
            distributions=SPACE,
            value=0.0,
        )
        for _ in range(number)
    ]


def estimate(trials, losses, shuffles: int = 40, resamples: int = 40) -> Importances:
    return estimated(trials, losses, num_shuffles=shuffles, num_resamples=resamples)


def decided(trials) -> np.ndarray:
    """Losses of a search in which one parameter decides all."""
    return -np.array([trial.params["decides"] for trial in trials])


def mixed(trials) -> np.ndarray:
    """Losses of a search in which one parameter decides more than another, and two nothing."""
    scale = [(np.log10(trial.params["scale"]) + 4) / 3 for trial in trials]
    return decided(trials) - 0.6 * np.array(scale)


def noise(trials, seed: int) -> np.ndarray:
    return np.random.default_rng(1000 + seed).normal(size=len(trials))


@pytest.mark.parametrize("number", tried([16, 60], slow=[16]))
def test_a_parameter_that_decides_all_stands_above_the_noise(number):
    above = [noise_alone(trials, decided(trials)).above_noise for trials in many(number, 8)]
    assert sum("decides" in names for names in above) >= 7
    assert sum(names == ["decides"] for names in above) >= 6


@pytest.mark.slow
def test_of_values_that_are_noise_nothing_is_told():
    """The limit is 5 % by construction; of 12 searches more than 2 are above it once in 50."""
    silent = [
        not noise_alone(trials, noise(trials, seed)).above_noise
        for seed, trials in enumerate(many(16, 12))
    ]
    assert silent.count(False) <= 2


def noise_alone(trials, losses) -> Importances:
    """Return what does without intervals, which cost the most."""
    return estimate(trials, losses, shuffles=100, resamples=1)


def many(number: int, searches: int):
    return [random_trials(number, seed) for seed in range(searches)]


@pytest.mark.parametrize("losses_of", [decided, pytest.param(mixed, marks=pytest.mark.slow)])
def test_intervals_hold_the_importances_of_a_search_without_end(losses_of):
    """Those are what Optuna says of so many trials that chance hardly matters."""
    endless = random_trials(4000, 99)
    truth = by_optuna(endless, losses_of(endless), best_share(24))
    total = sum(truth.values())
    held, widths = [], []
    for trials in many(24, 5):
        by_name = estimate(trials, losses_of(trials)).by_name
        for name, share in by_name.items():
            held.append(share.low - 0.01 <= truth[name] / total <= share.high + 0.01)
            widths.append(share.high - share.low)
    assert np.mean(held) >= 0.85
    assert np.mean(widths) < 0.7


def by_optuna(trials, losses, quantile: float) -> dict[str, float]:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study()
    for trial, loss in zip(trials, losses, strict=True):
        trial.value = float(loss)
        study.add_trial(trial)
    evaluator = PedAnovaImportanceEvaluator(target_quantile=quantile)
    return evaluator.evaluate(study)


def test_shares_are_those_of_optuna_beyond_chance():
    trials = random_trials(20, 3)
    losses = mixed(trials)
    measured = by_optuna(trials, losses, 0.4)
    rng = np.random.default_rng(7)
    shuffled = [by_optuna(trials, rng.permutation(losses), 0.4) for _ in range(100)]
    beyond = {
        name: max(0.0, measured[name] - np.mean([row[name] for row in shuffled])) for name in SPACE
    }
    by_name = noise_alone(trials, losses).by_name
    for name in SPACE:
        assert by_name[name].share == pytest.approx(beyond[name] / sum(beyond.values()), abs=0.08)
    assert list(by_name) == sorted(by_name, key=lambda name: -by_name[name].share)


def test_few_trials_have_more_best_ones():
    assert best_share(16) == 0.4
    assert best_share(40) == 0.25
    assert best_share(10_000) == 0.1


def test_the_same_trials_give_the_same_numbers():
    trials = random_trials(12, 1)
    assert estimate(trials, decided(trials)) == estimate(trials, decided(trials))


def test_of_very_many_trials_some_are_drawn():
    trials = random_trials(MAX_TRIALS + 100, 5)
    seen = estimate(trials, decided(trials), shuffles=20, resamples=1)
    assert (seen.num_trials, seen.num_finished) == (MAX_TRIALS, MAX_TRIALS + 100)
    assert seen.above_noise == ["decides"]


def test_parameters_that_stand_in_some_trials_alone():
    """A parameter of one choice of another, and one of a single value, which explains nothing."""
    trials = []
    for number, trial in enumerate(random_trials(24, 6)):
        params = {"decides": trial.params["decides"], "fixed": 3.0}
        space = {"decides": SPACE["decides"], "fixed": FloatDistribution(3.0, 3.0)}
        if number % 2:
            params |= {"size": trial.params["size"]}
            space |= {"size": SPACE["size"]}
        trials.append(optuna.trial.create_trial(params=params, distributions=space, value=0.0))
    by_name = estimate(trials, decided(trials)).by_name
    assert set(by_name) == {"decides", "fixed", "size"}
    assert by_name["fixed"].share == 0.0
    assert not by_name["fixed"].is_above_noise


def test_a_parameter_that_hardly_any_trial_has_may_be_missing_from_a_resample():
    trials = random_trials(12, seed=1)
    rare = optuna.trial.create_trial(
        params={**trials[0].params, "rare": 0.5},
        distributions={**SPACE, "rare": FloatDistribution(0.0, 1.0)},
        value=0.0,
    )
    trials = [rare, *trials[1:]]
    assert "rare" not in estimate(trials, decided(trials)).above_noise
