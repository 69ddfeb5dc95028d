"""A child's hyperparameters from its parent's, parameter by parameter."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from hpsearch.population.exploring.parameters import IsActive, Parameter
from hpsearch.population.exploring.perturbation import Perturbation, explored, resampled


def explore(
    values: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    is_active: IsActive,
    how: Perturbation,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the values of a child, perturbed and resampled.

    A parameter that the parent lacks, because another choice of the child brings it about, is drawn
    from its whole range; one that no longer exists is left out.

    Args:
        values: the parent's, by name.
        parameters: every parameter, each after those on which its existence depends.
        is_active: whether a parameter exists under the child's values so far.
        how: how far, and how often.
        rng: draws all of it.
    """
    child: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if not is_active(name, child):
            continue
        if name in values:
            child[name] = explored(parameter, values[name], how, rng)
        else:
            child[name] = resampled(parameter, rng)
    return child
