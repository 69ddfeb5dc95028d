"""One trial that a study could ask for, told without Optuna, whose import takes longer."""

import random
from dataclasses import dataclass
from typing import Any

from hpsearch.config_paths import Config
from hpsearch.study.listed import listed_points
from hpsearch.study.options import GridOptions, ListedOptions
from hpsearch.study.spec import Study


@dataclass(frozen=True)
class Example:
    """A trial of a study."""

    what: str
    params: dict[str, Any]
    """its parameters by dotted path"""
    config: Config
    """its complete trainer configuration"""


def example_trial(study: Study) -> Example:
    """Return a study's first trial where it is known beforehand, else one drawn by its seed."""
    space, seed = study.space, study.spec.seed
    match study.spec.sampler:
        case GridOptions():
            count = space.num_configurations()
            assert count is not None, "a continuous range is refused when the study file is read"
            what, stored = "the first trial", space.configuration(seed % count)
        case ListedOptions(configurations=configurations):
            what, stored = "the first trial", listed_points(space, configurations)[0]
        case _:
            what, stored = "a trial, drawn at random by the study's seed", _drawn(study)
    config = study.trial_config(0, stored)
    population = study.spec.population
    if population is not None:
        config = config | {"steps": population.interval}
    return Example(what, space.decode(stored), config)


def _drawn(study: Study) -> dict[str, Any]:
    """Return a value of each parameter that exists, as Optuna stores it."""
    rng, space = random.Random(study.spec.seed), study.space
    stored: dict[str, Any] = {}
    for name in space.order:
        share = rng.random()  # also where it is not used: no value depends on other conditions
        if space.is_active(name, space.decode(stored)):
            stored[name] = space.parameters[name].quantile(share)
    return stored
