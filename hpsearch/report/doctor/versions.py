"""Python and the packages that decide most: which were tested, which are installed."""

import platform
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version

from hpsearch.report.doctor.finding import Finding

TESTED = {"torch": "2.13", "optuna": "5.0", "submitit": "1.5"}
"""by package, as constraints.txt has them"""
TESTED_PYTHON = "3.11"


def check_versions(tested: Mapping[str, str] = TESTED) -> Iterator[Finding]:
    """Compare major and minor versions; the packages are not imported, which takes seconds."""
    yield _compare("Python", platform.python_version(), TESTED_PYTHON)
    for package, wanted in tested.items():
        try:
            yield _compare(package, version(package), wanted)
        except PackageNotFoundError:
            yield Finding(
                package,
                "error",
                f"{package} is not installed, but {wanted} is needed; install hpsearch again with: "
                "pip install -c constraints.txt -e .",
            )


def _compare(name: str, installed: str, tested: str) -> Finding:
    if installed.split(".")[:2] == tested.split("."):
        return Finding(name, "ok", f"{installed}, as tested")
    return Finding(
        name,
        "warning",
        f"{installed} was not tested, {tested} was; if something fails, install the tested "
        "versions with: pip install -c constraints.txt -e .",
    )
