"""Configurations that a study file lists: what is wrong with them, and what Optuna stores of them.

The choices of a categorical parameter are compared as text, as elsewhere: 1 is not true.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hpsearch.errors import unknown_name
from hpsearch.parameters import (
    CategoricalParameter,
    FloatParameter,
    Parameter,
    is_plain,
    json_text,
)
from hpsearch.study.options import ListedOptions, Sampler
from hpsearch.study.space import SearchSpace
from hpsearch.study.space_checks import condition_problems

ON_THE_GRID = 1e-9
"""share of a step by which a value may miss it, as decimal numbers do in binary"""


def listed_problems(
    sampler: Sampler | None, parameters: Mapping[str, Parameter], data: object
) -> Iterator[str]:
    """Yield what is wrong with the configurations of a listed sampler.

    Args:
        sampler: None where it could not be read.
        parameters: those of the space that could be read.
        data: the whole file, which names parameters that could not be read, too; their own faults
            are reported elsewhere.
    """
    if isinstance(sampler, ListedOptions):
        where = "sampler.configurations"
        yield from configuration_problems(where, sampler.configurations, parameters, data)


def configuration_problems(
    where: str,
    configurations: Sequence[Mapping[str, Any]],
    parameters: Mapping[str, Parameter],
    data: object,
) -> Iterator[str]:
    """Yield what is wrong with configurations that stand in a list of a study file.

    Args:
        where: path of the list.
        configurations: what it holds.
        parameters: those of the space that could be read.
        data: the whole file.
    """
    named = _named(data)
    # Which parameters exist is known only where the conditions are right.
    is_whole = parameters.keys() == set(named) and not any(condition_problems(parameters))
    space = SearchSpace(parameters) if is_whole else None
    for index, values in enumerate(configurations):
        path = f"{where}[{index}]"
        for name, value in values.items():
            if name in parameters:
                problem = _value_problem(parameters[name], value)
                if problem:
                    yield f"{path}.{name} {problem}"
            elif name not in named:
                yield f"{path} names an {unknown_name('parameter', name, named)}"
        if space is not None:
            yield from _presence_problems(path, space, values)


def listed_points(
    space: SearchSpace, configurations: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the configurations in the form in which Optuna stores them."""
    return [stored_point(space, values) for values in configurations]


def stored_point(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return one configuration in the form in which Optuna stores it."""
    return {name: _stored(space.parameters[name], value) for name, value in values.items()}


def _named(data: object) -> list[str]:
    space = data.get("space") if isinstance(data, Mapping) else None
    return [str(name) for name in space] if isinstance(space, Mapping) else []


def _stored(parameter: Parameter, value: Any) -> Any:
    match parameter:
        case CategoricalParameter():
            texts = [json_text(choice) for choice in parameter.choices]
            return parameter.value(texts.index(json_text(value)))
        case FloatParameter():
            return float(value)
        case _:
            return value


def _value_problem(parameter: Parameter, value: Any) -> str | None:
    """Return why a parameter cannot have a value."""
    if isinstance(parameter, CategoricalParameter):
        valid = [json_text(choice) for choice in parameter.choices if is_plain(choice)]
        if not is_plain(value):
            return f"must be one of the choices, but is {value!r}"
        text = json_text(value)
        return None if text in valid else f"is an {unknown_name('choice', text, valid)}"
    is_float = isinstance(parameter, FloatParameter)
    kinds = (int, float) if is_float else (int,)
    if isinstance(value, bool) or not isinstance(value, kinds):
        return f"must be {'a number' if is_float else 'a whole number'}, but is {value!r}"
    low, high, step = parameter.low, parameter.high, parameter.step
    if not low <= value <= high:
        return f"must lie in [{low!r}, {high!r}], but is {value!r}"
    steps = 0.0 if step is None else (value - low) / step
    if abs(steps - round(steps)) > ON_THE_GRID * max(1.0, abs(steps)):
        return f"must lie a whole number of steps of {step!r} above {low!r}, but is {value!r}"
    return None


def _presence_problems(path: str, space: SearchSpace, values: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parameters that are missing, and those that must not be there."""
    for name in space.order:
        exists = space.is_active(name, values)
        if exists and name not in values:
            yield f"{path} lacks {name}, which exists in this configuration"
        elif name in values and not exists:
            yield f"{path}.{name} must be left out, for its conditions do not hold"
