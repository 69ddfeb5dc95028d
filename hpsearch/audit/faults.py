"""What an audit finds, and how values stand in its sentences."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_WIDTH = 100
"""characters of a value that a sentence shows"""
MALFORMED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    OSError,  # a path that is too long, for one
)
"""what reading data raises that was tampered with, as if it had the right form"""


@dataclass(frozen=True)
class Fault:
    """Two sides that don't tell the same, or one that is missing or damaged."""

    check: str
    """short name of the rule"""
    trial: int | None
    """None where it is no trial's"""
    message: str
    """what each side says"""

    def __post_init__(self) -> None:
        # A number that was tampered with may be a list, and findings are compared by their hashes.
        if type(self.trial) is not int:
            object.__setattr__(self, "trial", None)


@dataclass(frozen=True)
class Open:
    """Something that was begun and is not recorded yet; the driver, or the next one, goes on."""

    trial: int | None
    message: str


Finding = Fault | Open
Findings = Iterator[Finding]


def shown(value: Any) -> str:
    """Return a value on one line, of bounded length, without characters that act on terminals."""
    text = ascii(value) if isinstance(value, str | bytes) else _text(value)
    return text if len(text) <= MAX_WIDTH else f"{text[:MAX_WIDTH]}..."


def is_same(left: Any, right: Any) -> bool:
    """Return whether two plain values are the same bit for bit; 1, 1.0 and true differ."""
    return _text(left) == _text(right)


def differing(left: Mapping[str, Any], right: Mapping[str, Any]) -> list[str]:
    """Return the keys whose values are not the same, those that one side lacks included."""
    keys = sorted({*left, *right}, key=str)
    return [k for k in keys if k not in left or k not in right or not is_same(left[k], right[k])]


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
