"""Dotted paths of configurations that are plain data: reading, setting and listing them."""

import copy
from collections.abc import Iterator, Mapping
from typing import Any

from hpsearch.errors import unknown_name

Config = dict[str, Any]


def apply(base: Config, values: Mapping[str, Any]) -> Config:
    """Return a copy of a configuration with the values at their dotted paths.

    A value within another one (``host.gamma`` within ``host``) refines it, whatever their order.

    Raises:
        KeyError: if the configuration has no such path.
    """
    config = copy.deepcopy(base)
    for path in sorted(values, key=lambda path: path.count(".")):
        *parents, key = path.split(".")
        node: Any = config
        for parent in parents:
            node = node.get(parent) if isinstance(node, dict) else None
        if not isinstance(node, dict) or key not in node:
            raise KeyError(unknown_name("path", path, paths(config)))
        node[key] = copy.deepcopy(values[path])
    return config


def value_at(config: Config, path: str) -> Any:
    """Return what a configuration holds at a dotted path.

    Raises:
        KeyError: if the configuration has no such path.
    """
    node: Any = config
    for key in path.split("."):
        if not isinstance(node, dict) or key not in node:
            raise KeyError(unknown_name("path", path, paths(config)))
        node = node[key]
    return node


def paths(config: Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted path of a configuration, a mapping before what it holds."""
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{key}.")
