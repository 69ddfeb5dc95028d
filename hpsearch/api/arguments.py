"""Checks of what Python users give; options of commands are checked where they are read."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import wraps
from inspect import Parameter, signature
from numbers import Integral, Real
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, ParamSpec, TypeVar, cast, get_args

from hpsearch.errors import MAX_SHOWN, UsageError

P = ParamSpec("P")
R = TypeVar("R")
WORDS: Final[Mapping[type, str]] = {
    bool: "True or False",
    float: "a number",
    int: "a whole number",
    NoneType: "None",
    Path: "a path",
    str: "a text",
}
NUMBERS: Final[Mapping[type, type]] = {int: Integral, float: Real}  # numpy's too


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Let a function refuse arguments of other types than its signature names, by UsageError.

    It gets Python's numbers for numpy's. Types that are written as texts, and what collections
    hold, are not looked at.
    """
    parameters = signature(function).parameters
    classes = {name: _classes(own.annotation) for name, own in parameters.items()}

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in (*zip(parameters, args, strict=False), *kwargs.items()):
            valid = classes.get(name, ())
            if valid and not any(_is_one(value, each) for each in valid):
                words = " or ".join(WORDS.get(each, f"a {each.__name__}") for each in valid)
                raise UsageError(f"{name} must be {words}, but is {repr(value)[:MAX_SHOWN]}")
        plain = {name: _plain(value) for name, value in kwargs.items()}
        return cast(Callable[..., R], function)(*map(_plain, args), **plain)

    return call


def _plain(value: object) -> object:
    """Return Python's number for numpy's, which files cannot hold."""
    if isinstance(value, int | float):
        return value
    if isinstance(value, Integral):
        return int(value)
    return float(value) if isinstance(value, Real) else value


def _classes(annotation: Any) -> tuple[type, ...]:
    """Return the classes that an annotation names, none where it names anything else too."""
    alternatives = get_args(annotation) if isinstance(annotation, UnionType) else (annotation,)
    classes = tuple(
        each for each in alternatives if isinstance(each, type) and each is not Parameter.empty
    )
    return classes if len(classes) == len(alternatives) else ()


def _is_one(value: object, valid: type) -> bool:
    if isinstance(value, bool):
        return valid is bool
    return isinstance(value, NUMBERS.get(valid, valid))


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
    raise UsageError(f"{name} must be {what}, or a list of them, but is {repr(given)[:MAX_SHOWN]}")


def check_positive(**numbers: int | None) -> None:
    """Raise UsageError for an argument that is neither None nor a whole number of at least 1."""
    for name, number in numbers.items():
        is_whole = isinstance(number, Integral) and not isinstance(number, bool)
        if number is not None and not (is_whole and number >= 1):
            raise UsageError(f"{name} must be a whole number of at least 1, got {number!r}")
