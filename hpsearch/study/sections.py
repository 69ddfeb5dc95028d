"""The sections of a study file, each read alone, so that one fault hides no other."""

import dataclasses
from collections.abc import Mapping
from functools import cache
from typing import Any

from hpsearch.errors import ConfigError
from hpsearch.parameters import Parameter
from hpsearch.schema import read


def read_sections(cls: type, data: object) -> dict[str, Any]:
    """Return what each top-level key holds, without those that are wrong or missing.

    Args:
        cls: dataclass of the whole file, whose ``space`` is read parameter by parameter.
        data: the file.
    """
    if not isinstance(data, Mapping):
        return {}
    sections: dict[str, Any] = {}
    for section in dataclasses.fields(cls):
        if section.name == "space":
            sections["space"] = _readable_parameters(data.get("space"))
        elif section.name in data:
            sections |= _read_alone(section.name, section.type, data[section.name])
        elif section.default_factory is not dataclasses.MISSING:
            sections[section.name] = section.default_factory()
        elif section.default is not dataclasses.MISSING:
            sections[section.name] = section.default
    return sections


def _readable_parameters(data: object) -> dict[str, Parameter]:
    """Return the parameters that can be read, without those that depend on unreadable ones."""
    if not isinstance(data, Mapping):
        return {}
    readable: dict[str, Parameter] = {}
    for name, entry in data.items():
        readable |= _read_alone(str(name), Parameter, entry)
    while True:
        kept = {
            name: parameter
            for name, parameter in readable.items()
            if all(parent in readable or parent not in data for parent in parameter.when)
        }
        if len(kept) == len(readable):
            return kept
        readable = kept


def _read_alone(name: str, hint: Any, data: object) -> dict[str, Any]:
    """Return {name: value}, or nothing if the data is wrong."""
    try:
        return {name: read(_box(hint), {"value": data}, source=name).value}
    except ConfigError:
        return {}


@cache
def _box(hint: Any) -> Any:
    return dataclasses.make_dataclass("Box", [("value", hint)], frozen=True)
