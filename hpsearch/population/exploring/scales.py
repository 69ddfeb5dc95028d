"""A number's place in its range, from 0 to 1, on the parameter's own scale."""

import math

from hpsearch.population.exploring.parameters import NumericParameter


def share_of(parameter: NumericParameter, value: float) -> float:
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


def value_at(parameter: NumericParameter, share: float) -> float:
    """Return the value at a share of the range, which may be 1 or a little outside."""
    return parameter.quantile(min(max(share, 0.0), math.nextafter(1.0, 0.0)))


def index_of(parameter: NumericParameter, value: float) -> int:
    """Return the index of the value of a grid that is nearest."""
    count = parameter.num_values()
    assert count is not None, "a continuous range has no indices"
    if count == 1:
        return 0
    index = round((value - parameter.low) / (parameter.high - parameter.low) * (count - 1))
    return min(max(index, 0), count - 1)
