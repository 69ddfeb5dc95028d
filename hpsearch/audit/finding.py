"""Finding a study: its folder, and the URL of its database.

What an audit finds, and how values stand in its sentences.
"""

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.errors import CorruptError, StorageError, UsageError
from hpsearch.files import contents, parse_json
from hpsearch.study.url import sqlite_file

FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True)
class AuditedPlace:
    """Where a study is."""

    name: str
    folder: Path
    url: str
    """of the database"""


def locate(name_or_file: str, runs: Path) -> AuditedPlace:
    """Return where the study of a file, or of a name under ``runs``, is.

    Raises:
        UsageError: if no such study was started.
        ConfigError: if the study file is wrong.
        CorruptError: if what the folder says of its study is damaged.
        StorageError: if the database is not where it should be.
    """
    if Path(name_or_file).suffix in (".yaml", ".yml"):
        said: Any = yaml_file.load(Path(name_or_file))
        name = said.get("name") if isinstance(said, dict) else None
        if not isinstance(name, str):
            raise UsageError(f"{name_or_file} names no study; give a study file, or a name")
    else:
        name = name_or_file
    folder = (runs / name).absolute()
    url = _url(name, _storage(name, folder, runs))
    file = sqlite_file(url)
    if file and not Path(file).exists():
        raise StorageError(
            f"the database of the study {name} is not at {Path(file).absolute()}; run the command "
            "in the folder in which the study was started, or restore the file"
        )
    return AuditedPlace(name, folder, url)


def _storage(name: str, folder: Path, runs: Path) -> str:
    note = folder / "study.json"
    try:
        storage = parse_json(contents(note))["storage"]
    except OSError as error:
        names = ", ".join(sorted(path.parent.name for path in runs.glob("*/study.json")))
        there = f"there are: {names}" if names else f"there are none under {runs}"
        raise UsageError(
            f"no study {name!r} that was started ({note}: {error.strerror}); {there}"
        ) from error
    except (CorruptError, ValueError, LookupError, TypeError) as error:
        raise CorruptError(
            f"{note} is damaged; run the study file again, which writes it anew"
        ) from error
    if not isinstance(storage, str):
        raise CorruptError(f"{note} is damaged; run the study file again, which writes it anew")
    return storage


def _url(name: str, storage: str) -> str:
    if not storage.startswith(FROM_ENVIRONMENT):
        return storage
    variable = storage.removeprefix(FROM_ENVIRONMENT)
    url = os.environ.get(variable)
    if not url:
        raise StorageError(
            f"the database URL of study {name} stands in the environment variable {variable}, "
            f"which is not set; export {variable}=postgresql://user:password@host/name"
        )
    return url


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
