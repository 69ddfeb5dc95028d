"""What is wrong with a population in a study file; what its children may change and grow."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import permutations
from operator import itemgetter
from typing import Any

from hpsearch.errors import ConfigError, shown
from hpsearch.parameters import CategoricalParameter, Parameter, is_plain, json_text, label_of
from hpsearch.population.operators.growth import policy_layers, widened
from hpsearch.population.operators.options import Clone, Grow, HostAndAgent
from hpsearch.population.options import (
    Islands,
    Matches,
    Pareto,
    PopulationOptions,
    Schedule,
    scripted_players,
)
from hpsearch.programs.config import (
    PROGRAM,
    ProgramConfig,
    TrialConfig,
    interval_of,
    is_program,
    read_trial_config,
)
from hpsearch.schema import Config, apply, leaves
from hpsearch.study.options import NoPruning, executor_key
from hpsearch.study.space import SearchSpace, stored_point
from hpsearch.study.spec_checks import END, condition_problems, configuration_problems
from hpsearch.trainers.config import GAME, CommonConfig, read_config
from hpsearch.trainers.config.ending import NEVER
from hpsearch.trainers.config.net_arch import net_arch_faults
from hpsearch.trainers.config.players import ROLES


def explorable_of(base: Config, space: SearchSpace) -> dict[str, Parameter]:
    """Return the parameters that members of one shape may differ in, in the space's order."""
    values = list(leaves(read_trial_config(base, source="base")))
    parameters, inherited = space.parameters, set[str]()
    for name in reversed(space.order):
        touched = [
            value.per_member
            for value in values
            if f"{value.path}.".startswith(f"{name}.") or name.startswith(f"{value.path}.")
        ]
        if name in inherited or not touched or not all(touched):
            inherited |= {name, *parameters[name].when}
    return {name: parameters[name] for name in space.order if name not in inherited}


def size(config: TrialConfig) -> float:
    """Return the number of weights of a trial's players, 0 of a program."""
    if isinstance(config, ProgramConfig):
        return 0.0
    return float(sum(map(config.policy_size, config.learning())))


WHERE = "population.explore.intervals"


def scheduled(schedule: Schedule, space: SearchSpace, index: int) -> dict[str, Any]:
    """Return the values of an interval as Optuna stores them; after the last one they stay."""
    return stored_point(space, schedule.intervals[min(index, len(schedule.intervals) - 1)])


def schedule_problems(
    sections: Mapping[str, Any], bases: Mapping[str, Config], data: object
) -> Iterator[str]:
    options = sections.get("population")
    if options is None or not isinstance(options.explore, Schedule):
        return
    parameters = sections.get("space", {})
    intervals = options.explore.intervals
    yield from configuration_problems(WHERE, intervals, parameters, data)
    if len(bases) == 1 and not any(condition_problems(parameters)):
        (base,) = bases.values()
        fixed = parameters.keys() - explorable_of(base, SearchSpace(parameters)).keys()
        for index, values in enumerate(intervals):
            for name in sorted(fixed & values.keys() & intervals[0].keys()):
                first, value = intervals[0][name], values[name]
                if is_plain(value) and is_plain(first) and json_text(value) != json_text(first):
                    yield (
                        f"{WHERE}[{index}].{name} must be {shown(first)} as in the first interval, "
                        f"since a member keeps its networks, but is {shown(value)}"
                    )


def growths_of(
    params: Mapping[str, Any], config: TrialConfig, space: SearchSpace
) -> Iterator[dict[str, Any]]:
    """Yield what changes where a role grows into the next larger net_arch that there is.

    Once for each role that can: the value of its net_arch, as Optuna stores it. Under it the same
    parameters exist as before, so that nothing but the net_arch differs. ``params`` are the trial's
    as Optuna stores them, which make ``config``. A program does not grow.
    """
    if isinstance(config, ProgramConfig):
        return
    for role, learned in config.learning().items():
        path = f"{role}.net_arch"
        larger: list[tuple[int, Any]] = []
        for choice in _choices(space.parameters.get(path)) if path in params else ():
            values = space.decode({**params, path: label_of(choice)})
            keeps = all(space.is_active(name, values) == (name in params) for name in space.order)
            if keeps and _can_grow(role, config, learned.net_arch, choice):
                items = policy_layers(role, config, choice)
                size = sum(affine.size for item in items for affine in item.affines)
                larger.append((size, label_of(choice)))
        if larger:
            yield {path: min(larger, key=itemgetter(0))[1]}


def growth_problems(where: str, space: Mapping[str, Parameter], base: Config) -> Iterator[str]:
    config = read_config(base, source="")
    if any(_may_grow(role, space, config) for role in config.learning()):
        return
    searched = [f"{role}.net_arch" for role in config.learning()]
    offered = {path: _choices(space.get(path)) for path in searched}
    yield (
        f"{where} is grow, but no choice of {' or '.join(offered)} can grow into another one, by "
        "wider layers or, after relu, by further layers of the same width; the choices are "
        f"{offered}; offer a wider or deeper net_arch, such as [64] and "
        "[128, 128], or leave grow out"
    )


def _may_grow(role: str, space: Mapping[str, Parameter], config: CommonConfig) -> bool:
    choices = _choices(space.get(f"{role}.net_arch"))
    # Under other encoders and activations, other networks grow; which, a match will tell.
    deciding = {role, f"{role}.encoder", f"{role}.activation"}
    others = any(".".join(path.split(".")[:2]) in deciding for path in space)
    pairs = permutations(choices, 2)
    return any(others or _can_grow(role, config, old, new) for old, new in pairs)


def _choices(parameter: Parameter | None) -> list[Any]:
    """Return the net_arches that a parameter offers; of others the space's own check tells."""
    offered = parameter.choices if isinstance(parameter, CategoricalParameter) else ()
    lists = [choice for choice in offered if isinstance(choice, list)]
    return [choice for choice in lists if not any(net_arch_faults("net_arch", tuple(choice)))]


def _can_grow(role: str, config: CommonConfig, old: Any, new: Any) -> bool:
    before, after = (policy_layers(role, config, net_arch) for net_arch in (old, new))
    activation = config.learning()[role].activation
    return before != after and widened(before, after, activation) is not None


SHARED = ("steps", "seed", "algorithm", "evaluation.interval")  # that a population decides itself


_WHOLE_INTERVALS = (
    "must be null in a population, whose members all train for population.interval steps between "
    "two matches"
)


def population_problems(sections: Mapping[str, Any], bases: Mapping[str, Config]) -> Iterator[str]:
    options = sections.get("population")
    if options is None:
        return
    space = sections.get("space", {})
    for path in (*SHARED, *GAME):
        if path in space:
            yield f"space.{path} must not be searched by a population, whose members share it"
    for path in space:
        if path.partition(".")[0] == END:
            yield f"space.{path} {_WHOLE_INTERVALS}"
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
    if any(map(is_program, bases.values())):
        yield from _program_problems(options, bases[PROGRAM])
        return
    if options.islands is not None:
        yield from _island_problems(options, options.islands, sections, bases)
    for base in bases.values():
        for key, rule in base.get(END, NEVER).items():
            if rule is not None:
                yield f"base's {END}.{key} {_WHOLE_INTERVALS}"
        yield from _base_problems(options, base)
        yield from _role_problems(space, base)
        for index, operator in enumerate(options.operators):
            if isinstance(operator, Grow):
                yield from growth_problems(f"population.operators[{index}]", space, base)


def _program_problems(options: PopulationOptions, base: Config) -> Iterator[str]:
    """Yield what a population of programs cannot have; its members are judged by what they tell."""
    plays_none = "where a program is run, which plays no games"
    for key, is_given in (
        ("matches", options.matches != Matches()),
        ("founders", bool(options.founders)),
        ("islands", options.islands is not None),
        ("closing", options.closing is not None),
    ):
        if is_given:
            yield f"population.{key} must be left out {plays_none}"
    if isinstance(options.selection, Pareto):
        yield f"population.selection must not be pareto {plays_none}"
    names = [operator.name for operator in options.operators]
    if names != [Clone().name]:
        yield (
            "population.operators must be clone alone where a program is run, whose folder is "
            f"copied, but are {', '.join(names)}"
        )
    if options.interval % interval_of(base):
        yield (
            f"population.interval must be a multiple of the base's interval={interval_of(base)}, "
            f"but is {options.interval}"
        )


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
                        f"all learn the {' and the '.join(learning)}, but one choice is "
                        f"{shown(choice)}"
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
            f"{executor_key(sections)}.members_per_job must be "
            f"population.islands.members={islands.members}, since a job trains an island, but is "
            f"{executor.members_per_job}"
        )
    space = sections.get("space", {})
    choices = [path for path in space if isinstance(space[path], CategoricalParameter)]
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
    closing = () if options.closing is None else options.closing.operators
    for key, operators in (("operators", options.operators), ("closing.operators", closing)):
        for index, operator in enumerate(operators):
            if isinstance(operator, HostAndAgent) and len(learning) < 2:
                yield (
                    f"population.{key}[{index}] is {operator.name}, which needs members with both "
                    f"roles, but the base learns the {', '.join(learning)} alone"
                )
