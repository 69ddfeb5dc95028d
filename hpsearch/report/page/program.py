"""The program that draws the charts of a page: plotly.js."""

import re
import sys
from pathlib import Path
from typing import Final

from hpsearch.bounded import contents
from hpsearch.errors import CorruptError, UsageError

SMALLER: Final = "share/hpsearch/plotly-cartesian.min.js"
"""in the environment's folder: plotly.js without maps and three dimensions, which `make install`
takes from npm; the Python package has the whole alone"""
_VERSION: Final = re.compile(r"plotly\.js (?:\([^)]*\) )?v(\d+\.\d+\.\d+)")


def plotly_js() -> str:
    """Return the program: the smaller one, if it is installed in the version of the whole.

    Raises:
        UsageError: if plotly is missing.
    """
    try:
        # Imported here: nothing else needs it, and it may be missing.
        from plotly.offline import get_plotlyjs
    except ImportError as error:
        raise UsageError(
            "a page needs plotly: pip install plotly, or read the study with: hpsearch status"
        ) from error
    whole = str(get_plotlyjs())
    try:
        smaller = contents(Path(sys.prefix) / SMALLER).decode()
    except (OSError, CorruptError, UnicodeDecodeError):
        return whole
    return smaller if _versions(smaller) == _versions(whole) else whole


def _versions(program: str) -> list[str]:
    """Return the version that a program names in its first lines."""
    return _VERSION.findall(program[:300])
