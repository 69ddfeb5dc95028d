"""YAML files: numbers as people write them, duplicate keys refused, one sentence for a fault."""

import re
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from yaml.composer import Composer
from yaml.constructor import SafeConstructor
from yaml.representer import RepresenterError
from yaml.resolver import Resolver

from hpsearch.errors import ConfigError, CorruptError, UsageError
from hpsearch.files import CANNOT_BE_KEPT, MAX_DEPTH, MAX_RECORD, contents

if TYPE_CHECKING:
    from yaml import SafeDumper as BaseDumper
else:  # libyaml, where PyYAML was built with it, writes the same text ten times as fast
    BaseDumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


MAX_KEYS = 1_000  # of one mapping
MAX_NODES = 1_000_000
"""keys, values and lists of a file; what an alias refers to counts again for each alias"""
MAX_BITS = 4096  # of a whole number


class _Bounded(Composer, SafeConstructor, Resolver):
    """YAML 1.1 as PyYAML reads it, but 1e-3 is a number, `off` a text, and no key stands twice.

    The size of the data is bounded: with aliases, a few lines can mean more than memory can hold.
    """

    _depth = 0
    _sizes: dict[yaml.Node, tuple[int, int]]
    """how many nodes each stands for, and how deep they are nested"""

    def compose_document(self) -> yaml.Node | None:
        self._sizes = {}
        return super().compose_document()

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        is_alias = self.check_event(yaml.AliasEvent)  # type: ignore[attr-defined]  # of the parser
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise self._fault(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(parent, yaml.MappingNode) and len(parent.value) == MAX_KEYS:
            raise self._fault(f"a mapping has more than {MAX_KEYS:,} keys")
        node = super().compose_node(parent, index)
        if node is not None:
            self._measure(node, is_alias=is_alias)
        self._depth -= 1
        return node

    def _measure(self, node: yaml.Node, *, is_alias: bool) -> None:
        """Note what a node stands for; its parts have been measured."""
        if is_alias and node not in self._sizes:
            raise self._fault("an alias lies inside the value that it refers to")
        if not is_alias:
            parts = [self._sizes[part] for part in _parts(node)]
            height = 1 + max((high for _, high in parts), default=0)
            self._sizes[node] = 1 + sum(size for size, _ in parts), height
        size, height = self._sizes[node]
        if size > MAX_NODES:
            raise self._fault(f"with all aliases filled in, it has more than {MAX_NODES:,} values")
        if self._depth + height > MAX_DEPTH + 1:
            raise self._fault(f"it is nested more than {MAX_DEPTH} deep")
        if isinstance(node, yaml.ScalarNode) and CANNOT_BE_KEPT.search(node.value):
            raise self._fault("a text holds NUL or half of a surrogate pair")

    def _fault(self, what: str) -> yaml.MarkedYAMLError:
        mark = self.peek_event().start_mark  # type: ignore[attr-defined]  # of the parser
        return yaml.composer.ComposerError(None, None, what, mark)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            is_name = not isinstance(key, list | dict)
            if not is_name or key in seen:
                fault = f"the key {key!r} {'stands twice' if is_name else 'is not a name'}"
                raise yaml.constructor.ConstructorError(None, None, fault, key_node.start_mark)
            seen.add(key)
        return super().construct_mapping(node, deep)


def _parts(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return list(node.value) if isinstance(node, yaml.SequenceNode) else []


def _whole_number(loader: _Bounded, node: yaml.ScalarNode) -> int:
    """Return a whole number that can be printed: Python refuses more than 4,300 digits."""
    number: int = loader.construct_yaml_int(node)
    if number.bit_length() > MAX_BITS:
        raise ValueError("a whole number has more than 1,200 digits")
    return number


def _refuse_merge(loader: _Bounded, node: yaml.ScalarNode) -> None:
    fault = "merge keys (<<) are not supported; write out the keys"
    raise yaml.constructor.ConstructorError(None, None, fault, node.start_mark)


_Bounded.add_constructor("tag:yaml.org,2002:int", _whole_number)  # type: ignore[type-var]
_Bounded.add_constructor("tag:yaml.org,2002:merge", _refuse_merge)  # type: ignore[type-var]


class _Dumper(BaseDumper):
    """Quotes the texts that `load` would take for numbers."""


class _PortableDumper(BaseDumper):
    """Quotes the texts that any reader would take for numbers or truth values, such as off."""


# YAML 1.2 core schema: only true and false are truth values; the exponent of a number needs neither
# a dot before it nor a sign.
_BOOL = "tag:yaml.org,2002:bool"
_FLOAT = "tag:yaml.org,2002:float"
_EXPONENT = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)[eE][-+]?[0-9]+$")
_FIRST = list("-+.0123456789")
for _class in (_Bounded, _Dumper):
    _class.yaml_implicit_resolvers = {
        first: [(tag, regexp) for tag, regexp in resolvers if tag != _BOOL]
        for first, resolvers in _class.yaml_implicit_resolvers.items()
    }
    _class.add_implicit_resolver(
        _BOOL, re.compile(r"^(true|True|TRUE|false|False|FALSE)$"), list("tTfF")
    )
    _class.add_implicit_resolver(_FLOAT, _EXPONENT, _FIRST)
_PortableDumper.add_implicit_resolver(_FLOAT, _EXPONENT, _FIRST)


class _Loader(_Bounded, yaml.SafeLoader):
    """Says what is wrong with a file in PyYAML's words."""


if TYPE_CHECKING or yaml.__with_libyaml__:

    class _QuickLoader(_Bounded, yaml.CSafeLoader):
        """Takes the events from libyaml, which finds them ten times as fast."""

        def __init__(self, text: str) -> None:
            yaml.CSafeLoader.__init__(self, text)
            Composer.__init__(self)

else:
    _QuickLoader = _Loader


# PyYAML's own constructors raise all kinds: ValueError for the 13th month, IndexError for !!int ''.
_FAULTS = (yaml.YAMLError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError)


def load(path: Path) -> Any:
    """Return what the file holds; ConfigError, with the line, if that is no YAML or unreadable."""
    try:
        text = contents(path, MAX_RECORD).decode("utf-8")
    except CorruptError as error:
        fault = f"cannot be read: it must be a regular file of at most {MAX_RECORD:,} bytes"
        raise ConfigError(str(path), [fault]) from error
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"is not a text file ({error.reason})"]) from error
    except FileNotFoundError as error:
        raise ConfigError(str(path), ["does not exist; check the path"]) from error
    except OSError as error:
        raise ConfigError(str(path), [f"cannot be read: {error.strerror}"]) from error
    try:
        return _loaded(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        where = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(str(path), [f"is not YAML: {error.problem}{where}"]) from error
    except _FAULTS as error:
        raise _no_yaml(str(path), error) from error


def _no_yaml(source: str, error: Exception) -> ConfigError:
    return ConfigError(source, [f"is not YAML: {' '.join(str(error).split())}"])


def _loaded(text: str) -> Any:
    """Return the value of a text: plain data alone, as of `yaml.SafeLoader`, no Python objects."""
    with suppress(*_FAULTS):
        return yaml.load(text, Loader=_QuickLoader)
    return yaml.load(text, Loader=_Loader)


def parse(text: str) -> Any:
    """Return the value of a piece of YAML, such as 1e-3 or [64, 64]; ConfigError if it is none."""
    try:
        return _loaded(text)
    except _FAULTS as error:
        raise _no_yaml(repr(text), error) from error


def dump(data: Any) -> str:
    return _dumped(data, _Dumper)


def dump_portable(data: Any) -> str:
    """Return plain data as YAML text that readers of YAML 1.1 and 1.2 understand alike."""
    return _dumped(data, _PortableDumper)


def dump_inline(data: Any) -> str:
    """Return plain data as YAML text on one line, such as 0.001 or {name: tpe}."""
    return _dumped(data, _Dumper, is_flow=True, width=10**6).removesuffix("...\n").rstrip("\n")


def _dumped(
    data: Any, dumper: type[BaseDumper], *, is_flow: bool | None = None, width: int = 100
) -> str:
    try:
        text: str = yaml.dump(
            data, Dumper=dumper, sort_keys=False, default_flow_style=is_flow, width=width
        )
    except RepresenterError as error:
        raise UsageError(f"a file cannot hold {error.args[-1]!r}; give plain data") from error
    return text
