"""Which members of a population share an island, and what their jobs are told of it."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from hpsearch.cluster.island import Island
from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter
from hpsearch.population.options import Keep, Model, Perturb, PopulationOptions
from hpsearch.study.breeding.records import Origin
from hpsearch.study.space import SearchSpace


def island_number(origin: Origin | None, options: PopulationOptions | None) -> int | None:
    """Return the number of a trial's island, None if there are no islands."""
    if origin is None or options is None or options.islands is None:
        return None
    return origin.member // options.islands.members


def island_of(
    origin: Origin | None, options: PopulationOptions | None, space: SearchSpace, seed: int
) -> Island | None:
    """Return what a trial's job is told of its island, None if there are no islands.

    Args:
        origin: of the trial, None if there is no population.
        options: of the population.
        space: whose parameters copies may change.
        seed: of the study.
    """
    number = island_number(origin, options)
    if number is None:
        return None
    assert origin is not None
    assert options is not None
    assert options.islands is not None
    islands = options.islands
    return Island(
        name=f"study {seed} island {number} after match {origin.generation}",
        steps=options.steps_of_schedule,
        matches=replace(options.matches, num_games=islands.num_games, archive=0),
        selection=islands.selection,
        explore=_explore(options),
        parameters=dict(_numbers(space.parameters)),
    )


def _explore(options: PopulationOptions) -> Perturb | Keep:
    """Return how copies explore: a model of improvements learns from matches of everybody alone."""
    match options.explore:
        case Perturb() | Keep():
            return options.explore
        case Model():
            return options.explore.perturb
        case _:
            raise AssertionError("a schedule is refused with islands")


def _numbers(
    parameters: Mapping[str, Any],
) -> Iterator[tuple[str, FloatParameter | IntParameter]]:
    for path, parameter in parameters.items():
        assert not isinstance(parameter, CategoricalParameter), "refused with islands"
        yield path, parameter
