"""How the chains of trials of a population begin: with new networks, or with a founder's."""

from dataclasses import asdict, replace
from typing import Any

from hpsearch.cluster.lineage import Fresh
from hpsearch.parameters import FloatParameter, IntParameter, Parameter, label_of
from hpsearch.population.operators.options import Clone
from hpsearch.population.options import PopulationOptions, Schedule
from hpsearch.study.breeding.records import Origin, PopulationRecord, key_after
from hpsearch.study.breeding.schedule import scheduled
from hpsearch.study.spec import Study
from hpsearch.trainers.checkpoint_name import step_of


def beginning(
    member: int, study: Study, options: PopulationOptions, population: PopulationRecord
) -> Origin:
    """Return a member's first trial."""
    generation, explore = len(population.matches), options.explore
    fresh = Origin(
        key=key_after(member, population),
        member=member,
        generation=generation,
        parents=(),
        parent_steps=(),
        operator=asdict(Fresh()),
        is_child=False,
        params=scheduled(explore, study.space, 0) if isinstance(explore, Schedule) else None,
        steps=options.interval,
    )
    if not options.founders:
        return fresh
    founder = member % len(options.founders)
    step = step_of(options.founders[founder])
    return replace(
        fresh,
        parent_steps=(step,),
        operator=asdict(Clone()),
        params=fresh.params or _params_of(study, founder),
        steps=step + options.interval,
        founder=founder,
    )


def _params_of(study: Study, founder: int) -> dict[str, Any]:
    """Return a founder's values of the space's parameters, inside their ranges."""
    found: dict[str, Any] = {}
    for path in study.space.order:
        parameter = study.space.parameters[path]
        if study.space.is_active(path, study.space.decode(found)):
            found[path] = _inside(parameter, study.founder_value(founder, path))
    return found


def _inside(parameter: Parameter, value: Any) -> Any:
    """Return a value as Optuna stores it, the nearest bound where it lies outside the range."""
    if isinstance(parameter, FloatParameter | IntParameter):
        return min(max(value, parameter.low), parameter.high)
    return label_of(value)
