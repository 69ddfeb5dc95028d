"""Hyperparameters of children: those of their parents, explored as the population says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, assert_never

import numpy as np

from hpsearch.population.exploring.explore import explore
from hpsearch.population.exploring.model_explore import Generation, model_explore
from hpsearch.population.exploring.parameters import IsActive, Parameter
from hpsearch.population.exploring.perturbation import Perturbation
from hpsearch.population.options import Keep, Model, Perturb, Schedule


@dataclass(frozen=True)
class Exploring:
    """The parameters that children may change, and what is known of them."""

    parameters: Mapping[str, Parameter]
    """each after those on which its existence depends"""
    is_active: IsActive
    history: Sequence[Generation]
    generation: int


def explored(
    how: Perturb | Model | Keep | Schedule,
    parents: Sequence[Mapping[str, Any]],
    exploring: Exploring,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the children's hyperparameters; those that must not change stay."""
    if isinstance(how, Keep | Schedule):
        return [dict(params) for params in parents]
    kept = [
        {name: value for name, value in params.items() if name not in exploring.parameters}
        for params in parents
    ]
    children: list[dict[str, Any]] = [{} for _ in parents]
    # Together where what must not change is the same: it decides which parameters there are.
    for same in _distinct(kept):
        places = [place for place, one in enumerate(kept) if one == same]
        found = _changed(how, [parents[place] for place in places], same, exploring, rng)
        for place, values in zip(places, found, strict=True):
            children[place] = same | values
    return children


def _distinct(values: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for one in values:
        if one not in found:
            found.append(one)
    return found


def _changed(
    how: Perturb | Model,
    parents: Sequence[Mapping[str, Any]],
    same: Mapping[str, Any],
    exploring: Exploring,
    rng: np.random.Generator,
) -> list[dict[str, Any]]:
    """Return the parameters that may change of children whose parents share all others."""

    def is_active(name: str, values: Mapping[str, Any]) -> bool:
        return exploring.is_active(name, {**same, **values})

    match how:
        case Perturb():
            return [
                explore(params, exploring.parameters, is_active, perturbation(how), rng)
                for params in parents
            ]
        case Model():
            return model_explore(
                parents,
                exploring.history,
                exploring.parameters,
                is_active,
                generation=exploring.generation,
                optimism=how.optimism,
                how=perturbation(how.perturb),
                rng=rng,
            )
        case _:
            assert_never(how)


def perturbation(how: Perturb) -> Perturbation:
    """Return the steps that a study file names."""
    return Perturbation(how.factor, how.range_share, how.resample, how.switch)
