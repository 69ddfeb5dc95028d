"""Checks of what Python users give; options of commands are checked where they are read."""

from hpsearch.errors import UsageError


def check_positive(**numbers: int | None) -> None:
    """Raise UsageError for what is no number from 1, by the name of its argument, or else None."""
    for name, number in numbers.items():
        if number is not None and not (isinstance(number, int) and number >= 1):
            raise UsageError(f"{name} must be a whole number of at least 1, got {number!r}")
