"""A child's hyperparameters from its parent's: perturbed, or drawn anew.

Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
4.1.1, "perturb" and "resample"; unlike there, on the parameter's own scale and inside its range.
Values are in the form in which the study stores them.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from hpsearch.parameters import CategoricalParameter, FloatParameter, IntParameter, Parameter
from hpsearch.population.options import Perturb

Number = FloatParameter | IntParameter

IsActive = Callable[[str, Mapping[str, Any]], bool]
"""whether a parameter exists under these values of those before it"""


def share_of(parameter: Number, value: float) -> float:
    """Return the share of the range that lies below a value: the inverse of ``parameter.quantile``.

    A value of a grid owns an interval, and is at its middle. ValueError outside the range.
    """
    if not parameter.low <= value <= parameter.high:
        raise ValueError(
            f"the value must lie in {parameter.low!r}..{parameter.high!r}, got {value!r}"
        )
    if parameter.low == parameter.high:
        return 0.5
    count = parameter.num_values()
    if parameter.log:
        # Every whole number owns the interval half way to its neighbours, also at the two ends.
        margin = 0.0 if count is None else 0.5
        low, high = math.log(parameter.low - margin), math.log(parameter.high + margin)
        return (math.log(value) - low) / (high - low)
    if count is None:
        return (value - parameter.low) / (parameter.high - parameter.low)
    return (_nearest_index(parameter, value, count) + 0.5) / count


def value_at(parameter: Number, share: float) -> float:
    """Return the value at a share of the range, which may be 1 or a little outside."""
    return parameter.quantile(min(max(share, 0.0), math.nextafter(1.0, 0.0)))


def _nearest_index(parameter: Number, value: float, count: int) -> int:
    """Return the index of the nearest of the ``count`` values of a grid."""
    if count == 1:
        return 0
    index = round((value - parameter.low) / (parameter.high - parameter.low) * (count - 1))
    return min(max(index, 0), count - 1)


def perturbed(parameter: Number, value: float, how: Perturb, *, up: bool) -> float:
    """Return a number one step up or down, at the nearest bound where that leads outside.

    On a grid (whole numbers are one) the step ends at the nearest value, and is at least one value
    long. A parent's value from outside the range comes in first.
    """
    start = min(max(value, parameter.low), parameter.high)
    sign = 1 if up else -1
    if parameter.log:
        target = start * math.exp(sign * math.log(how.factor))
    else:
        target = start + sign * how.range_share * (parameter.high - parameter.low)
    count = parameter.num_values()
    if count is None:
        return min(max(target, parameter.low), parameter.high)
    before, after = (_nearest_index(parameter, at, count) for at in (start, target))
    if after == before:
        after = min(max(before + sign, 0), count - 1)
    return parameter.value(after)


def changed(parameter: Parameter, value: Any, how: Perturb, rng: np.random.Generator) -> Any:
    """Return a value of a child whose parent has ``value``.

    Always takes two numbers from ``rng``, so what one parameter does leaves the others' numbers
    alone.
    """
    chance, draw = rng.random(2)
    if isinstance(parameter, CategoricalParameter):
        return parameter.quantile(draw) if chance < how.switch else value
    if chance < how.resample:
        return parameter.quantile(draw)
    return perturbed(parameter, value, how, up=draw < 0.5)


def explore(
    values: Mapping[str, Any],
    parameters: Mapping[str, Parameter],
    is_active: IsActive,
    how: Perturb,
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return the values of a child, perturbed and resampled.

    A parameter that the parent lacks, because another choice of the child brings it about, is drawn
    from its whole range; one that no longer exists is left out. Each of the parameters comes after
    those on which its existence depends.
    """
    child: dict[str, Any] = {}
    for name, parameter in parameters.items():
        if not is_active(name, child):
            continue
        if name in values:
            child[name] = changed(parameter, values[name], how, rng)
        else:
            child[name] = parameter.quantile(rng.random())
    return child
