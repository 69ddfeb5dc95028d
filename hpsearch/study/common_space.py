"""What several search spaces have in common, for members that begin with what each has found."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from hpsearch.config_paths import Config, paths, value_at
from hpsearch.parameters import (
    CategoricalParameter,
    FloatParameter,
    IntParameter,
    Parameter,
    is_plain,
    json_text,
)
from hpsearch.study.breeding.checks import SHARED
from hpsearch.study.breeding.members import explorable_of
from hpsearch.study.space import SearchSpace
from hpsearch.trainers.config import GAME

Space = Mapping[str, Parameter]
Number = TypeVar("Number", FloatParameter, IntParameter)


def common_space(spaces: Sequence[Space], founders: Sequence[Config]) -> dict[str, Parameter]:
    """Return the parameters that all spaces search, all founders have, and members may differ in.

    Ranges are joined, so that they hold what every founder has learned by. No condition is left:
    where a parameter exists is decided by what members inherit.

    Args:
        spaces: of the studies.
        founders: complete trainer configurations.
    """
    switches = {parent for space in spaces for one in space.values() for parent in one.when}
    shared = _in_all(spaces) & _in_all([set(paths(config)) for config in founders])
    shared -= switches | {*SHARED, *GAME}
    joined = {name: _joined([space[name] for space in spaces]) for name in sorted(shared)}
    found = {
        name: _with_values(one, [value_at(config, name) for config in founders])
        for name, one in joined.items()
        if one is not None
    }
    for config in founders:
        found = explorable_of(config, SearchSpace(found))
    return {name: found[name] for name in sorted(found)}


def _in_all(names: Sequence[Iterable[str]]) -> set[str]:
    first, *others = (set(some) for some in names)
    return first.intersection(*others)


def _joined(same: Sequence[Parameter]) -> Parameter | None:
    """Return a parameter with all ranges in its own, None where they do not fit together."""
    first: Parameter | None
    first, *others = (replace(one, when={}) for one in same)
    for other in others:
        first = None if first is None else _with_range(first, other)
    return first


def _with_range(first: Parameter, other: Parameter) -> Parameter | None:
    if isinstance(first, CategoricalParameter):
        if not isinstance(other, CategoricalParameter):
            return None
        return _with_values(first, list(other.choices))
    if isinstance(first, FloatParameter) and isinstance(other, FloatParameter):
        return _wider(first, other)
    if isinstance(first, IntParameter) and isinstance(other, IntParameter):
        return _wider(first, other)
    return None


def _wider(first: Number, other: Number) -> Number | None:
    """Return a range that holds both, None where their values lie on different scales."""
    if (first.log, first.step) != (other.log, other.step):
        return None
    found = replace(first, low=min(first.low, other.low), high=max(first.high, other.high))
    return None if any(found.check()) else found


def _with_values(parameter: Parameter, values: Sequence[Any]) -> Parameter:
    """Return a parameter whose choices hold these values too; a range stays what it is."""
    if not isinstance(parameter, CategoricalParameter):
        return parameter
    found = {json_text(one): one for one in parameter.choices if is_plain(one)}
    found |= {json_text(one): one for one in values if json_text(one) not in found}
    return replace(parameter, choices=tuple(found.values()))
