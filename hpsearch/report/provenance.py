"""Which code and which versions made something."""

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Final

import hpsearch
from hpsearch.cluster.code_snapshot import commit_of

PACKAGES: Final = (
    *("torch", "optuna", "numpy", "numba", "safetensors"),
    *("onnx", "onnxscript", "onnx-ir", "onnxruntime"),
)


def versions() -> dict[str, str]:
    """Return the versions of what plays, by package; packages that are missing are left out."""
    found = {"hpsearch": hpsearch.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def code_commit() -> str | None:
    """Return the commit of the running code, with a + where it was edited; None outside of git."""
    return commit_of(Path(hpsearch.__file__).parent)
