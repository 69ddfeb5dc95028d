"""What can be wrong with the population block of a study file, beyond the type of each value."""

from collections.abc import Iterator, Mapping
from typing import Any

from hpsearch.population.options import (
    PopulationOptions,
    needs_pairs,
    scripted_agents,
    scripted_hosts,
)
from hpsearch.study.options import NoPruning
from hpsearch.study.space import Config
from hpsearch.trainers.config import read_config

DECIDED = ("steps", "seed", "algorithm")
"""paths that a population decides itself"""


def population_problems(sections: Mapping[str, Any], bases: Mapping[str, Config]) -> Iterator[str]:
    """Yield what in a study file does not go with its population."""
    options = sections.get("population")
    if options is None:
        return
    for path in DECIDED:
        if path in sections.get("space", {}):
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
    for base in bases.values():
        yield from _base_problems(options, base)


def _base_problems(options: PopulationOptions, base: Config) -> Iterator[str]:
    config = read_config(base, source="")
    interval = config.evaluation.interval
    if options.interval % interval:
        yield (
            f"population.interval must be a multiple of the base's evaluation.interval={interval}, "
            f"but is {options.interval}"
        )
    learning, panel = config.learning(), options.matches.panel
    opponents = {"host": scripted_agents(panel), "agent": scripted_hosts(panel)}
    for role in learning:
        if not opponents[role]:
            yield f"population.matches.panel names no player that the {role} can meet"
    for index, operator in enumerate(options.operators):
        if needs_pairs(operator) and len(learning) < 2:
            yield (
                f"population.operators[{index}] is {operator.name}, which needs members with both "
                f"roles, but the base learns the {', '.join(learning)} alone"
            )
