"""Children's hyperparameters where a model of past improvements says: PB2's explore step."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsearch.population.arrays import Floats
from hpsearch.population.exploring.bandit import Observations, propose
from hpsearch.population.exploring.explore import explore
from hpsearch.population.exploring.kinds import Choices, IsActive, Kind, Numbers
from hpsearch.population.exploring.perturbation import Perturbation
from hpsearch.population.exploring.scales import share_of, value_at


@dataclass(frozen=True)
class Interval:
    """One member's training over one generation."""

    values: Mapping[str, Any]
    """its hyperparameters, by name"""
    generation: int
    change: float
    """of its score; high is good, not a number where it failed"""


def model_explore(
    parents: Sequence[Mapping[str, Any]],
    history: Sequence[Interval],
    kinds: Mapping[str, Kind],
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
        history: intervals of all members; those that failed are left out of the model.
        kinds: every parameter, each after those on which its existence depends.
        is_active: whether a parameter exists under the child's values so far.
        generation: the children's.
        optimism: standard deviations that are added to the model's mean.
        how: for what has no model.
        rng: draws all of it.

    Raises:
        ValueError: if a number of the history lies outside its range.
    """
    children = [explore(parent, kinds, is_active, how, rng) for parent in parents]
    known = [interval for interval in history if np.isfinite(interval.change)]
    everybody = [*children, *(interval.values for interval in known)]
    modelled = {
        name: kind
        for name, kind in kinds.items()
        if not isinstance(kind, Choices) and all(name in values for values in everybody)
    }
    if not modelled or not known:
        return children
    seen = Observations(
        x=np.array([_place(modelled, interval.values) for interval in known]),
        t=np.array([interval.generation for interval in known], dtype=np.float64),
        change=np.array([interval.change for interval in known], dtype=np.float64),
    )
    points = propose(seen, generation, len(children), optimism, rng)
    return [child | _values(modelled, point) for child, point in zip(children, points, strict=True)]


def _place(kinds: Mapping[str, Numbers], values: Mapping[str, Any]) -> list[float]:
    return [share_of(kind, values[name]) for name, kind in kinds.items()]


def _values(kinds: Mapping[str, Numbers], point: Floats) -> dict[str, float]:
    return {
        name: value_at(kind, float(share))
        for (name, kind), share in zip(kinds.items(), point, strict=True)
    }
