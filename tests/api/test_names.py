"""The names that `import hpsearch` gives, with arguments, fields, methods, properties: they stay.

names.txt lists them, but no attributes that only `__init__` sets. Where one was added on purpose:
python tests/api/test_names.py
"""

import inspect
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import hpsearch
from hpsearch.analysis.confirmation import Confirmation
from hpsearch.report.listing import ListedStudy

LISTED = Path(__file__).with_name("names.txt")
RETURNED = (Confirmation, ListedStudy)
"""what methods return, and no name of the package stands for"""
DEFAULTS = {"Ranks": "ALONE", "_HAS_DEFAULT_FACTORY_CLASS": "..."}
"""how defaults are written whose own text says where they lie in memory, or nothing"""


def named(name: str) -> object:
    return vars(hpsearch).get(name) or hpsearch.__getattr__(name)


def public_names() -> Iterator[str]:
    values = {name: named(name) for name in hpsearch.__all__ if name != "__version__"}
    for name, value in sorted((values | {kind.__name__: kind for kind in RETURNED}).items()):
        if isinstance(value, type):
            yield name if issubclass(value, Exception) else f"{name}({arguments(value)})"
            yield from (f"    {line}" for line in members(value))
        elif inspect.isfunction(value):
            yield f"{name}({arguments(value)})"
        else:
            yield name


def members(kind: type) -> Iterator[str]:
    """Yield methods and properties, also of our own classes from which a class derives."""
    own = [base for base in reversed(kind.__mro__) if base.__module__.startswith("hpsearch.")]
    every = {name: value for base in own for name, value in vars(base).items()}
    for name, value in sorted(every.items()):
        if name.startswith("_"):
            continue
        function = getattr(value, "__func__", value)
        if inspect.isfunction(function):
            yield f"{name}({arguments(function)})"
        elif isinstance(value, property):
            yield name


def arguments(function: object) -> str:
    """Return the parameters with their defaults, without types, ``self`` and ``cls``."""
    assert callable(function)
    parameters = inspect.signature(function).parameters.values()
    plain = [
        parameter.replace(annotation=parameter.empty, default=Default.of(parameter))
        for parameter in parameters
        if parameter.name not in ("self", "cls")
    ]
    return str(inspect.Signature(plain))[1:-1]


class Default:
    """A default whose text is the same on every machine."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __repr__(self) -> str:
        return self.text

    @classmethod
    def of(cls, parameter: inspect.Parameter) -> object:
        default = parameter.default
        is_missing = default is parameter.empty
        return default if is_missing else cls(DEFAULTS.get(type(default).__name__, repr(default)))


def test_names_arguments_and_fields_are_those_that_are_listed():
    assert [*public_names()] == LISTED.read_text().splitlines()
    assert set(dir(hpsearch)) == set(hpsearch.__all__)


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'open_stdy'"):
        hpsearch.open_stdy  # noqa: B018
    with pytest.raises(ImportError, match="open_stdy"):
        from hpsearch import open_stdy  # noqa: F401


def test_the_package_alone_loads_nothing_else():
    code = "import json, sys; before = {*sys.modules}; import hpsearch; " + (
        "print(json.dumps(sorted({*sys.modules} - before)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    foreign = loaded - {*sys.stdlib_module_names, "hpsearch"}
    assert foreign == set()
    assert {name for name in json.loads(done.stdout) if name.startswith("hpsearch.")} == {
        "hpsearch.package"
    }


if __name__ == "__main__":
    LISTED.write_text("".join(f"{line}\n" for line in public_names()))
