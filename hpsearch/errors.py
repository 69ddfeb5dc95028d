"""The exceptions that a user can meet, each with the exit code of the command line.

HpsearchError                 1   something failed that the user can act on
├── UsageError                2   the command or its arguments are wrong
├── ConfigError               3   a study or trainer file is wrong (every fault is listed)
├── ConflictError             4   another study or another driver holds the name
├── StorageError              5   the database cannot be reached or used
│   └── StorageUnavailableError 5   it is away now and may come back by itself
├── DiskError                 6   a file cannot be written: disk full, no permission
├── CorruptError              7   a file on disk is damaged
└── StudyFailedError          8   too many trials of the study failed
    └── TrainingFailedError   8   the training of a single run failed

Ctrl-C ends a command with 130. Messages are one sentence with the rule, the value and the remedy.
"""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches

INTERRUPTED = 130
"""exit code after Ctrl-C"""


class HpsearchError(Exception):
    """Base of every error that is reported as one sentence, without a traceback."""

    exit_code = 1


class UsageError(HpsearchError):
    """The command or its arguments are wrong."""

    exit_code = 2


class ConfigError(HpsearchError):
    """A study or trainer file is wrong; ``problems`` lists every fault with its dotted path."""

    exit_code = 3

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            message = f"{source}: {self.problems[0]}"
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems)
            message = f"{source} has {len(self.problems)} problems:{lines}"
        super().__init__(message)


class ConflictError(HpsearchError):
    """Another study or another driver holds the name."""

    exit_code = 4


class StorageError(HpsearchError):
    """The database cannot be reached or used."""

    exit_code = 5


class StorageUnavailableError(StorageError):
    """The database is away or locked now; the same may work later without any change."""


class DiskError(HpsearchError):
    """A file cannot be written."""

    exit_code = 6


class CorruptError(HpsearchError):
    """A file on disk is damaged."""

    exit_code = 7


class StudyFailedError(HpsearchError):
    """Too many trials of the study failed."""

    exit_code = 8


class TrainingFailedError(StudyFailedError):
    """The training of a single run failed."""


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> str:
    """Return the sentence for an unknown name: what it is, what was meant, what is valid."""
    names = sorted(valid)
    close = get_close_matches(str(name), names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {kind} {name!r}{hint}; valid: {', '.join(names)}"
