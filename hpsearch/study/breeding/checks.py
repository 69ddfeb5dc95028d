"""What can be wrong with the population block of a study file, beyond the type of each value."""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from hpsearch.config_paths import Config, apply
from hpsearch.errors import ConfigError
from hpsearch.parameters import CategoricalParameter, Parameter
from hpsearch.population.operators.options import Grow, OperatorOptions
from hpsearch.population.options import Islands, PopulationOptions, needs_pairs, scripted_players
from hpsearch.study.breeding.growths import growth_problems
from hpsearch.study.breeding.members import explorable_of
from hpsearch.study.options import NoPruning
from hpsearch.study.space import SearchSpace
from hpsearch.study.space_checks import condition_problems
from hpsearch.trainers.config import GAME, read_config
from hpsearch.trainers.config.players import ROLES

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
    """Yield the parameters under which other roles learn than in the base."""
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
    """Yield why a job's trials cannot be the members of an island."""
    executor = sections.get("executor")
    if executor is not None and executor.members_per_job != islands.members:
        yield (
            f"executor.members_per_job must be population.islands.members={islands.members}, since "
            f"a job trains an island, but is {executor.members_per_job}"
        )
    space = sections.get("space", {})
    choices = [path for path, one in space.items() if isinstance(one, CategoricalParameter)]
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
        if needs_pairs(operator) and len(learning) < 2:
            yield (
                f"{path} is {operator.name}, which needs members with both roles, but the base "
                f"learns the {', '.join(learning)} alone"
            )


def _operators(options: PopulationOptions) -> Iterator[tuple[str, OperatorOptions]]:
    """Yield every operator with its path."""
    closing = () if options.closing is None else options.closing.operators
    for key, operators in (("operators", options.operators), ("closing.operators", closing)):
        for index, operator in enumerate(operators):
            yield f"population.{key}[{index}]", operator
