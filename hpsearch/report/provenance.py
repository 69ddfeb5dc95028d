"""Which code and which versions made something."""

import platform
from importlib.metadata import version
from pathlib import Path

import hpsearch
from hpsearch.cluster.code_snapshot import commit_of

PACKAGES = ("torch", "optuna", "numpy", "numba")


def versions() -> dict[str, str]:
    """Return the versions of hpsearch, of Python and of the packages that results depend on."""
    return {
        "hpsearch": hpsearch.__version__,
        "python": platform.python_version(),
        **{package: version(package) for package in PACKAGES},
    }


def code_commit() -> str | None:
    """Return the commit of the running code, with a + where it was edited; None outside of git."""
    return commit_of(Path(hpsearch.__file__).parent)
