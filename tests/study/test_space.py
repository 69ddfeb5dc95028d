"""The search space against brute force, and against Optuna's own ranges."""

import copy
import math
import random
from typing import Any

import optuna
import pytest
from hypothesis import given
from hypothesis import strategies as st
from spaces import (
    CONDITIONAL,
    FINITE,
    FINITE_COUNT,
    PLAIN,
    all_configurations,
    exists,
    finite_spaces,
)

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.schema import apply, paths
from hpsearch.study.space import SearchSpace, point_of

SHARES = st.floats(0, 1, exclude_max=True)
CONFIGS = st.recursive(
    st.integers(),
    lambda inner: st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3),
    max_leaves=8,
).filter(lambda config: isinstance(config, dict) and config)


def random_study(seed: int = 0) -> optuna.Study:
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))


@pytest.mark.parametrize("space", [PLAIN, CONDITIONAL, FINITE])
def test_suggestion_holds_exactly_what_exists(space: SearchSpace) -> None:
    study = random_study()
    for _ in range(30):
        trial = study.ask()
        values = space.suggest(trial)
        assert space.decode(trial.params) == values
        everything = trial.params | {
            name: space.parameters[name].value(0)
            for name in space.order
            if name not in trial.params and space.parameters[name].num_values()
        }
        assert set(values) == {name for name in space.order if exists(space, name, everything)}


def test_lists_and_mappings_come_back_as_they_were() -> None:
    seen = []
    study = random_study()
    for _ in range(40):
        value = PLAIN.suggest(study.ask())["net"]
        if value not in seen:
            seen.append(value)
    assert sorted(map(repr, seen)) == ["'none'", "None", "[64, 64]", "{'repeat': 2}"]


def test_true_is_not_one_in_a_condition() -> None:
    values = {"algorithm": "dqn", "double": 1}
    assert not CONDITIONAL.is_active("delay", values)
    assert CONDITIONAL.is_active("delay", values | {"double": True})


def test_list_in_a_condition_is_a_choice_before_it_is_several() -> None:
    assert FINITE.is_active("steps", {"kind": [1, 2]})
    assert FINITE.is_active("steps", {"kind": "b"})
    assert not FINITE.is_active("steps", {"kind": False})


def test_interrupted_suggestion_keeps_what_it_had() -> None:
    study = random_study()
    trial = study.ask()
    half = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    assert PLAIN.suggest(trial)["lr"] == half


@pytest.mark.parametrize("space", [PLAIN, CONDITIONAL, FINITE])
def test_distributions_are_those_that_suggestions_use(space: SearchSpace) -> None:
    study = random_study()
    distributions = space.distributions()
    assert list(distributions) == list(space.order)
    for _ in range(10):
        trial = study.ask()
        space.suggest(trial)
        for name, distribution in trial.distributions.items():
            assert distribution == distributions[name]


def test_number_of_configurations() -> None:
    assert FINITE.num_configurations() == FINITE_COUNT
    assert PLAIN.num_configurations() is None
    assert CONDITIONAL.num_configurations() is None


@given(finite_spaces())
def test_configurations_are_those_of_brute_force(space: SearchSpace) -> None:
    expected = all_configurations(space)
    count = space.num_configurations()
    assert count == len(expected)
    listed = [space.configuration(index) for index in range(count)]
    assert sorted(map(repr, listed)) == sorted(map(repr, expected))
    with pytest.raises(IndexError):
        space.configuration(count)


@given(SHARES, st.integers(1, 50), st.integers(0, 60), st.booleans())
def test_quantiles_of_whole_numbers_lie_in_the_range(
    share: float, low: int, width: int, log: bool
) -> None:
    parameter = IntParameter(low, low + width, log)
    assert low <= parameter.quantile(share) <= low + width


@given(SHARES, st.floats(1e-9, 1e9), st.floats(1, 1e6), st.booleans())
def test_quantiles_of_numbers_are_accepted_by_optuna(
    share: float, low: float, ratio: float, log: bool
) -> None:
    parameter = FloatParameter(low, low * ratio, log)
    distribution = SearchSpace({"x": parameter}).distributions()["x"]
    assert distribution._contains(parameter.quantile(share))


def test_quantiles_are_uniform_or_log_uniform() -> None:
    shares = [(index + 0.5) / 1000 for index in range(1000)]
    log = FloatParameter(1e-4, 1e-2, log=True)
    below = sum(log.quantile(share) < 1e-3 for share in shares)
    assert below == 500
    dice = IntParameter(1, 6)
    counts = [sum(dice.quantile(share) == face for share in shares) for face in range(1, 7)]
    assert max(counts) - min(counts) <= 1
    octaves = IntParameter(1, 64, log=True)
    share_of_one = sum(octaves.quantile(share) == 1 for share in shares) / 1000
    assert share_of_one == pytest.approx(math.log(1.5 / 0.5) / math.log(64.5 / 0.5), abs=2e-3)


@given(CONFIGS, st.data())
def test_apply_sets_the_paths_and_nothing_else(base: dict[str, Any], data: st.DataObject) -> None:
    before = copy.deepcopy(base)
    leaves = [path for path in paths(base) if not isinstance(look_up(base, path), dict)]
    chosen = data.draw(st.lists(st.sampled_from(leaves), unique=True)) if leaves else []
    values = {path: [random.random()] for path in chosen}
    applied = apply(base, values)
    assert base == before
    assert list(paths(applied)) == list(paths(base))
    for path in leaves:
        assert look_up(applied, path) == values.get(path, look_up(base, path))


def test_apply_refines_a_mapping_that_is_also_set() -> None:
    values = {"a.b.c": 5, "a": {"b": {"c": 1, "d": 2}}}
    assert apply({"a": 0}, values) == {"a": {"b": {"c": 5, "d": 2}}}
    assert values["a"] == {"b": {"c": 1, "d": 2}}


@pytest.mark.parametrize("path", ["b", "a.c", "a.b.c", "a.x.y"])
def test_apply_refuses_an_unknown_path(path: str) -> None:
    with pytest.raises(KeyError, match="unknown path"):
        apply({"a": {"b": 1}}, {path: 2})


def look_up(config: Any, path: str) -> Any:
    for key in path.split("."):
        config = config[key]
    return config


@given(value=st.floats(-2.0, 9.0))
def test_the_nearest_value_of_a_range_is_stored(value: float) -> None:
    for parameter in (
        FloatParameter(0.1, 0.7, step=0.2),
        FloatParameter(0.5, 0.5),
        IntParameter(1, 7, step=3),
        IntParameter(2, 5, log=True),
    ):
        wanted = value if isinstance(parameter, FloatParameter) else round(value)
        count = parameter.num_values()
        assert count is not None
        values = [parameter.value(index) for index in range(count)]
        nearest = point_of(SearchSpace({"x": parameter}), {"x": wanted})["x"]
        assert nearest in values
        # Rounded: in binary, 0.2 is not as far from 0.1 as from 0.3.
        distances = [round(abs(other - wanted), 9) for other in values]
        assert round(abs(nearest - wanted), 9) == min(distances)
    continuous = SearchSpace({"x": FloatParameter(0.0, 1.0)})
    assert point_of(continuous, {"x": value}) == {"x": min(max(value, 0.0), 1.0)}


def test_what_optuna_stores_for_a_configuration() -> None:
    shapes = CategoricalParameter(([32], [128]))
    space = SearchSpace(
        {
            "net": shapes,
            "rate": FloatParameter(0.0, 1.0, step=0.25),
            "depth": IntParameter(0, 9, step=3, when={"net": [[32]]}),
        }
    )
    config = {"net": [32], "rate": 0.4, "depth": 4}
    stored = point_of(space, config)
    assert stored == {"net": "[32]", "rate": 0.5, "depth": 3}
    optuna.create_trial(params=stored, distributions=space.distributions(), value=0.0)
    # What does not exist is not looked at.
    assert point_of(space, {**config, "net": [128], "depth": None}) == {"net": "[128]", "rate": 0.5}
    for wrong in ({"net": [64]}, {"rate": None}, {"depth": "deep"}):
        (name,) = wrong
        with pytest.raises(ValueError, match=f"^{name} is .*space.{name}"):
            point_of(space, config | wrong)


@pytest.mark.parametrize(("high", "step"), [(1.0, 1e-30), (1e30, 1.0)])
def test_a_step_too_fine_for_floats_is_refused(high: float, step: float) -> None:
    (problem,) = FloatParameter(0.0, high, step=step).check()
    assert f"but is {step!r}; raise it" in problem
