"""Perturbed and resampled values of one parameter.

Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
4.1.1, "perturb" and "resample"; unlike there, on the parameter's own scale and inside its range.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from hpsearch.population.exploring.parameters import (
    CategoricalParameter,
    NumericParameter,
    Parameter,
)
from hpsearch.population.exploring.scales import index_of


@dataclass(frozen=True)
class Perturbation:
    """How far a perturbation goes, and how often a value is drawn anew instead."""

    factor: float
    """above 1; a value on a logarithmic scale is multiplied or divided by it"""
    range_share: float
    """above 0; a value on a linear scale moves by this share of the range"""
    resample: float
    """chance that a number is drawn anew from its whole range"""
    switch: float
    """chance that a choice is drawn anew from all of them, itself included"""

    def __post_init__(self) -> None:
        """Refuse steps that go nowhere, and chances that are none."""
        if self.factor <= 1.0 or self.range_share <= 0.0:
            raise ValueError(f"factor must be above 1 and range_share above 0, got {self}")
        if not (0.0 <= self.resample <= 1.0 and 0.0 <= self.switch <= 1.0):
            raise ValueError(f"resample and switch must lie between 0 and 1, got {self}")


def explored(parameter: Parameter, value: Any, how: Perturbation, rng: np.random.Generator) -> Any:
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


def resampled(parameter: Parameter, rng: np.random.Generator) -> Any:
    """Return a value drawn from the whole range, or one of the choices."""
    return parameter.quantile(rng.random())


def perturbed(parameter: NumericParameter, value: float, how: Perturbation, *, up: bool) -> float:
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
    before, after = index_of(parameter, start), index_of(parameter, target)
    if after == before:
        after = min(max(before + sign, 0), count - 1)
    return parameter.value(after)
