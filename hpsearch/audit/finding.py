"""Finding a study: its folder, and the URL of its database."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hpsearch import yaml_file
from hpsearch.bounded import contents, parse_json
from hpsearch.errors import CorruptError, StorageError, UsageError
from hpsearch.study.url import sqlite_file

FROM_ENVIRONMENT = "env:"


@dataclass(frozen=True)
class Place:
    """Where a study is."""

    name: str
    folder: Path
    url: str
    """of the database"""


def locate(name_or_file: str, runs: Path) -> Place:
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
    return Place(name, folder, url)


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
