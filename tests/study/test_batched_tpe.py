"""TPE with one fit for many suggestions, beside Optuna's own with a fit for each."""

from collections.abc import Callable

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from optuna.trial import create_trial
from scipy.stats import ks_2samp

from hpsearch.study import batched_tpe
from hpsearch.study.batched_tpe import BatchedTPESampler, Fits
from hpsearch.study.density import Density
from hpsearch.study.samplers import derive_seed

SPACE = {
    "x": FloatDistribution(0.0, 1.0),
    "rate": FloatDistribution(1e-4, 1e-1, log=True),
    "n": IntDistribution(1, 64),
    "c": CategoricalDistribution(("a", "b", "c")),
}
BEST = {"x": 0.7, "rate": 1e-2, "n": 20, "c": "b"}

Make = Callable[[int], optuna.samplers.TPESampler]


@pytest.fixture
def history() -> Callable[[int], optuna.Study]:
    """Return a function that gives a study with so many trials, which are better near the best."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)

    def study(num_finished: int) -> optuna.Study:
        made = optuna.create_study(direction="maximize")
        rng = np.random.default_rng(0)
        for _ in range(num_finished):
            params = {
                "x": rng.random(),
                "rate": float(10 ** rng.uniform(-4, -1)),
                "n": int(rng.integers(1, 65)),
                "c": str(rng.choice(["a", "b", "c"])),
            }
            trial = create_trial(params=params, distributions=SPACE, value=-distance(params))
            made.add_trial(trial)
        return made

    return study


def distance(params: dict) -> float:
    return (
        abs(params["x"] - BEST["x"])
        + abs(np.log10(params["rate"] / BEST["rate"])) / 3
        + abs(params["n"] - BEST["n"]) / 64
        + float(params["c"] != BEST["c"])
    )


def suggested(study: optuna.Study, number: int, make: Make) -> list[dict]:
    """Return so many suggestions, all of trials that run; each by a sampler of its own seed."""
    params = []
    for _ in range(number):
        study.sampler = make(derive_seed(1, len(study.trials), "joint"))
        params.append(study.ask(SPACE).params)
    return params


def ours(fits: Fits) -> Make:
    return lambda seed: BatchedTPESampler(fits, multivariate=True, constant_liar=True, seed=seed)


def optunas(seed: int) -> optuna.samplers.TPESampler:
    return optuna.samplers.TPESampler(multivariate=True, constant_liar=True, seed=seed)


def test_few_trials_are_suggested_as_by_optuna(history) -> None:
    assert suggested(history(40), 5, ours(Fits())) == suggested(history(40), 5, optunas)


@pytest.mark.slow
def test_suggestions_are_as_good_as_optunas(history, monkeypatch) -> None:
    """Also where the bad trials are represented by some of them."""
    monkeypatch.setattr(batched_tpe, "MOST_BAD", 200)
    monkeypatch.setattr(batched_tpe, "MANY_BAD", 400)
    far = [
        [distance(params) for params in suggested(history(1_200), 80, make)]
        for make in (ours(Fits()), optunas)
    ]
    errors = [np.std(values, ddof=1) / len(values) ** 0.5 for values in far]
    assert abs(np.mean(far[0]) - np.mean(far[1])) < 3 * np.hypot(*errors)
    assert np.mean(far[0]) < 0.5 * -np.mean([trial.value for trial in history(1_200).trials])


def test_suggestions_of_one_fit_repel_each_other(history, monkeypatch) -> None:
    monkeypatch.setattr(batched_tpe, "MANY", 60)
    monkeypatch.setattr(batched_tpe, "AT_ONCE", 0)

    def spread(params: list[dict]) -> float:
        """Return the mean distance of a suggestion to the nearest other one, in two parameters."""
        places = np.array([(p["x"], np.log10(p["rate"]) / 3) for p in params])
        apart = np.linalg.norm(places[:, None] - places[None], axis=2)
        np.fill_diagonal(apart, np.inf)
        return float(apart.min(axis=1).mean())

    together = suggested(history(80), 60, ours(Fits()))
    apart, study, fits = [], history(80), Fits()
    for _ in range(60):
        apart += suggested(study, 1, ours(fits))
        fit = fits.by_names[frozenset(SPACE)]
        fit.suggested.clear()
        fit.num_suggested = 0
    assert spread(together) > 1.2 * spread(apart)


def test_a_fit_serves_until_a_trial_has_finished(history, monkeypatch) -> None:
    monkeypatch.setattr(batched_tpe, "MANY", 60)
    monkeypatch.setattr(batched_tpe, "AT_ONCE", 3)
    monkeypatch.setattr(batched_tpe, "MOST_SUGGESTIONS", 3)
    fits = Fits()
    study, make = history(80), ours(fits)
    seen = []
    for number in range(9):
        suggested(study, 1, make)
        seen.append(fits.by_names[frozenset(SPACE)])
        if number == 4:
            study.tell(len(study.trials) - 1, 0.0)
    assert [seen.index(fit) for fit in seen] == [0, 1, 1, 1, 4, 5, 5, 5, 8]


def test_a_fit_serves_for_longer_while_its_suggestions_weigh_little(history, monkeypatch) -> None:
    """So that they need not repel each other, for which a density of them would be fitted."""
    monkeypatch.setattr(batched_tpe, "MANY", 60)
    monkeypatch.setattr(batched_tpe, "AT_ONCE", 0)
    monkeypatch.setattr(batched_tpe, "MOST_SUGGESTIONS", 3)
    monkeypatch.setattr(batched_tpe, "DRAWN_AT_ONCE", 2)
    monkeypatch.setattr(batched_tpe, "LITTLE", 0.2)
    monkeypatch.setattr(BatchedTPESampler, "_with_suggested", lambda *given: pytest.fail("fitted"))
    fits = Fits()
    study, make = history(80), ours(fits)
    served = []
    for _ in range(40):
        suggested(study, 1, make)
        fit = fits.by_names[frozenset(SPACE)]
        served.append((id(fit), fit.num_suggested, fit.num_negligible))
    assert len({fit for fit, _, _ in served}) > 1
    assert all(number <= negligible for _, number, negligible in served)
    assert served[9][1] == 10


def test_a_fit_to_very_many_serves_until_a_hundredth_more_have_finished(
    history, monkeypatch
) -> None:
    """Before, all of 100,000 finished trials were sorted again in every round."""
    monkeypatch.setattr(batched_tpe, "AT_ONCE", 3)
    monkeypatch.setattr(batched_tpe, "QUICKLY_SORTED", 50)
    fits = Fits()
    study, make = history(250), ours(fits)
    suggested(study, 5, make)
    seen = []
    for number in range(250, 254):
        study.tell(number, 0.0)
        suggested(study, 1, make)
        seen.append(fits.by_names[frozenset(SPACE)])
    assert [seen.index(fit) for fit in seen] == [0, 0, 2, 2]  # three are more than 1 % of 200


def test_suggestions_depend_on_nothing_but_the_history(history, monkeypatch) -> None:
    """So that a driver that was killed between two of them goes on as it would have."""
    monkeypatch.setattr(batched_tpe, "MANY", 60)
    whole = suggested(history(80), 5, ours(Fits()))
    interrupted = history(80)
    assert (
        suggested(interrupted, 2, ours(Fits())) + suggested(interrupted, 3, ours(Fits())) == whole
    )


WIDE = SPACE | {
    "steps": IntDistribution(20, 2000, log=True),
    "share": FloatDistribution(0.0, 1.0, step=0.25),
}


@pytest.mark.parametrize("names", [[*WIDE], ["c"], ["n", "share"], ["x"]])
def test_a_density_is_that_of_optuna(names: list[str]) -> None:
    rng = np.random.default_rng(0)
    space = {name: WIDE[name] for name in names}
    sampler = optuna.samplers.TPESampler(multivariate=True)
    for num_trials in (0, 1, 7, 300):
        observations = {
            "x": rng.random(num_trials),
            "rate": 10 ** rng.uniform(-4, -1, num_trials),
            "n": rng.integers(1, 65, num_trials).astype(float),
            "c": rng.integers(0, 3, num_trials).astype(float),
            "steps": rng.integers(20, 2001, num_trials).astype(float),
            "share": rng.integers(0, 5, num_trials) / 4,
        }
        observations = {name: observations[name] for name in names}
        parameters = sampler._parzen_estimator_parameters
        estimator = sampler._parzen_estimator_cls(observations, space, parameters)
        places = estimator.sample(np.random.RandomState(num_trials), 200)
        density = Density(estimator)
        np.testing.assert_allclose(density.log_pdf(places), estimator.log_pdf(places), rtol=1e-9)
        ours, theirs = (
            each.sample(np.random.RandomState(1), 4000) for each in (density, estimator)
        )
        for name in space:
            assert ks_2samp(ours[name], theirs[name]).pvalue > 1e-4
