"""The time-varying bandit: its process against dense algebra, its choices against random ones."""

import numpy as np
import pytest

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.population.explore import (
    Exploring,
    Generation,
    Kernel,
    Observations,
    children_params,
    condition,
    fit,
    propose,
)
from hpsearch.population.options import Model, Perturb

HOW = Model("model", 1.0, Perturb(factor=1.25, range_share=0.1, resample=0.2, switch=0.2))


def rng(seed=0):
    return np.random.default_rng(seed)


def test_the_posterior_is_that_of_a_joint_normal():
    generator = rng()
    kernel = Kernel(length_scale=0.5, forgetting=0.1, noise=0.2)
    x, t, y = generator.random((6, 2)), np.arange(6.0), generator.normal(size=6)
    new_x, new_t = generator.random((3, 2)), np.full(3, 7.0)

    def covariance(a, a_time, b, b_time):
        return np.exp(-((a - b) ** 2).sum() / 0.5) * 0.9 ** (abs(a_time - b_time) / 2)

    xs, ts = np.vstack([x, new_x]), np.append(t, new_t)
    joint = np.array(
        [
            [covariance(a, s, b, r) for b, r in zip(xs, ts, strict=True)]
            for a, s in zip(xs, ts, strict=True)
        ]
    )
    joint[:6, :6] += 0.2 * np.eye(6)
    gain = joint[6:, :6] @ np.linalg.inv(joint[:6, :6])
    posterior = condition(kernel, x, t, y)
    mean, error = posterior.predict(new_x, new_t)
    assert mean == pytest.approx(gain @ y)
    assert error**2 == pytest.approx((joint[6:, 6:] - gain @ joint[:6, 6:]).diagonal())
    _, log_det = np.linalg.slogdet(2 * np.pi * joint[:6, :6])
    evidence = -0.5 * (y @ np.linalg.inv(joint[:6, :6]) @ y + log_det)
    assert posterior.log_evidence == pytest.approx(evidence)


def test_the_fit_tells_functions_that_change_from_those_that_do_not():
    generator = rng(1)
    x, t = generator.random((80, 1)), np.repeat(np.arange(20.0), 4)
    still = np.sin(6 * x[:, 0])
    moving = np.sin(6 * x[:, 0] + 0.8 * t)
    assert fit(x, t, still).kernel.forgetting < 0.05
    assert fit(x, t, moving).kernel.forgetting >= 0.1


def _drifting_search(propose_points, seed):
    """Return the mean change of the last generations; the best place drifts through the square."""
    generator, seen = rng(seed), Observations(np.zeros((0, 2)), np.zeros(0), np.zeros(0))
    best = []
    for generation in range(20):
        points = propose_points(seen, generation, generator)
        optimum = np.array([0.2 + 0.03 * generation, 0.7 - 0.02 * generation])
        change = np.exp(-np.square(points - optimum).sum(axis=1) / 0.08)
        noisy = change + 0.05 * generator.normal(size=len(points))
        seen = Observations(
            np.vstack([seen.x, points]),
            np.append(seen.t, np.full(len(points), float(generation))),
            np.append(seen.change, noisy),
        )
        best.append(change.mean())
    return np.mean(best[10:])


def test_it_follows_a_drifting_optimum_better_than_chance():
    for seed in range(3):
        model = _drifting_search(lambda seen, now, g: propose(seen, now, 4, 1.0, g), seed)
        chance = _drifting_search(lambda seen, now, g: g.random((4, 2)), seed)
        assert model > 0.6
        assert chance < 0.4


def test_children_of_one_generation_do_not_crowd():
    """The bound alone would send all of them to the one place that is least known."""
    x = 0.4 * rng(2).random((30, 2))
    seen = Observations(x, np.zeros(30), np.sin(8 * x).sum(axis=1))
    points = propose(seen, 1, 4, 10.0, rng())
    distances = np.linalg.norm(points[:, None] - points, axis=2)[~np.eye(4, dtype=bool)]
    assert distances.min() > 0.15
    assert (points.max(axis=1) > 0.6).all()


def test_the_same_generator_proposes_the_same():
    seen = Observations(rng().random((9, 3)), np.arange(9.0), rng(1).normal(size=9))
    once, again = (propose(seen, 9, 3, 1.0, rng(4)) for _ in range(2))
    assert np.array_equal(once, again)
    assert once.shape == (3, 3)
    assert (once >= 0).all()
    assert (once <= 1).all()


def test_with_nothing_to_tell_points_apart_they_are_drawn_anywhere():
    flat = Observations(rng().random((9, 1)), np.zeros(9), np.ones(9))
    assert np.ptp(propose(flat, 1, 300, 1.0, rng())) > 0.95


def test_values_of_a_space_improve_where_the_model_can_see():
    """The best rate is 1e-3, whatever the choice; the whole number does not matter."""
    parameters = {
        "algorithm": CategoricalParameter(("dqn", "ppo")),
        "rate": FloatParameter(1e-5, 1e-1, log=True),
        "steps": IntParameter(1, 9),
    }
    parents = [{"algorithm": "dqn", "rate": rate, "steps": 3} for rate in (1e-5, 1e-4, 1e-2, 1e-1)]
    history, generator = [], rng(3)
    for generation in range(12):
        for values in parents:
            change = -((np.log10(values["rate"]) + 3) ** 2)
            history.append(Generation(values, generation, change))
        history.append(Generation(parents[0], generation, float("nan")))
        known = Exploring(parameters, lambda *_: True, history, generation + 1)
        parents = children_params(HOW, parents, known, generator)
    rates = np.log10([values["rate"] for values in parents])
    assert np.abs(rates + 3).mean() < 0.5
    assert all(type(values["steps"]) is int and 1 <= values["steps"] <= 9 for values in parents)
    assert {past.values["algorithm"] for past in history} == {"dqn", "ppo"}


def test_without_history_it_explores_without_a_model():
    parameters = {"rate": FloatParameter(1e-5, 1e-1, log=True)}
    how = Model("model", 1.0, Perturb(factor=1.25, range_share=0.1, resample=0.0, switch=0.0))
    known = Exploring(parameters, lambda *_: True, [], 0)
    (child,) = children_params(how, [{"rate": 1e-3}], known, rng())
    assert child["rate"] in (pytest.approx(1.25e-3), pytest.approx(0.8e-3))
