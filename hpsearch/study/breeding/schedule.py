"""A schedule of hyperparameters: what it says of an interval, and what can be wrong with it."""

from collections.abc import Iterator, Mapping
from typing import Any

from hpsearch.config_paths import Config
from hpsearch.parameters import is_plain, json_text
from hpsearch.population.options import Schedule
from hpsearch.study.breeding.members import explorable_of
from hpsearch.study.listed import configuration_problems, stored_point
from hpsearch.study.space import SearchSpace
from hpsearch.study.space_checks import condition_problems

WHERE = "population.explore.intervals"


def scheduled(schedule: Schedule, space: SearchSpace, index: int) -> dict[str, Any]:
    """Return the values of an interval as Optuna stores them; after the last one they stay."""
    return stored_point(space, schedule.intervals[min(index, len(schedule.intervals) - 1)])


def schedule_problems(
    sections: Mapping[str, Any], bases: Mapping[str, Config], data: object
) -> Iterator[str]:
    """Yield what is wrong with the schedule of a population, if it follows one.

    Args:
        sections: those of the study file that could be read.
        bases: the base configurations that could be read.
        data: the whole file.
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
