"""Search spaces for the tests of this folder."""

from collections.abc import Mapping
from itertools import product
from typing import Any

from hypothesis import strategies as st

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter, Parameter
from hpsearch.study.space import SearchSpace

PLAIN = SearchSpace(
    {
        "lr": FloatParameter(1e-5, 1e-1, log=True),
        "gamma": FloatParameter(0.5, 1.0),
        "width": IntParameter(8, 64, step=8),
        "net": CategoricalParameter(([64, 64], {"repeat": 2}, "none", None)),
    }
)
CONDITIONAL = SearchSpace(
    {
        # Before the parameter that it depends on, as a file may have it.
        "clip": FloatParameter(0.1, 0.4, when={"algorithm": "ppo"}),
        "algorithm": CategoricalParameter(("dqn", "ppo")),
        "lr": FloatParameter(1e-5, 1e-1, log=True),
        "double": CategoricalParameter((True, False), when={"algorithm": ["dqn"]}),
        "delay": IntParameter(1, 100, log=True, when={"double": True}),
    }
)
FINITE = SearchSpace(
    {
        "steps": IntParameter(1, 4, when={"kind": [[1, 2], "b"]}),
        "kind": CategoricalParameter(([1, 2], "b", False)),
        "rate": FloatParameter(0.1, 0.5, step=0.1),
        "deep": CategoricalParameter((0, 1), when={"kind": False}),
        "deeper": IntParameter(2, 6, step=2, when={"deep": 1, "kind": False}),
        "fixed": FloatParameter(0.3, 0.3),
    }
)
"""kind [1, 2] or b: 2 * 4 * 5; kind False: 5 * (1 + 3)"""
FINITE_COUNT = 60

SCALARS = st.one_of(st.integers(-9, 9), st.text("abc", max_size=2), st.booleans(), st.none())
CHOICES = st.lists(
    st.one_of(SCALARS, st.lists(st.integers(0, 3), max_size=2)), min_size=1, max_size=3
)


@st.composite
def finite_spaces(draw: st.DrawFn) -> SearchSpace:
    """Draw a space of up to five parameters, with chains of conditions."""
    parameters: dict[str, Parameter] = {}
    for index in range(draw(st.integers(1, 5))):
        parents = [n for n, p in parameters.items() if isinstance(p, CategoricalParameter)]
        when = {
            parent: draw(st.sampled_from(parameters[parent].choices))
            for parent in draw(st.sets(st.sampled_from(parents), max_size=2) if parents else NONE)
        }
        parameters[f"p{index}"] = draw(finite_parameters(when))
    names = draw(st.permutations(list(parameters)))
    return SearchSpace({name: parameters[name] for name in names})


NONE: st.SearchStrategy[set[str]] = st.just(set())


@st.composite
def finite_parameters(draw: st.DrawFn, when: dict[str, Any]) -> Parameter:
    """Draw a parameter with few values."""
    low, count = draw(st.integers(1, 5)), draw(st.integers(0, 3))
    match draw(st.sampled_from(("int", "float", "categorical"))):
        case "int":
            return IntParameter(low, low + count * 2, step=2, when=when)
        case "float":
            step = draw(st.sampled_from((0.1, 0.25, 3.0)))
            high = round(low + count * step, 6)
            return FloatParameter(low, high, step=step, when=when)
        case _:
            choices = tuple(draw(CHOICES))
            parameter = CategoricalParameter(choices, when)
            return parameter if not list(parameter.check()) else draw(finite_parameters(when))


def all_configurations(space: SearchSpace) -> list[dict[str, Any]]:
    """Return every configuration, by trying all values of all parameters (slow, but plain)."""
    grids = [range(space.parameters[name].num_values() or 0) for name in space.order]
    configurations: list[dict[str, Any]] = []
    for digits in product(*grids):
        labels = {n: space.parameters[n].value(d) for n, d in zip(space.order, digits, strict=True)}
        kept = {name: labels[name] for name in space.order if exists(space, name, labels)}
        if kept not in configurations:
            configurations.append(kept)
    return configurations


def exists(space: SearchSpace, name: str, labels: Mapping[str, Any]) -> bool:
    """Return whether a parameter exists, from what the file says of conditions."""
    for parent_name, wanted in space.parameters[name].when.items():
        parent = space.parameters[parent_name]
        assert isinstance(parent, CategoricalParameter)
        value = parent.decode(labels[parent_name])
        alternatives = wanted if isinstance(wanted, list) and wanted not in parent.choices else ()
        allowed = [repr(wanted), *(repr(alternative) for alternative in alternatives)]
        if not exists(space, parent_name, labels) or repr(value) not in allowed:
            return False
    return True
