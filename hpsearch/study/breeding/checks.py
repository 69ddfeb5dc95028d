"""What is wrong with a population in a study file; what its children may change and grow."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import permutations
from typing import Any

from hpsearch.errors import ConfigError
from hpsearch.parameters import CategoricalParameter, Parameter, is_plain, json_text, label_of
from hpsearch.population.operators.growth import policy_items, widened
from hpsearch.population.operators.options import Grow, HostAndAgent, OperatorOptions
from hpsearch.population.options import Islands, PopulationOptions, Schedule, scripted_players
from hpsearch.schema import Config, apply, leaves
from hpsearch.study.options import NoPruning
from hpsearch.study.space import SearchSpace
from hpsearch.study.space_checks import condition_problems, configuration_problems, stored_point
from hpsearch.trainers.config import GAME, CommonConfig, read_config
from hpsearch.trainers.config.players import ROLES, net_arch_faults


def explorable_of(base: Config, space: SearchSpace) -> dict[str, Parameter]:
    """Return the parameters that members of one shape may differ in, in the space's order.

    Children inherit the others with their parents' weights, which would not fit elsewhere, and with
    them those that decide whether the others exist.
    """
    per_member = {leaf.path: leaf.per_member for leaf in leaves(read_config(base, source="base"))}
    parameters, inherited = space.parameters, set[str]()
    for name in reversed(space.order):
        if name in inherited or not _is_per_member(name, per_member):
            inherited |= {name, *parameters[name].when}
    return {name: parameters[name] for name in space.order if name not in inherited}


def _is_per_member(name: str, per_member: Mapping[str, bool]) -> bool:
    inside = [
        marked
        for path, marked in per_member.items()
        if path == name or path.startswith(f"{name}.") or name.startswith(f"{path}.")
    ]
    return bool(inside) and all(inside)


def size(config: CommonConfig) -> float:
    """Return the number of weights of the networks by which the learning roles play."""
    return float(sum(config.policy_size(name) for name in config.learning()))


WHERE = "population.explore.intervals"


def scheduled(schedule: Schedule, space: SearchSpace, index: int) -> dict[str, Any]:
    """Return the values of an interval as Optuna stores them; after the last one they stay."""
    return stored_point(space, schedule.intervals[min(index, len(schedule.intervals) - 1)])


def schedule_problems(
    sections: Mapping[str, Any], bases: Mapping[str, Config], data: object
) -> Iterator[str]:
    """Yield what is wrong with the schedule of a population, if it follows one.

    ``sections`` and ``bases`` hold what could be read of the study file, ``data`` the whole file.
    """
    options = sections.get("population")
    if options is None or not isinstance(options.explore, Schedule):
        return
    parameters = sections.get("space", {})
    intervals = options.explore.intervals
    yield from configuration_problems(WHERE, intervals, parameters, data)
    if len(bases) == 1 and not any(condition_problems(parameters)):
        (base,) = bases.values()
        may_change = explorable_of(base, SearchSpace(parameters))
        yield from _shape_problems(intervals, parameters.keys() - may_change.keys())


def _shape_problems(intervals: tuple[dict[str, Any], ...], fixed: set[str]) -> Iterator[str]:
    """Yield the values that no member could change to, whose networks go on from the first."""
    for index, values in enumerate(intervals):
        for name in sorted(fixed & values.keys() & intervals[0].keys()):
            first, value = intervals[0][name], values[name]
            if is_plain(value) and is_plain(first) and json_text(value) != json_text(first):
                yield (
                    f"{WHERE}[{index}].{name} must be {first!r} as in the first interval, since a "
                    f"member keeps its networks, but is {value!r}"
                )


def growths_of(
    params: Mapping[str, Any], config: CommonConfig, space: SearchSpace
) -> Iterator[dict[str, Any]]:
    """Yield what changes where a role grows into the next larger net_arch that there is.

    Once for each role that can: the value of its net_arch, as Optuna stores it. Under it the same
    parameters exist as before, so that nothing but the net_arch differs. ``params`` are the trial's
    as Optuna stores them, which make ``config``.
    """
    for role, learned in config.learning().items():
        path = f"{role}.net_arch"
        choices = _choices(space.parameters.get(path)) if path in params else []
        larger = [
            choice
            for choice in choices
            if _can_grow(role, config, learned.net_arch, choice)
            and _keeps_others(params, {path: label_of(choice)}, space)
        ]
        if larger:
            smallest = min(larger, key=lambda choice: _size(config, role, choice))
            yield {path: label_of(smallest)}


def _size(config: CommonConfig, role: str, net_arch: Any) -> int:
    items = policy_items(role, config, net_arch)
    return sum(affine.size for item in items for affine in item.affines)


def growth_problems(where: str, space: Mapping[str, Parameter], base: Config) -> Iterator[str]:
    """Yield that no network can grow, if none can; ``where`` is the operator's path."""
    config = read_config(base, source="")
    paths = [f"{role}.net_arch" for role in config.learning()]
    if any(_may_grow(role, space, config) for role in config.learning()):
        return
    offered = {path: _choices(space.get(path)) for path in paths}
    yield (
        f"{where} is grow, which needs a categorical parameter {' or '.join(paths)} of whose "
        "choices one can grow into another, by wider layers or, after relu, by more layers that "
        f"are as wide as the ones before them, but the choices are {offered}; offer such as "
        "[64] and [128, 128], or leave grow out"
    )


def _may_grow(role: str, space: Mapping[str, Parameter], config: CommonConfig) -> bool:
    choices = _choices(space.get(f"{role}.net_arch"))
    # Under other encoders and activations, other networks grow; which, a match will tell.
    others = {path for path in space if _decides_ground(path, role)}
    pairs = permutations(choices, 2)
    return any(others or _can_grow(role, config, old, new) for old, new in pairs)


def _decides_ground(path: str, role: str) -> bool:
    first, *rest = path.split(".")
    return first == role and (not rest or rest[0] in ("encoder", "activation"))


def _choices(parameter: Parameter | None) -> list[Any]:
    """Return the net_arches that a parameter offers; of others the space's own check tells."""
    offered = parameter.choices if isinstance(parameter, CategoricalParameter) else ()
    return [
        config
        for config in offered
        if isinstance(config, list) and not any(net_arch_faults("net_arch", tuple(config)))
    ]


def _can_grow(role: str, config: CommonConfig, old: Any, new: Any) -> bool:
    before, after = (policy_items(role, config, net_arch) for net_arch in (old, new))
    activation = config.learning()[role].activation
    return before != after and widened(before, after, activation) is not None


def _keeps_others(params: Mapping[str, Any], change: Mapping[str, Any], space: SearchSpace) -> bool:
    """Return whether the same parameters exist after a change as before it."""
    values = space.decode({**params, **change})
    return all(space.is_active(name, values) == (name in params) for name in space.order)


SHARED = ("steps", "seed", "algorithm", "evaluation.interval")
"""paths that a population decides itself"""


def population_problems(sections: Mapping[str, Any], bases: Mapping[str, Config]) -> Iterator[str]:
    """Yield what in a study file does not go with its population."""
    options = sections.get("population")
    if options is None:
        return
    space = sections.get("space", {})
    for path in (*SHARED, *GAME):
        if path in space:
            yield f"space.{path} must not be searched by a population, whose members share it"
    if not isinstance(sections.get("pruner", NoPruning()), NoPruning):
        yield "pruner must be none for a population, in which selection decides who goes on"
    if len(bases) > 1:
        yield f"base must name one file for a population, but names {', '.join(bases)}"
    budget = sections.get("budget")
    if budget is not None and budget.trials < options.members:
        yield (
            f"budget.trials must be at least population.members={options.members}, "
            f"but is {budget.trials}; a trial is one member's interval"
        )
    if options.islands is not None:
        yield from _island_problems(options, options.islands, sections, bases)
    for base in bases.values():
        yield from _base_problems(options, base)
        yield from _role_problems(space, base)
        for index, operator in enumerate(options.operators):
            if isinstance(operator, Grow):
                yield from growth_problems(f"population.operators[{index}]", space, base)


def _role_problems(space: Mapping[str, Parameter], base: Config) -> Iterator[str]:
    learning = read_config(base, source="").learning().keys()
    for path in ROLES:
        parameter = space.get(path)
        choices = parameter.choices if isinstance(parameter, CategoricalParameter) else ()
        for choice in choices:
            with suppress(ConfigError):  # which is told of the space
                config = read_config(apply(base, {path: choice}), source="")
                if config.learning().keys() != learning:
                    yield (
                        f"space.{path} must not decide who learns in a population, whose members "
                        f"all learn the {' and the '.join(learning)}, but one choice is {choice!r}"
                    )


def _island_problems(
    options: PopulationOptions,
    islands: Islands,
    sections: Mapping[str, Any],
    bases: Mapping[str, Config],
) -> Iterator[str]:
    executor = sections.get("executor")
    if executor is not None and executor.members_per_job != islands.members:
        yield (
            f"executor.members_per_job must be population.islands.members={islands.members}, since "
            f"a job trains an island, but is {executor.members_per_job}"
        )
    space = sections.get("space", {})
    choices = [
        path for path, parameter in space.items() if isinstance(parameter, CategoricalParameter)
    ]
    for path in choices:
        yield (
            f"space.{path} must be a number in a population of islands, whose members take each "
            "other's places in training, but is categorical"
        )
    if choices or any(condition_problems(space)):
        return
    for base in bases.values():
        interval = base["evaluation"]["interval"]
        if options.steps_of_schedule % interval:
            yield (
                "population.interval / population.islands.generations must be a multiple of the "
                f"base's evaluation.interval={interval}, but is {options.steps_of_schedule}"
            )
        for path in sorted(space.keys() - explorable_of(base, SearchSpace(space)).keys()):
            yield (
                f"space.{path} must be what members of one job can differ in, as in a population "
                "of islands they take each other's places in training; search it without islands"
            )


def _base_problems(options: PopulationOptions, base: Config) -> Iterator[str]:
    config = read_config(base, source="")
    interval = config.evaluation.interval
    if options.interval % interval:
        yield (
            f"population.interval must be a multiple of the base's evaluation.interval={interval}, "
            f"but is {options.interval}"
        )
    learning, panel = config.learning(), options.matches.panel
    for role in learning:
        if not scripted_players("agent" if role == "host" else "host", panel):
            yield f"population.matches.panel names no player that the {role} can meet"
    for path, operator in _operators(options):
        if isinstance(operator, HostAndAgent) and len(learning) < 2:
            yield (
                f"{path} is {operator.name}, which needs members with both roles, but the base "
                f"learns the {', '.join(learning)} alone"
            )


def _operators(options: PopulationOptions) -> Iterator[tuple[str, OperatorOptions]]:
    closing = () if options.closing is None else options.closing.operators
    for key, operators in (("operators", options.operators), ("closing.operators", closing)):
        for index, operator in enumerate(operators):
            yield f"population.{key}[{index}]", operator
