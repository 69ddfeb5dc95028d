"""Which names studies and runs may have, since these become folders, and where they may lie."""

import os
import re
import shlex
import unicodedata
from pathlib import Path

from hpsearch.errors import UsageError

NAME_RULE = (
    "must begin with a letter or digit, and have at most 64 letters, digits, dots, underscores or "
    "hyphens"
)


def is_name(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", text) is not None


def proposed_name(text: str) -> str:
    """Return a name that is allowed and reads much like ``text``."""
    letters = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9._-]+", "-", letters).strip("._-")[:64] or "study"


def check_places(*paths: Path) -> None:
    """Check that paths are UTF-8, in which files and databases keep them; UsageError if not."""
    for path in paths:
        name = os.fsencode(path.absolute())
        try:
            name.decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"paths of studies and runs must be UTF-8, but this one is not: "
                f"{name.decode('utf-8', errors='backslashreplace')}; rename the folder or file, or "
                "give another one"
            ) from error


def option_text(name: str, value: int | None, usual: int | None) -> str:
    """Return what a command line needs besides, where an option has not its usual value."""
    return "" if value == usual else f" {name} {value}"


def runs_option(runs: Path) -> str:
    """Return what a command line needs besides, where studies don't lie in the usual folder."""
    is_usual = runs.absolute() == Path("runs").absolute()
    return "" if is_usual else f" --runs {shlex.quote(str(runs))}"
