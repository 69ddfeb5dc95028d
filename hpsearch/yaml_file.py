"""YAML files: numbers as people write them, duplicate keys refused, one sentence for a fault."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from hpsearch.errors import ConfigError

if TYPE_CHECKING:
    from yaml import SafeDumper as BaseDumper
else:  # libyaml, where PyYAML was built with it, writes the same text ten times as fast
    BaseDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class _Loader(yaml.SafeLoader):
    """YAML 1.1 as PyYAML reads it, except that 1e-3 is a number, off a text, a key stands once."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, list | dict):
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} is not a name", key_node.start_mark
                )
            if key in seen:
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key!r} stands twice", key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


class _Dumper(BaseDumper):
    """Quotes the texts that `_Loader` would take for numbers."""


class _PortableDumper(BaseDumper):
    """Quotes the texts that any reader would take for numbers or truth values, such as off."""


# YAML 1.2 core schema: only true and false are truth values; the exponent of a number needs neither
# a dot before it nor a sign.
_BOOL = "tag:yaml.org,2002:bool"
_FLOAT = "tag:yaml.org,2002:float"
_EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
_FIRST = list("-+.0123456789")
for _class in (_Loader, _Dumper):
    _class.yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in resolvers if tag != _BOOL]
        for first, resolvers in _class.yaml_implicit_resolvers.items()
    }
    _class.add_implicit_resolver(
        _BOOL, re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    _class.add_implicit_resolver(_FLOAT, _EXPONENT, _FIRST)
_PortableDumper.add_implicit_resolver(_FLOAT, _EXPONENT, _FIRST)


def load(path: Path) -> Any:
    """Return what the file holds.

    Raises:
        ConfigError: if it can't be read or is no YAML; the sentence names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"is not a text file ({error.reason})"]) from error
    except FileNotFoundError as error:
        raise ConfigError(str(path), ["does not exist; check the path"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    try:
        # _Loader derives from SafeLoader: plain data alone, no Python objects.
        return yaml.load(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(str(path), [f"is not YAML: {error.problem}{where}"]) from error
    except (yaml.YAMLError, ValueError) as error:  # ValueError: the 13th month
        sentence = " ".join(str(error).split())
        raise ConfigError(str(path), [f"is not YAML: {sentence}"]) from error


def parse(text: str) -> Any:
    """Return the value that a piece of YAML stands for, such as 1e-3 or [64, 64].

    Raises:
        ConfigError: if it is no YAML.
    """
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, ValueError) as error:
        sentence = " ".join(str(error).split())
        raise ConfigError(repr(text), [f"is not YAML: {sentence}"]) from error


def dump(data: Any) -> str:
    """Return plain data as YAML text, keys in their order; `load` reads the same data back."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False, default_flow_style=None, width=100)


def dump_portable(data: Any) -> str:
    """Return plain data as YAML text that readers of YAML 1.1 and 1.2 understand alike."""
    return yaml.dump(
        data, Dumper=_PortableDumper, sort_keys=False, default_flow_style=None, width=100
    )


def dump_inline(data: Any) -> str:
    """Return plain data as YAML text on one line, such as 0.001 or {name: tpe}."""
    text: str = yaml.dump(
        data, Dumper=_Dumper, sort_keys=False, default_flow_style=True, width=10**6
    )
    return text.removesuffix("...\n").rstrip("\n")
