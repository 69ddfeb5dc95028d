"""The versions of what players are measured by."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Final

import hpsearch

PACKAGES: Final = ("torch", "optuna", "numpy", "numba", "safetensors", "onnx", "onnxruntime")


def versions() -> dict[str, str]:
    """Return the versions of what plays, by package; packages that are missing are left out."""
    found = {"hpsearch": hpsearch.__version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
