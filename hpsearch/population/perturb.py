"""A child's hyperparameters from its parent's: perturbed, or drawn anew.

The parameters of hpsearch/parameters.py satisfy these protocols, what exploring needs of them.

Values are in the form in which the study stores them. Populations must not know studies, so this
says what is needed instead of importing it.

Perturbed and resampled values of one parameter.

Source: Jaderberg et al., Population based training of neural networks (arXiv 1711.09846), section
4.1.1, "perturb" and "resample"; unlike there, on the parameter's own scale and inside its range.

A number's place in its range, from 0 to 1, on the parameter's own scale.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np


class NumericLike(Protocol):
    """A real or whole number between two bounds, both included, perhaps on a grid."""

    @property
    def low(self) -> float:
        """Least value."""

    @property
    def high(self) -> float:
        """Largest value."""

    @property
    def log(self) -> bool:
        """Whether ratios count rather than differences."""

    def num_values(self) -> int | None:
        """Return the number of values on the grid, None for a continuous range."""

    def value(self, index: int) -> float:
        """Return the value of a grid with this index, counted from the lowest."""

    def quantile(self, share: float) -> float:
        """Return the value below which this share of the range lies, 0 <= share < 1."""


@runtime_checkable
class CategoricalLike(Protocol):
    """One of several values without an order."""

    @property
    def choices(self) -> tuple[Any, ...]:
        """All of them."""

    def quantile(self, share: float) -> Any:
        """Return the choice at this share of the list, 0 <= share < 1."""


Parameter = NumericLike | CategoricalLike

IsActive = Callable[[str, Mapping[str, Any]], bool]
"""whether a parameter exists under these values of those before it"""


def share_of(parameter: NumericLike, value: float) -> float:
    """Return the share of the range that lies below a value: the inverse of ``parameter.quantile``.

    A value of a grid owns an interval, and is at its middle.

    Raises:
        ValueError: if the value lies outside the range.
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
    return (index_of(parameter, value) + 0.5) / count


def value_at(parameter: NumericLike, share: float) -> float:
    """Return the value at a share of the range, which may be 1 or a little outside."""
    return parameter.quantile(min(max(share, 0.0), math.nextafter(1.0, 0.0)))


def index_of(parameter: NumericLike, value: float) -> int:
    """Return the index of the value of a grid that is nearest."""
    count = parameter.num_values()
    assert count is not None, "a continuous range has no indices"
    if count == 1:
        return 0
    index = round((value - parameter.low) / (parameter.high - parameter.low) * (count - 1))
    return min(max(index, 0), count - 1)


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
    if isinstance(parameter, CategoricalLike):
        return parameter.quantile(draw) if chance < how.switch else value
    if chance < how.resample:
        return parameter.quantile(draw)
    return perturbed(parameter, value, how, up=draw < 0.5)


def resampled(parameter: Parameter, rng: np.random.Generator) -> Any:
    """Return a value drawn from the whole range, or one of the choices."""
    return parameter.quantile(rng.random())


def perturbed(parameter: NumericLike, value: float, how: Perturbation, *, up: bool) -> float:
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
