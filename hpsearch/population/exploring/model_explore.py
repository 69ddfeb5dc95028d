"""Children's hyperparameters where a model of past improvements says: PB2's explore step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsearch.population.arrays import Floats
from hpsearch.population.exploring.bandit import Observations, propose
from hpsearch.population.exploring.explore import explore
from hpsearch.population.exploring.parameters import (
    CategoricalParameter,
    IsActive,
    NumericParameter,
    Parameter,
)
from hpsearch.population.exploring.perturbation import Perturbation
from hpsearch.population.exploring.scales import share_of, value_at


@dataclass(frozen=True)
class Generation:
    """One member's training over one generation."""

    values: Mapping[str, Any]
    """its hyperparameters, by name"""
    generation: int
    change: float
    """of its score; high is good, not a number where it failed"""


def model_explore(
    parents: Sequence[Mapping[str, Any]],
    history: Sequence[Generation],
    parameters: Mapping[str, Parameter],
    is_active: IsActive,
    *,
    generation: int,
    optimism: float,
    how: Perturbation,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the values of a child of each parent.

    The model proposes the numbers that exist for every child and throughout the history; choices,
    and numbers that exist for some alone, are explored without a model (`explore`).

    Args:
        parents: values by name.
        history: generations of all members; those that failed are left out of the model.
        parameters: every parameter, each after those on which its existence depends.
        is_active: whether a parameter exists under the child's values so far.
        generation: the children's.
        optimism: standard deviations that are added to the model's mean.
        how: for what has no model.
        rng: draws all of it.

    Raises:
        ValueError: if a number of the history lies outside its range.
    """
    children = [explore(parent, parameters, is_active, how, rng) for parent in parents]
    known = [past for past in history if np.isfinite(past.change)]
    everybody = [*children, *(past.values for past in known)]
    modelled = {
        name: parameter
        for name, parameter in parameters.items()
        if not isinstance(parameter, CategoricalParameter)
        and all(name in values for values in everybody)
    }
    if not modelled or not known:
        return children
    seen = Observations(
        x=np.array([_place(modelled, past.values) for past in known]),
        t=np.array([past.generation for past in known], dtype=np.float64),
        change=np.array([past.change for past in known], dtype=np.float64),
    )
    points = propose(seen, generation, len(children), optimism, rng)
    return [child | _values(modelled, point) for child, point in zip(children, points, strict=True)]


def _place(parameters: Mapping[str, NumericParameter], values: Mapping[str, Any]) -> list[float]:
    return [share_of(parameter, values[name]) for name, parameter in parameters.items()]


def _values(parameters: Mapping[str, NumericParameter], point: Floats) -> dict[str, float]:
    return {
        name: value_at(parameter, float(share))
        for (name, parameter), share in zip(parameters.items(), point, strict=True)
    }
