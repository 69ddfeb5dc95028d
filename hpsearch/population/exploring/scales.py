"""A number's place in its range, from 0 to 1, on the parameter's own scale."""

import math

from hpsearch.population.exploring.kinds import Numbers


def share_of(kind: Numbers, value: float) -> float:
    """Return the share of the range that lies below a value: the inverse of ``kind.quantile``.

    A value of a grid owns an interval, and is at its middle.

    Raises:
        ValueError: if the value lies outside the range.
    """
    if not kind.low <= value <= kind.high:
        raise ValueError(f"the value must lie in {kind.low!r}..{kind.high!r}, got {value!r}")
    if kind.low == kind.high:
        return 0.5
    count = kind.num_values()
    if kind.log:
        # Every whole number owns the interval half way to its neighbours, also at the two ends.
        margin = 0.0 if count is None else 0.5
        low, high = math.log(kind.low - margin), math.log(kind.high + margin)
        return (math.log(value) - low) / (high - low)
    if count is None:
        return (value - kind.low) / (kind.high - kind.low)
    return (index_of(kind, value) + 0.5) / count


def value_at(kind: Numbers, share: float) -> float:
    """Return the value at a share of the range, which may be 1 or a little outside."""
    return kind.quantile(min(max(share, 0.0), math.nextafter(1.0, 0.0)))


def index_of(kind: Numbers, value: float) -> int:
    """Return the index of the value of a grid that is nearest."""
    count = kind.num_values()
    assert count is not None, "a continuous range has no indices"
    if count == 1:
        return 0
    index = round((value - kind.low) / (kind.high - kind.low) * (count - 1))
    return min(max(index, 0), count - 1)
