"""Checks of what Python users give; options of commands are checked where they are read."""

from numbers import Integral

from hpsearch.errors import UsageError


def check_positive(**numbers: int | None) -> None:
    """Raise UsageError for an argument that is neither None nor a whole number of at least 1."""
    for name, number in numbers.items():
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if number is not None and not (is_whole and number >= 1):
            raise UsageError(f"{name} must be a whole number of at least 1, got {number!r}")
