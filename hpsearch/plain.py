"""Configurations as plain data: what YAML and JSON hold, and value by value."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hpsearch.schema import PER_MEMBER, field_hints, metadata_of


@dataclass(frozen=True)
class Leaf:
    """One value of a configuration: its dotted path, the value, whether members may differ."""

    path: str
    value: Any
    per_member: bool


def to_plain(value: Any) -> Any:
    """Return dataclasses as dicts and tuples as lists: what `read` takes and YAML writes."""
    if dataclasses.is_dataclass(value):
        return {f.name: to_plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: to_plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [to_plain(item) for item in value]
    return value


def leaves(config: Any, path: str = "", per_member: bool = False) -> Iterator[Leaf]:
    """Yield every value of a configuration; a tuple is one value."""
    if not dataclasses.is_dataclass(config):
        yield Leaf(path, to_plain(config), per_member)
        return
    cls: Any = type(config)
    for name, hint in field_hints(cls).items():
        marked = per_member or PER_MEMBER in metadata_of(hint)
        yield from leaves(getattr(config, name), f"{path}.{name}" if path else name, marked)
