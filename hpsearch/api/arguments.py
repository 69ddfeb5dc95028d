"""Checks of what Python users give; options of commands are checked where they are read."""

from collections.abc import Iterable
from contextlib import suppress
from numbers import Integral
from typing import Any

from hpsearch.errors import UsageError, shown


def as_list(name: str, given: object, types: tuple[type, ...], what: str) -> list[Any]:
    """Return one or several of some ``types`` as a list; ``what`` says what one of them is.

    Raises UsageError for anything else.
    """
    several = [given]
    if isinstance(given, Iterable) and not isinstance(given, (str, bytes, *types)):
        with suppress(TypeError):  # an array without axes
            several = [*given]
    if all(isinstance(each, types) and not isinstance(each, bool) for each in several):
        return several
    raise UsageError(f"{name} must be {what}, or a list of them, but is {shown(given)}")


def check_positive(**numbers: int | None) -> None:
    """Raise UsageError for an argument that is neither None nor a whole number of at least 1."""
    for name, number in numbers.items():
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if number is not None and not (is_whole and number >= 1):
            raise UsageError(f"{name} must be a whole number of at least 1, got {number!r}")
