"""Frozen dataclasses from plain data (what a YAML file holds), all faults at once, and back.

A field's annotation is its rule: ``Annotated[float, Range(low=0.0), PER_MEMBER]``. Supported are
bool, int, float, str, Literal, tuples, string-keyed dicts, unions with None, nested dataclasses and
unions of them. Fields without a default are required; no key may be unknown; ``true`` is no number
and ``"1e-3"`` is none either. A dataclass may check what spans its fields in ``check()``, which
yields one sentence, beginning with the key, for every disagreement. Where a union holds a class
with a KIND, dataclasses of other packages may stand, found by their names; see `extensions`.

Configurations that are plain data are read, set and listed by dotted paths. Standard library alone,
because trainer configurations are read on bare GPU nodes.
"""

import copy
import dataclasses
import math
import sys
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from inspect import isabstract
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from hpsearch.errors import SHOWN_PROBLEMS, ConfigError, shown, unknown_fault, unknown_name
from hpsearch.extensions import Extension, ExtensionError, PartName, installed, open_kind

T = TypeVar("T")


@dataclass(frozen=True)
class Range:
    """The closed interval (open where said) that a number lies in."""

    low: float = -math.inf
    high: float = math.inf
    open_low: bool = False
    open_high: bool = False

    def __contains__(self, value: float) -> bool:
        above = value > self.low if self.open_low else value >= self.low
        below = value < self.high if self.open_high else value <= self.high
        return above and below

    def __str__(self) -> str:
        left = "(" if self.open_low or math.isinf(self.low) else "["
        right = ")" if self.open_high or math.isinf(self.high) else "]"
        return f"{left}{self.low:g}, {self.high:g}{right}"


@dataclass(frozen=True)
class PerMember:
    """Marks a field whose value may differ between the members of one population."""


PER_MEMBER = PerMember()


@dataclass(frozen=True)
class NonFinite:
    """Marks a number that may be infinite or NaN; Python's JSON can hold both."""


Unbounded = Annotated[float, NonFinite()]

Positive = Annotated[int, Range(low=1)]
NonNegative = Annotated[int, Range(low=0)]


INSTALL_REMEDY = "; if a package of yours has it, install that here"


class _Invalid:
    """Stands for a value whose faults have been noted."""


_INVALID = _Invalid()


def read(cls: type[T], data: object, *, source: str) -> T:
    """Return ``cls`` read from ``data``.

    Raises:
        ConfigError: listing every fault of ``data`` with its dotted path; ``source`` names the
            file it came from.
    """
    value = read_hint(cls, data, source=source)
    assert isinstance(value, cls)
    return value


def read_hint(hint: Any, data: object, *, source: str) -> Any:
    """Return what an annotation, such as a union of dataclasses, says of ``data``; see `read`."""
    problems: list[str] = []
    value = _read_value(hint, data, "", problems)
    if problems:
        raise ConfigError(source, problems)
    return value


def _read_value(hint: Any, data: object, path: str, problems: list[str]) -> Any:
    if isinstance(hint, type):
        read_own = _read_dataclass if dataclasses.is_dataclass(hint) else _read_scalar
        return read_own(hint, data, path, problems)
    origin = get_origin(hint)
    if origin is Annotated:
        return _read_annotated(hint, data, path, problems)
    if origin in (Union, types.UnionType):
        return _read_union(get_args(hint), data, path, problems)
    if origin is Literal:
        return _read_literal(get_args(hint), data, path, problems)
    if origin is tuple:
        return _read_tuple(get_args(hint)[0], data, path, problems)
    if origin is dict:
        return _read_dict(get_args(hint)[1], data, path, problems)
    return _read_scalar(hint, data, path, problems)


def _read_annotated(hint: Any, data: object, path: str, problems: list[str]) -> Any:
    inner, *rules = get_args(hint)
    if NonFinite() in rules and isinstance(data, float):
        return data
    for rule in rules:
        if isinstance(rule, PartName):
            return _read_name(rule, data, path, problems)
    value = _read_value(inner, data, path, problems)
    if isinstance(value, int | float):
        for rule in rules:
            if isinstance(rule, Range) and value not in rule:
                return _fail(problems, path, f"must lie in {rule}, but is {shown(value)}")
    return value


def _read_name(rule: PartName, data: object, path: str, problems: list[str]) -> Any:
    if isinstance(data, str) and data in rule:
        return data
    return _fail(problems, path, _unknown(path, data, rule, is_open=bool(rule.kinds)))


def _read_dataclass(cls: Any, data: object, path: str, problems: list[str]) -> Any:
    if not isinstance(data, Mapping):
        return _fail(problems, path, f"must be a mapping of keys, but is {shown(data)}")
    hints = field_hints(cls)
    before = len(problems)
    for key in data:
        if key not in hints:
            # What was meant is worked out for the faults that are shown: it takes time.
            is_shown = len(problems) < SHOWN_PROBLEMS
            fault = (
                unknown_fault("key", key, hints) if is_shown else f"is an unknown key {shown(key)}"
            )
            _fail(problems, _join(path, str(key)), fault)
    values = {}
    for field in dataclasses.fields(cls):
        key_path = _join(path, field.name)
        if field.name in data:
            values[field.name] = _read_value(
                hints[field.name], data[field.name], key_path, problems
            )
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            _fail(problems, key_path, "is missing")
    if len(problems) > before:
        return _INVALID
    value = cls(**values)
    for problem in value.check() if hasattr(value, "check") else ():
        key, _, message = problem.partition(" ")
        _fail(problems, _join(path, key), message)
    return value if len(problems) == before else _INVALID


def _read_union(alternatives: tuple[Any, ...], data: object, path: str, problems: list[str]) -> Any:
    if data is None and type(None) in alternatives:
        return None
    options = tuple(option for option in alternatives if option is not type(None))
    if len(options) == 1:
        return _read_value(options[0], data, path, problems)
    options = tuple(option for option in options if _is_of_kind(option, data)) or options
    options = _with_its_keys(options, data)
    if len(options) == 1:
        return _read_value(options[0], data, path, problems)
    if all(dataclasses.is_dataclass(option) for option in options):
        return _read_dataclass_union(options, data, path, problems)
    for option in options:
        faults: list[str] = []
        value = _read_value(option, data, path, faults)
        if not faults:
            return value
    kinds = " or ".join(_kind(option) for option in options)
    return _fail(problems, path, f"must be {kinds}, but is {shown(data)}")


def _with_its_keys(options: tuple[Any, ...], data: object) -> tuple[Any, ...]:
    """Return, of mappings to any keys and dataclasses, the dataclasses that have a key of ``data``.

    Where none has, the mappings to any keys.
    """
    blocks: list[Any] = [option for option in options if dataclasses.is_dataclass(option)]
    others = tuple(option for option in options if option not in blocks)
    if not (blocks and others and isinstance(data, Mapping)):
        return options
    named = [block for block in blocks if any(key in field_hints(block) for key in data)]
    return tuple(named) or others


def _is_of_kind(hint: Any, data: object) -> bool:
    """Return whether an alternative takes mappings, lists or neither, as ``data`` is one."""
    if get_origin(hint) is Annotated:
        return _is_of_kind(get_args(hint)[0], data)
    takes_mapping = dataclasses.is_dataclass(hint) or get_origin(hint) is dict
    takes_list = get_origin(hint) is tuple
    is_list = isinstance(data, Sequence) and not isinstance(data, str)
    return takes_mapping == isinstance(data, Mapping) and takes_list == is_list


def _read_dataclass_union(
    options: tuple[Any, ...], data: object, path: str, problems: list[str]
) -> Any:
    """Choose by the Literal field that all options share, else by the most keys in common."""
    if not isinstance(data, Mapping):
        return _fail(problems, path, f"must be a mapping of keys, but is {shown(data)}")
    places = [(option, kind) for option in options if (kind := open_kind(option))]
    options = own_options(options)
    tag = _shared_tag(options)
    if tag is None:
        best = max(options, key=lambda option: len(field_hints(option).keys() & data.keys()))
        return _read_dataclass(best, data, path, problems)
    by_name = {name: option for option in options for name in get_args(field_hints(option)[tag])}
    name = data.get(tag)
    if isinstance(name, str) and name in by_name:
        return _read_dataclass(by_name[name], data, path, problems)
    for place, kind in places:
        if isinstance(name, str) and name in installed(kind):
            return _read_extension(installed(kind)[name], place, tag, data, path, problems)
    valid = [*by_name, *(name for _, kind in places for name in installed(kind))]
    if tag not in data:
        return _fail(problems, _join(path, tag), f"is missing; valid: {', '.join(valid)}")
    path = _join(path, tag)
    return _fail(problems, path, _unknown(path, name, valid, is_open=bool(places)))


def _read_extension(
    part: Extension,
    place: Any,
    tag: str,
    data: Mapping[Any, Any],
    path: str,
    problems: list[str],
) -> Any:
    """Read options of another package, which are a ``place``, named by the key ``tag``."""
    try:
        return _read_dataclass(option_of(part, place, tag), data, path, problems)
    except ExtensionError as error:
        return _fail(problems, _join(path, tag), str(error))
    except Exception as error:  # whatever the code of another package raises
        fault = f"{part} cannot be read ({type(error).__name__}: {error}); mend that package"
        return _fail(problems, _join(path, tag), fault)


def option_of(part: Extension, place: Any, tag: str) -> Any:
    """Return the dataclass that a package gives for a ``place``; ExtensionError if it is none."""
    option = part.load()
    is_option = isinstance(option, type) and issubclass(option, place) and not isabstract(option)
    is_own = is_option and "__dataclass_fields__" in vars(option)
    if not is_own or get_args(field_hints(option).get(tag)) != (part.name,):
        rule = f"is announced by the package {part.package} {part.version}, but what that gives is"
        raise ExtensionError(
            f"{part.name} {rule} no frozen dataclass that derives from {place.__name__}, with its "
            f"methods and the field {tag}: Literal[{part.name!r}]"
        )
    return option


def own_options(options: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return the alternatives of a union without the places of other packages' options."""
    return tuple(option for option in options if open_kind(option) is None)


def _read_literal(names: tuple[Any, ...], data: object, path: str, problems: list[str]) -> Any:
    if data is False and "off" in names:  # what other readers of YAML make of off
        return "off"
    for name in names:
        if data == name and type(data) is type(name):
            return name
    return _fail(problems, path, _unknown(path, data, map(str, names)))


def _unknown(path: str, name: object, valid: Iterable[str], *, is_open: bool = False) -> str:
    """Return the fault of an unknown name at a path; what a list holds is called a name.

    Where the choice ``is_open``, other packages add names.
    """
    key, is_listed, _ = path.rpartition(".")[2].partition("[")
    key = "name" if is_listed else key
    return f"{unknown_fault(key, name, valid)}{INSTALL_REMEDY if is_open else ''}"


def _read_tuple(item: Any, data: object, path: str, problems: list[str]) -> Any:
    if isinstance(data, str) or not isinstance(data, Sequence):
        return _fail(problems, path, f"must be a list, but is {shown(data)}")
    before = len(problems)
    values = tuple(
        _read_value(item, entry, f"{path}[{index}]", problems) for index, entry in enumerate(data)
    )
    return values if len(problems) == before else _INVALID


def _read_dict(item: Any, data: object, path: str, problems: list[str]) -> Any:
    if not isinstance(data, Mapping):
        return _fail(problems, path, f"must be a mapping of keys, but is {shown(data)}")
    before = len(problems)
    values: dict[str, Any] = {}
    for name, entry in zip(map(str, data), data.values(), strict=True):
        if name in values:
            _fail(problems, path, f"has the key {shown(name)} with and without quotes; keep one")
        values[name] = _read_value(item, entry, _join(path, name), problems)
    return values if len(problems) == before else _INVALID


def _read_scalar(hint: Any, data: object, path: str, problems: list[str]) -> Any:
    if hint is Any:
        return data
    if hint is float and isinstance(data, int | float) and not isinstance(data, bool):
        if abs(data) <= sys.float_info.max:  # false for NaN, and for whole numbers beyond a float
            return float(data)
        return _fail(problems, path, f"must be a finite number, but is {shown(data)}")
    if isinstance(data, hint) and (hint is bool or not isinstance(data, bool)):
        return data
    return _fail(
        problems, path, f"must be {_kind(hint)}, but is {shown(data)}{_number_advice(data)}"
    )


def _number_advice(data: object) -> str:
    if isinstance(data, str):
        try:
            float(data)
        except ValueError:
            return ""
        return " (a text; write the number without quotes)"
    return ""


def _kind(hint: Any) -> str:
    if get_origin(hint) is Annotated:
        return _kind(get_args(hint)[0])
    names = {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}
    if hint in names:
        return names[hint]
    return "a list" if get_origin(hint) is tuple else "a mapping of keys"


def _shared_tag(options: tuple[Any, ...]) -> str | None:
    for name, hint in field_hints(options[0]).items():
        if get_origin(hint) is Literal and all(
            get_origin(field_hints(option).get(name)) is Literal for option in options
        ):
            return name
    return None


@cache
def field_hints(cls: Any) -> dict[str, Any]:
    """Return the annotation of every field of a dataclass, metadata included."""
    hints = get_type_hints(cls, include_extras=True)
    return {field.name: hints[field.name] for field in dataclasses.fields(cls)}


def metadata_of(hint: Any) -> tuple[Any, ...]:
    """Return what an annotation says beside the type."""
    return get_args(hint)[1:] if get_origin(hint) is Annotated else ()


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _fail(problems: list[str], path: str, message: str) -> _Invalid:
    problems.append(f"{path} {message}" if path else f"the file {message}")
    return _INVALID


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
        yield from leaves(getattr(config, name), _join(path, name), marked)


Config = dict[str, Any]


def apply(base: Config, values: Mapping[str, Any]) -> Config:
    """Return a configuration with the values at their dotted paths; it shares the rest of ``base``.

    A value within another one (``host.gamma`` within ``host``) refines it, whatever their order.

    Raises:
        KeyError: if the configuration has no such path.
    """
    config = {**base}
    for path in sorted(values, key=lambda path: path.count(".")):
        _place(config, path)  # which raises
        config = _replaced(config, path.split("."), copy.deepcopy(values[path]))
    return config


def _replaced(node: Config, keys: Sequence[str], value: Any) -> Config:
    key, *below = keys
    return {**node, key: _replaced(node[key], below, value) if below else value}


def value_at(config: Config, path: str) -> Any:
    """Return what a configuration holds at a dotted path.

    Raises:
        KeyError: if the configuration has no such path.
    """
    node, key = _place(config, path)
    return node[key]


def _place(config: Config, path: str) -> tuple[Config, str]:
    """Return the mapping that holds the value at a dotted path, and its key there."""
    node: Any = config
    *parents, key = path.split(".")
    for parent in parents:
        node = node.get(parent) if isinstance(node, dict) else None
    if not isinstance(node, dict) or key not in node:
        raise KeyError(unknown_name("path", path, paths(config)))
    return node, key


def paths(config: Config, prefix: str = "") -> Iterator[str]:
    """Yield every dotted path of a configuration, a mapping before what it holds."""
    for key, value in config.items():
        yield f"{prefix}{key}"
        if isinstance(value, dict):
            yield from paths(value, f"{prefix}{key}.")
