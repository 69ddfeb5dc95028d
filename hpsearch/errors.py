"""The exceptions that a user can meet, each with the exit code of the command line.

HpsearchError                 1   something failed that the user can act on
├── UsageError                2   the command or its arguments are wrong
│   └── SchedulerUnavailableError 2   the scheduler does not answer now
├── ConfigError               3   a study or trainer file is wrong (every fault is listed)
├── ConflictError             4   another study or another driver holds the name
├── StorageError              5   the database cannot be reached or used
│   └── StorageUnavailableError 5   it is away now and may come back by itself
├── DiskError                 6   a file cannot be written: disk full, no permission; also a study
│                                 that failed because its jobs met that
├── CorruptError              7   a file on disk is damaged; also `audit`, where books disagree
└── StudyFailedError          8   too many trials of the study failed
    └── TrainingFailedError   8   the training of a single run failed

Ctrl-C ends a command with 130. Messages are one sentence with the rule, the value and the remedy.
"""

import errno
from collections.abc import Iterable, Sequence
from difflib import get_close_matches

SHOWN_PROBLEMS = 20
"""faults of a file that a message lists, and for which it is worked out what was meant"""
MAX_SHOWN = 300  # characters of a value in a message
INTERRUPTED = 130  # exit code after Ctrl-C
_FULL = ("no space left on device", "quota exceeded", "database or disk is full")
"""how libraries and databases say it that raise errors of their own"""


class HpsearchError(Exception):
    """Base of every error that is reported as one sentence, without a traceback."""

    exit_code = 1


class UsageError(HpsearchError):
    exit_code = 2


class NotStartedError(UsageError):
    """A study that is to be looked at has not begun."""


class SchedulerUnavailableError(UsageError):
    """The scheduler does not answer: there is none here, or it is away now."""


class ConfigError(HpsearchError):
    """A study or trainer file is wrong; ``problems`` lists every fault with its dotted path.

    The message shows the first of them.
    """

    exit_code = 3

    def __init__(self, source: str, problems: Sequence[str]) -> None:
        self.source = source
        self.problems = tuple(problems)
        if len(self.problems) == 1:
            message = f"{source}: {self.problems[0]}"
        else:
            lines = "".join(f"\n  - {problem}" for problem in self.problems[:SHOWN_PROBLEMS])
            more = len(self.problems) - SHOWN_PROBLEMS
            lines += f"\n  - and {more:,} more" if more > 0 else ""
            message = f"{source} has {len(self.problems):,} problems:{lines}"
        super().__init__(message)


class ConflictError(HpsearchError):
    exit_code = 4


class StorageError(HpsearchError):
    exit_code = 5


class OthersTrialsError(StorageError):
    """Another process has added trials to a study; they are read now, and asking again helps."""


class StorageUnavailableError(StorageError):
    """The database is away or locked now; the same may work later without any change."""


class DiskError(HpsearchError):
    exit_code = 6


class CorruptError(HpsearchError):
    exit_code = 7


class StudyFailedError(HpsearchError):
    exit_code = 8


class TrainingFailedError(StudyFailedError):
    """The training of a single run failed."""


def is_full(error: BaseException) -> bool:
    """Return whether an error came about because a disk, or what a user may fill of it, is full."""
    cause: BaseException | None = error
    seen: set[int] = set()
    while cause is not None and id(cause) not in seen:
        seen.add(id(cause))
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        # Sentences of ours may quote what jobs met, which says nothing of this error.
        is_foreign = not isinstance(cause, HpsearchError)
        if is_foreign and any(words in str(cause).lower() for words in _FULL):
            return True
        cause = cause.__cause__ or cause.__context__
    return False


def unwritten(what: object, error: OSError, then: str = "run the same command again") -> DiskError:
    """Return the error of ``what``, which cannot be written, with the remedy for its cause.

    ``then`` is what to do once the remedy has been applied.
    """
    why = error.strerror or str(error)
    return DiskError(f"{what} cannot be written ({why}); {remedy(error)}, then {then}")


def remedy(error: OSError) -> str:
    if is_full(error):
        return "free some space"
    if error.errno == errno.EISDIR:
        return "move away the folder that lies where this file belongs"
    if error.errno in (errno.ENOTDIR, errno.EEXIST):
        return "move away the file that lies where a folder belongs"
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return "make its folder writable"
    return "check the file system"


def shown(value: object) -> str:
    """Return a value for a message, cut where it is long: null, true and false as files say it."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    try:
        text = repr(value)
    except ValueError:  # a whole number of more digits than Python prints
        return "a number of thousands of digits"
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}..."


def unknown_fault(kind: str, name: object, valid: Iterable[str]) -> str:
    """Return the fault of a key that holds, or is, an unknown name; see `unknown_name`."""
    return f"is an {unknown_name(kind, name, valid)}"


def unknown_name(kind: str, name: object, valid: Iterable[str]) -> str:
    """Return the sentence for an unknown name: what it is, what was meant, what is valid."""
    names = sorted(valid)
    return f"unknown {kind} {shown(name)}{did_you_mean(name, names)}; valid: {', '.join(names)}"


def did_you_mean(name: object, names: Sequence[str]) -> str:
    """Return which of some names was meant, to stand after one that is not among them."""
    close = get_close_matches(str(name)[:MAX_SHOWN], names, n=1)
    return f" (did you mean {close[0]!r}?)" if close else ""
