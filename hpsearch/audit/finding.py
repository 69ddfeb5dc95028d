"""What an audit finds, how its checks say it, and how values are shown in its sentences."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpsearch.errors import ConfigError

MAX_WIDTH = 100  # characters of a value that a sentence shows
MALFORMED = (
    *(LookupError, TypeError, ValueError, AttributeError, ArithmeticError, RecursionError),
    *(AssertionError, ConfigError, OSError),  # the latter for a path that is too long
)
"""what reading data raises that was tampered with, as if it had the right form"""


@dataclass(frozen=True)
class Fault:
    """Two sides that differ, or one that is missing or damaged."""

    check: str  # short name of the rule
    trial: int | None  # None where it is no trial's
    message: str  # what each side says

    def __post_init__(self) -> None:
        # A number that was tampered with may be a list, and findings are compared by their hashes.
        if type(self.trial) is not int:
            object.__setattr__(self, "trial", None)


@dataclass(frozen=True)
class Open:
    """Something that was begun and is not recorded yet; the driver, or the next one, goes on."""

    trial: int | None
    message: str


AuditFinding = Fault | Open
Findings = Iterator[AuditFinding]
Problems = Iterator[str | AuditFinding]  # what a check yields: a finding, or the message of a fault


class DamagedError(Exception):
    """Ends a check: a file that it needs is missing or damaged, as the message says."""


def checked(check: str, trial: int | None, problems: Problems) -> Findings:
    """Yield what a check of a trial, or of the study, finds.

    Data that were tampered with may have any form; checks read them as if it were the right one,
    and what they raise then is a fault too.
    """
    try:
        for problem in problems:
            yield Fault(check, trial, problem) if isinstance(problem, str) else problem
    except DamagedError as error:
        yield Fault(check, trial, str(error))
    except MALFORMED as error:
        problem = f"{type(error).__name__}: {shown(str(error))}"
        yield Fault(check, trial, f"an event or a file of it has another form ({problem})")


def unlike(
    where: str, own: Mapping[str, Any], told: Mapping[str, Any], teller: str = "events say"
) -> Iterator[str]:
    """Yield a message for each key that one side lacks, or whose value differs from events'."""
    for key in sorted({*own, *told}, key=str):
        if key not in own or key not in told or not is_same(own[key], told[key]):
            yield f"{teller} {key} {shown(told.get(key))}, {where} {shown(own.get(key))}"


def shown(value: Any) -> str:
    """Return a value on one line, of bounded length, without characters that act on terminals."""
    text = ascii(value) if isinstance(value, str | bytes) else _text(value)
    return text if len(text) <= MAX_WIDTH else f"{text[:MAX_WIDTH]}..."


def is_same(left: Any, right: Any) -> bool:
    """Return whether two plain values are the same bit for bit; 1, 1.0 and true differ."""
    return _text(left) == _text(right)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=repr)
