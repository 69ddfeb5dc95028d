"""A configuration as YAML in which every key is explained by the text under its field in the code.

Beside a key also stand its default where it has one, and P where members of one job may differ in
it; below a block, once, what else could stand there.
"""

import ast
import dataclasses
import inspect
import textwrap
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from hpsearch import yaml_file
from hpsearch.extensions import PartName
from hpsearch.schema import PER_MEMBER, field_hints, metadata_of, own_options, to_plain


@cache
def field_notes(cls: Any) -> dict[str, str]:
    """Return one line for each field of a dataclass under which there is a text."""
    notes: dict[str, str] = {}
    for base in reversed(cls.__mro__[:-1]):
        if "__annotations__" in vars(base):
            notes |= _own_notes(base)
    return notes


def class_note(cls: Any) -> str:
    """Return the first sentence of a class's docstring, without its full stop."""
    first = inspect.cleandoc(cls.__doc__ or "").partition("\n\n")[0]
    return " ".join(first.replace("``", "").split()).removesuffix(".")


def _own_notes(cls: Any) -> dict[str, str]:
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(tree, ast.ClassDef)
    notes: dict[str, str] = {}
    for node, below in pairwise(tree.body):
        match node, below:
            case ast.AnnAssign(target=field), ast.Expr(value=ast.Constant(value=str(text))):
                notes[ast.unparse(field)] = " ".join(text.split())
    return notes


WIDTH = 100
COLUMN = 32  # where comments begin
LONGEST = 44  # characters of a key and its value beside which a comment finds room
INDENT = "  "


def explained(config: Any) -> str:
    """Return a dataclass that `schema.read` can read as YAML text, every key explained."""
    text, was_block = "", False
    for lines in _Writer().keys(config, 0, per_member=False):
        is_block = lines[0].partition("#")[0].rstrip().endswith(":")
        text += "\n" if text and (is_block or was_block) else ""  # blocks stand apart
        text += "\n".join(lines) + "\n"
        was_block = is_block
    return text


def comment(text: str, depth: int = 0) -> list[str]:
    """Return a sentence as lines of comments."""
    lead = f"{INDENT * depth}# "
    return textwrap.wrap(
        text, WIDTH, initial_indent=lead, subsequent_indent=lead, break_long_words=False
    )


class _Writer:
    """Writes one file; remembers which alternatives it has listed."""

    def __init__(self) -> None:
        self._listed: set[tuple[Any, ...]] = set()

    def keys(self, config: Any, depth: int, *, per_member: bool) -> Iterator[list[str]]:
        cls: Any = type(config)  # which is no key of a cache to mypy
        hints = field_hints(cls)
        for field in dataclasses.fields(config):
            hint, value = hints[field.name], getattr(config, field.name)
            marked = per_member or PER_MEMBER in metadata_of(hint)
            note = _note(cls, field, value, hint, marked=marked)
            yield list(self._key(field.name, hint, value, note, depth, marked=marked))

    def _key(
        self, key: str, hint: Any, value: Any, note: str, depth: int, *, marked: bool
    ) -> Iterator[str]:
        if dataclasses.is_dataclass(value):
            header = note or ("" if _tag(type(value)) else class_note(type(value)))
            yield from _line(f"{key}:", header, depth)
            for lines in self.keys(value, depth + 1, per_member=marked):
                yield from lines
            yield from self._alternatives(hint, type(value), depth + 1)
        elif _item_kinds(hint):
            yield from _line(f"{key}:" if value else f"{key}: []", note, depth)
            yield from _items(value, depth + 1)
            yield from self._kinds(_item_kinds(hint), depth + 1)
        else:
            yield from _line(f"{key}: {yaml_file.dump_inline(to_plain(value))}", note, depth)
            yield from self._alternatives(hint, type(value), depth + (value is not None))

    def _alternatives(self, hint: Any, chosen: type, depth: int) -> Iterator[str]:
        """Yield what else could stand in a block's place."""
        options = _options(hint)
        others = [option for option in options if option is not chosen]
        blocks = [option for option in others if dataclasses.is_dataclass(option)]
        if blocks and options not in self._listed:
            self._listed.add(options)
            for block in blocks:
                yield from comment(f"or {_form(block)}: {class_note(block)}", depth)

    def _kinds(self, kinds: tuple[Any, ...], depth: int) -> Iterator[str]:
        """Yield what may stand in a list or mapping, and what its keys mean."""
        if kinds in self._listed:
            return
        self._listed.add(kinds)
        notes: dict[str, dict[str, list[str]]] = {}  # by key, and the kinds that have each
        for kind in kinds:
            yield from comment(f"each is {_form(kind)}: {class_note(kind)}", depth)
            for key, hint in field_hints(kind).items():
                note = "" if key == _tag(kind) else _what(kind, key, hint)
                if note:
                    notes.setdefault(key, {}).setdefault(note, []).append(_name(kind))
        for key, of_key in notes.items():
            for note, names in of_key.items():
                whose = f" of {', '.join(names)}" if len(of_key) > 1 else ""
                yield from comment(f"{key}{whose}: {note}", depth)


def _note(cls: Any, field: "dataclasses.Field[Any]", value: Any, hint: Any, *, marked: bool) -> str:
    what, default = _what(cls, field.name, hint), _default(field)
    has_default = field.name != _tag(cls) and default is not dataclasses.MISSING
    if has_default and default == value:
        what = f"{what} (the default)" if what else "the default"
    elif has_default and not dataclasses.is_dataclass(default):
        what = f"{what} (default: {yaml_file.dump_inline(to_plain(default))})".strip()
    return f"{what}; P" if marked and what else what


def _what(cls: Any, key: str, hint: Any) -> str:
    note = field_notes(cls).get(key, "")
    if key == _tag(cls):
        return note or class_note(cls)
    return "; ".join(filter(None, (note, " or ".join(map(str, _literals(hint))))))


def _tag(cls: Any) -> str | None:
    """Return the key whose one name tells a block from its alternatives."""
    hints = field_hints(cls).items()
    return next((key for key, hint in hints if len(_literals(hint)) == 1), None)


def _name(cls: Any) -> str:
    """Return the name that tells a block from its alternatives, "" if it has none."""
    tag = _tag(cls)
    return "" if tag is None else str(_literals(field_hints(cls)[tag])[0])


def _line(text: str, note: str, depth: int) -> Iterator[str]:
    """Yield a key with its comment, beside it or, where there is little room, above."""
    text = f"{INDENT * depth}{text}"
    if not note:
        yield text
    elif len(text) > LONGEST:
        yield from comment(note, depth)
        yield text
    else:
        start = max(COLUMN, len(text) + 2)
        first, *others = textwrap.wrap(note, WIDTH - start - 2, break_long_words=False)
        yield f"{text:<{start}}# {first}"
        yield from (f"{'':<{start}}# {other}" for other in others)


def _items(value: Any, depth: int) -> Iterator[str]:
    """Yield a line an item of a list or mapping; what has its default is left out."""
    if isinstance(value, Mapping):
        blocks = [(f"{name}:", block) for name, block in value.items()]
    else:
        blocks = [("-", block) for block in value]
    for head, block in blocks:
        yield f"{INDENT * depth}{head} {yaml_file.dump_inline(_without_defaults(block))}"


def _without_defaults(config: Any) -> dict[str, Any]:
    """Return a block as plain data without what has its default, names excepted."""
    cls: Any = type(config)
    hints, plain = field_hints(cls), to_plain(config)
    return {
        field.name: plain[field.name]
        for field in dataclasses.fields(config)
        if _literals(hints[field.name]) or getattr(config, field.name) != _default(field)
    }


def _form(cls: Any) -> str:
    keys = []
    hints = field_hints(cls)
    for field in dataclasses.fields(cls):
        names, default = _literals(hints[field.name]), _default(field)
        if len(names) == 1:
            keys.append(f"{field.name}: {names[0]}")
        elif default is dataclasses.MISSING or dataclasses.is_dataclass(default):
            keys.append(field.name)
        else:
            keys.append(f"{field.name}: {yaml_file.dump_inline(to_plain(default))}")
    return f"{{{', '.join(keys)}}}"


def _default(field: "dataclasses.Field[Any]") -> Any:
    factory = field.default_factory
    return field.default if factory is dataclasses.MISSING else factory()


def _bare(hint: Any) -> Any:
    return get_args(hint)[0] if get_origin(hint) is Annotated else hint


def _options(hint: Any) -> tuple[Any, ...]:
    bare = _bare(hint)
    return own_options(get_args(bare)) if get_origin(bare) in (Union, UnionType) else (bare,)


def _literals(hint: Any) -> tuple[Any, ...]:
    values: tuple[Any, ...] = ()
    for rule in metadata_of(hint):
        values += rule.own if isinstance(rule, PartName) else ()
    for option in _options(hint):
        if get_origin(_bare(option)) is Literal:
            values += get_args(_bare(option))
        elif option is NoneType and values:
            values += ("null",)
    return values


def _item_kinds(hint: Any) -> tuple[Any, ...]:
    bare = _bare(hint)
    if get_origin(bare) not in (tuple, dict):
        return ()
    item = get_args(bare)[0 if get_origin(bare) is tuple else 1]
    kinds = _options(item)
    return kinds if all(dataclasses.is_dataclass(kind) for kind in kinds) else ()
