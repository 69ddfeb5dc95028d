"""Parameters of tests that are too many for every run."""

from collections.abc import Collection, Iterable
from typing import Any

import pytest


def tried(values: Iterable[Any], *, slow: Collection[Any]) -> list[Any]:
    """Return parameters, of which those in ``slow`` run in CI, all others by hand."""
    return [
        pytest.param(
            *(value if isinstance(value, tuple) else (value,)),
            marks=pytest.mark.slow if value in slow else pytest.mark.exhaustive,
        )
        for value in values
    ]
