"""The parameters of hpsearch/parameters.py satisfy these protocols, what exploring needs of them.

Values are in the form in which the study stores them. Populations must not know studies, so this
says what is needed instead of importing it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable


class NumericParameter(Protocol):
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
class CategoricalParameter(Protocol):
    """One of several values without an order."""

    @property
    def choices(self) -> tuple[Any, ...]:
        """All of them."""

    def quantile(self, share: float) -> Any:
        """Return the choice at this share of the list, 0 <= share < 1."""


Parameter = NumericParameter | CategoricalParameter

IsActive = Callable[[str, Mapping[str, Any]], bool]
"""whether a parameter exists under these values of those before it"""
