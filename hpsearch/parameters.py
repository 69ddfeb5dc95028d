"""The kinds of parameter that a search space consists of.

Every kind says how many values it has, which value has an index, and which value lies at a quantile
of its range; values are in the form in which Optuna stores them.
"""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from hpsearch.errors import shown
from hpsearch.schema import Positive


@dataclass(frozen=True)
class FloatParameter:
    """A real number between two bounds, both included."""

    type: Literal["float"] = field(default="float", kw_only=True)
    low: float
    high: float
    log: bool = False
    """whether the logarithm of the value is searched"""
    step: float | None = None
    """distance of neighbouring values; none for a continuous range"""
    when: dict[str, Any] = field(default_factory=dict)
    """categorical parameters and the values of them for which this one exists"""

    def check(self) -> Iterator[str]:
        yield from _bounds_problems(self.low, self.high, self.log)
        if self.step is None:
            return
        if self.step <= 0:
            yield f"step must be above 0, but is {self.step!r}"
        elif self.log:
            yield f"step cannot be combined with log, but is {self.step!r}; drop one of them"
        elif self._steps() > 2**53:  # floats tell no more values apart
            yield f"step must be at least (high - low) / 2**53, but is {self.step!r}; raise it"
        elif self.low <= self.high and self._steps() % 1:
            nearest = float(_exact(self.low) + int(self._steps()) * _exact(self.step))
            yield (
                f"high must lie a whole number of steps above low, but is {self.high!r}; "
                f"the nearest below is {nearest!r}"
            )

    def num_values(self) -> int | None:
        """Return the number of values, None for a continuous range."""
        if self.low == self.high:
            return 1
        return None if self.step is None else int(self._steps()) + 1

    def value(self, index: int) -> float:
        """Return the value with this index; only for a range with a step or a single value."""
        return float(_exact(self.low) + index * _exact(self.step or 0.0))

    def quantile(self, share: float) -> float:
        """Return the value below which this share of the range lies, 0 <= share < 1."""
        count = self.num_values()
        if count is not None:
            return self.value(int(share * count))
        if self.log:
            value = math.exp(_between(math.log(self.low), math.log(self.high), share))
        else:
            value = _between(self.low, self.high, share)
        return min(max(value, self.low), self.high)

    def _steps(self) -> Decimal:
        return (_exact(self.high) - _exact(self.low)) / _exact(self.step or 1.0)


@dataclass(frozen=True)
class IntParameter:
    """A whole number between two bounds, both included."""

    type: Literal["int"] = field(default="int", kw_only=True)
    low: int
    high: int
    log: bool = False
    """whether the logarithm of the value is searched"""
    step: Positive = 1
    """distance of neighbouring values"""
    when: dict[str, Any] = field(default_factory=dict)
    """categorical parameters and the values of them for which this one exists"""

    def check(self) -> Iterator[str]:
        yield from _bounds_problems(self.low, self.high, self.log)
        if self.log and self.step != 1:
            yield f"step cannot be combined with log, but is {self.step}; drop one of them"
        elif self.low <= self.high and (self.high - self.low) % self.step:
            nearest = self.high - (self.high - self.low) % self.step
            yield (
                f"high must lie a whole number of steps above low, but is {self.high}; "
                f"the nearest below is {nearest}"
            )

    def num_values(self) -> int:
        return (self.high - self.low) // self.step + 1

    def value(self, index: int) -> int:
        return self.low + index * self.step

    def quantile(self, share: float) -> int:
        """Return the value below which this share of the range lies, 0 <= share < 1."""
        if not self.log:
            return self.value(int(share * self.num_values()))
        # Every whole number owns the half-open interval around it, also at the two ends.
        value = math.exp(_between(math.log(self.low - 0.5), math.log(self.high + 0.5), share))
        return min(max(round(value), self.low), self.high)


@dataclass(frozen=True)
class CategoricalParameter:
    """One of several values of any kind; Optuna stores a list or mapping as its JSON text."""

    type: Literal["categorical"] = field(default="categorical", kw_only=True)
    choices: tuple[Any, ...]
    when: dict[str, Any] = field(default_factory=dict)
    """categorical parameters and the values of them for which this one exists"""

    def check(self) -> Iterator[str]:
        if not self.choices:
            yield "choices must hold at least one value"
        labels: list[Any] = []
        for choice in self.choices:
            if not is_plain(choice):
                yield (
                    f"choices must be numbers, texts, true, false, null, or lists and mappings "
                    f"of them, but one is {shown(choice)}"
                )
                continue
            label = label_of(choice)
            if label in labels:
                twin = labels[labels.index(label)]
                same = f"{shown(choice)} and {shown(twin)}"
                yield f"choices must differ, but {same} are the same to Optuna"
            labels.append(label)

    def num_values(self) -> int:
        return len(self.choices)

    def value(self, index: int) -> Any:
        """Return the label of the choice with this index."""
        return label_of(self.choices[index])

    def quantile(self, share: float) -> Any:
        """Return the label of the choice at this share of the list, 0 <= share < 1."""
        return self.value(int(share * len(self.choices)))

    def labels(self) -> tuple[Any, ...]:
        """Return the choices as Optuna stores them."""
        return tuple(label_of(choice) for choice in self.choices)

    def decode(self, label: Any) -> Any:
        """Return the choice that Optuna stores as ``label``."""
        return self.choices[self.labels().index(label)]


NumberParameter = FloatParameter | IntParameter
Parameter = NumberParameter | CategoricalParameter


def label_of(choice: Any) -> Any:
    """Return what Optuna stores for a choice: itself if it is a scalar, else its JSON text."""
    return json_text(choice) if isinstance(choice, list | dict) else choice


def json_text(value: Any) -> str:
    """Return a text that is equal for equal plain values; 1, 1.0 and true differ."""
    return json.dumps(value, sort_keys=True)


def is_plain(value: Any) -> bool:
    """Return whether a value consists of what JSON has, with finite numbers."""
    if isinstance(value, list):
        return all(is_plain(item) for item in value)
    if isinstance(value, dict):
        return all(isinstance(key, str) and is_plain(item) for key, item in value.items())
    if isinstance(value, float):
        return math.isfinite(value)
    return value is None or isinstance(value, bool | int | str)


def _bounds_problems(low: float, high: float, log: bool) -> Iterator[str]:
    if low > high:
        yield f"low must not lie above high, but {low!r} > {high!r}"
    if log and low <= 0:
        yield f"low must be above 0 for a logarithmic range, but is {low!r}"


def _exact(value: float) -> Decimal:
    # The decimal number that stands in the file, so that 0.3 is three steps of 0.1.
    return Decimal(repr(value))


def _between(low: float, high: float, share: float) -> float:
    return low + (high - low) * share
