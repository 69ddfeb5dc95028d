"""Perturbation and resampling on a study's own parameters."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.population.explore import child_value, one_step, perturbed_values, share_of, value_at
from hpsearch.population.options import Perturb
from hpsearch.study.space import SearchSpace

RATE = FloatParameter(1e-5, 1e-2, log=True)
GAMMA = FloatParameter(0.9, 1.0)
CLIP = FloatParameter(0.1, 0.4, step=0.1)
STEPS = IntParameter(1, 10)
BATCH = IntParameter(32, 1024, log=True)
EVEN = IntParameter(2, 20, step=6)
POINT = FloatParameter(0.5, 0.5)
NUMBERS = (RATE, GAMMA, CLIP, STEPS, BATCH, EVEN, POINT)
ALGORITHM = CategoricalParameter(("dqn", "ppo", [1, 2]))

HOW = Perturb(factor=1.25, range_share=0.1, resample=0.0, switch=0.5)


def rng(seed=0):
    return np.random.default_rng(seed)


def test_steps_by_hand():
    assert one_step(RATE, 1e-3, HOW, up=True) == pytest.approx(1.25e-3)
    assert one_step(RATE, 1e-3, HOW, up=False) == pytest.approx(0.8e-3)
    assert one_step(GAMMA, 0.95, HOW, up=True) == pytest.approx(0.96)
    assert one_step(BATCH, 100, HOW, up=True) == 125
    assert one_step(EVEN, 8, HOW, up=True) == 14
    # One step of a grid at 0.1 is three in binary, and neither 0.30000000000000004.
    assert one_step(CLIP, 0.2, HOW, up=True) == 0.3


@pytest.mark.parametrize("kind", NUMBERS)
@pytest.mark.parametrize("up", [True, False])
def test_nothing_leaves_its_range_or_grid_and_all_reach_its_end(kind, up):
    for seed in range(20):
        value = kind.quantile(rng(seed).random())
        for _ in range(1000):
            after = one_step(kind, value, HOW, up=up)
            assert kind.low <= after <= kind.high
            assert type(after) is type(kind.low)
            if kind.num_values() is not None:
                assert after in [kind.value(k) for k in range(kind.num_values())]
            if after == value:
                break
            assert (after > value) == up
            value = after
        assert value == (kind.high if up else kind.low)


def test_whole_numbers_always_move_by_one_at_least():
    tiny = replace(HOW, factor=1.001, range_share=0.001)
    for kind in (STEPS, EVEN, replace(STEPS, log=True), CLIP):
        for index in range(kind.num_values() - 1):
            low, high = kind.value(index), kind.value(index + 1)
            assert one_step(kind, low, tiny, up=True) == high
            assert one_step(kind, high, tiny, up=False) == low


def test_values_from_outside_come_in_first():
    assert one_step(GAMMA, 0.5, HOW, up=True) == pytest.approx(0.91)
    assert one_step(STEPS, 99, HOW, up=True) == 10


@pytest.mark.parametrize("kind", NUMBERS)
def test_shares_are_the_inverse_of_quantiles(kind):
    for share in np.linspace(0, 0.999, 57):
        value = kind.quantile(share)
        assert 0 <= share_of(kind, value) <= 1
        assert value_at(kind, share_of(kind, value)) == pytest.approx(value)
    assert value_at(kind, 1.0) == pytest.approx(kind.high)
    assert value_at(kind, -0.1) == pytest.approx(kind.low)
    with pytest.raises(ValueError, match="value must lie in"):
        share_of(kind, kind.high + 1)


def test_chances_of_resampling_and_switching():
    how = replace(HOW, resample=0.3, switch=0.6)
    generator = rng()
    rates = [child_value(RATE, 1e-3, how, generator) for _ in range(4000)]
    steps = [math.isclose(value, 1.25e-3) or math.isclose(value, 0.8e-3) for value in rates]
    assert np.mean(steps) == pytest.approx(0.7, abs=0.03)
    assert np.mean([math.isclose(value, 1.25e-3) for value in rates]) == pytest.approx(
        0.35, abs=0.03
    )
    anew = np.log10([value for value, step in zip(rates, steps, strict=True) if not step])
    assert np.quantile(anew, [0, 0.5, 1]) == pytest.approx([-5, -3.5, -2], abs=0.15)
    counts = Counter(child_value(ALGORITHM, "dqn", how, generator) for _ in range(6000))
    assert counts["dqn"] / 6000 == pytest.approx(0.4 + 0.2, abs=0.03)
    assert counts["[1, 2]"] / 6000 == pytest.approx(0.2, abs=0.03)  # as Optuna stores it


def test_a_conditional_space_stays_consistent():
    space = SearchSpace(
        {
            "algorithm": ALGORITHM,
            "rate": RATE,
            "ppo.clip": replace(CLIP, when={"algorithm": "ppo"}),
            "dqn.steps": replace(STEPS, when={"algorithm": "dqn"}),
        }
    )
    parameters = {name: space.parameters[name] for name in space.order}
    values = {"algorithm": "dqn", "rate": 1e-3, "dqn.steps": 3}
    generator, seen = rng(), set()
    for _ in range(300):
        values = perturbed_values(values, parameters, space.is_active, HOW, generator)
        assert ("ppo.clip" in values) == (values["algorithm"] == "ppo")
        assert ("dqn.steps" in values) == (values["algorithm"] == "dqn")
        seen.add(values["algorithm"])
    assert seen == {"dqn", "ppo", "[1, 2]"}


def test_the_same_generator_explores_alike():
    parameters = {"rate": RATE, "steps": STEPS, "algorithm": ALGORITHM}
    values = {"rate": 1e-4, "steps": 4, "algorithm": "ppo"}
    once, again = (
        perturbed_values(values, parameters, lambda *_: True, HOW, rng(5)) for _ in range(2)
    )
    assert once == again
