"""The search space: parameters, some of which exist only under certain values of others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from math import inf, prod
from typing import TYPE_CHECKING, Any

from hpsearch.errors import shown
from hpsearch.parameters import (
    CategoricalParameter,
    FloatParameter,
    IntParameter,
    Parameter,
    json_text,
    label_of,
)
from hpsearch.schema import Config, value_at

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution
    from optuna.trial import BaseTrial


ALGORITHM = "algorithm"  # the parameter that chooses the base configuration


@dataclass(frozen=True)
class SearchSpace:
    """Parameters by dotted path; every condition names an existing one and none is circular."""

    parameters: Mapping[str, Parameter]

    @cached_property
    def order(self) -> tuple[str, ...]:
        """The paths, each after those that its conditions name, else by name."""
        order: list[str] = []
        sorter = TopologicalSorter({name: self.parameters[name].when for name in self.parameters})
        sorter.prepare()  # circular conditions are refused when the study file is read
        while ready := sorted(sorter.get_ready()):
            order += ready
            sorter.done(*ready)
        return tuple(order)

    @property
    def is_conditional(self) -> bool:
        return any(parameter.when for parameter in self.parameters.values())

    def suggest(self, trial: "BaseTrial") -> dict[str, Any]:
        """Return a trial's value of each parameter that exists; what it holds is kept."""
        values: dict[str, Any] = {}
        for name in self.order:
            if self.is_active(name, values):
                values[name] = _suggest(trial, name, self.parameters[name])
        return values

    def decode(self, params: Mapping[str, Any]) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for name in (name for name in self.order if name in params):
            parameter, values[name] = self.parameters[name], params[name]
            if isinstance(parameter, CategoricalParameter):
                values[name] = parameter.decode(params[name])
        return values

    def distributions(self) -> "dict[str, BaseDistribution]":
        """Return the range of every parameter as Optuna knows it, whatever its conditions."""
        return {name: _distribution(self.parameters[name]) for name in self.order}

    def is_active(self, name: str, values: Mapping[str, Any]) -> bool:
        for parent_name, wanted in self.parameters[name].when.items():
            parent = self.parameters[parent_name]
            assert isinstance(parent, CategoricalParameter), "refused when the study file is read"
            allowed = [json_text(value) for value in wanted_values(parent, wanted)]
            if parent_name not in values or json_text(values[parent_name]) not in allowed:
                return False
        return True

    def num_configurations(self) -> int | None:
        count = sum(self._num_under(case) for case in self._cases)
        return None if count == inf else int(count)

    def configuration(self, index: int) -> dict[str, Any]:
        """Return one of the `num_configurations`, in the form in which Optuna stores it."""
        for case in self._cases:
            count = self._num_under(case)
            if index < count:
                return self._configuration_under(case, index)
            index -= int(count)
        raise IndexError(f"index must be below num_configurations, but is {index} above it")

    def contexts(self, name: str) -> list[dict[str, Any]]:
        """Return all values of the parameters on which ``name`` depends that make it exist.

        Besides its conditions, these are parameters that set the mapping in which ``name`` lies.
        """
        around = {other for other in self.parameters if name.startswith(f"{other}.")}
        depends = around.union(*(self._ancestors(other) for other in {name} | around))
        cases = self._assignments(depends)
        return [case for case in cases if self.is_active(name, case)]

    @cached_property
    def _cases(self) -> list[dict[str, Any]]:
        switches = {parent for parameter in self.parameters.values() for parent in parameter.when}
        return self._assignments(switches)

    def _assignments(self, switches: Iterable[str]) -> list[dict[str, Any]]:
        """Return all values of these categorical parameters; those that do not exist are absent."""
        cases: list[dict[str, Any]] = [{}]
        for name in self.order:
            parameter = self.parameters[name]
            if name in switches and isinstance(parameter, CategoricalParameter):
                choices = [{name: choice} for choice in parameter.choices]
                cases = [
                    case | choice
                    for case in cases
                    for choice in (choices if self.is_active(name, case) else [{}])
                ]
        return cases

    def _ancestors(self, name: str) -> set[str]:
        parents = set(self.parameters[name].when)
        return parents.union(*(self._ancestors(parent) for parent in parents))

    def _num_under(self, case: Mapping[str, Any]) -> float:
        """Return how many configurations a case has, infinity if a range is continuous."""
        names = [name for name in self.order if name not in case and self.is_active(name, case)]
        counts = [self.parameters[name].num_values() for name in names]
        return inf if None in counts else prod(count for count in counts if count is not None)

    def _configuration_under(self, case: Mapping[str, Any], index: int) -> dict[str, Any]:
        params = {}
        for name in self.order:
            parameter = self.parameters[name]
            if name in case:
                params[name] = label_of(case[name])
            elif self.is_active(name, case):
                index, digit = divmod(index, parameter.num_values() or 1)
                params[name] = parameter.value(digit)
        return params


def stored_point(space: SearchSpace, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return one configuration in the form in which Optuna stores it."""
    kinds = space.parameters
    return {
        name: float(value) if isinstance(kinds[name], FloatParameter) else label_of(value)
        for name, value in values.items()
    }


def point_of(space: SearchSpace, config: Config) -> dict[str, Any]:
    """Return what Optuna stores for a complete configuration, of ranges the nearest values.

    Raises ValueError, with the path, if a value is no choice or no number.
    """
    stored: dict[str, Any] = {}
    for name in space.order:
        if space.is_active(name, space.decode(stored)):
            parameter, value = space.parameters[name], value_at(config, name)
            if isinstance(parameter, CategoricalParameter):
                stored[name], fits = label_of(value), label_of(value) in parameter.labels()
            elif fits := isinstance(value, int | float):
                nearest, step = min(max(value, parameter.low), parameter.high), parameter.step
                if step is not None:
                    nearest = parameter.value(round((nearest - parameter.low) / step))
                stored[name] = nearest
            if not fits:
                raise ValueError(
                    f"{name} is {shown(value)}, which space.{name} must offer, but does not"
                )
    return stored


def wanted_values(parent: CategoricalParameter, wanted: Any) -> list[Any]:
    """Return the values that a condition allows: one value of the parent, or a list of them."""
    # Texts are compared, since 1 == true.
    is_list = isinstance(wanted, list) and json_text(wanted) not in map(json_text, parent.choices)
    return wanted if is_list else [wanted]


def _suggest(trial: "BaseTrial", name: str, parameter: Parameter) -> Any:
    match parameter:
        case FloatParameter(low=low, high=high, log=log, step=step):
            return trial.suggest_float(name, low, high, log=log, step=step)
        case IntParameter(low=low, high=high, log=log, step=step):
            return trial.suggest_int(name, low, high, log=log, step=step)
        case CategoricalParameter():
            return parameter.decode(trial.suggest_categorical(name, parameter.labels()))


def _distribution(parameter: Parameter) -> "BaseDistribution":
    # Imported here, because checking a study file must not wait for Optuna.
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution

    match parameter:
        case FloatParameter(low=low, high=high, log=log, step=step):
            return FloatDistribution(low, high, log=log, step=step)
        case IntParameter(low=low, high=high, log=log, step=step):
            return IntDistribution(low, high, log=log, step=step)
        case CategoricalParameter():
            return CategoricalDistribution(parameter.labels())
