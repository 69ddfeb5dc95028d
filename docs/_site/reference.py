"""Pages that are made of the code: every key by its dataclass, every command, every public name."""

import argparse
import dataclasses
import os
from collections.abc import Iterator
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import hpsearch
from hpsearch import yaml_file
from hpsearch.cli import COMMANDS, build_parser
from hpsearch.cluster.slurm_profile import SlurmProfile
from hpsearch.explained import class_note, field_notes
from hpsearch.extensions import PartName
from hpsearch.schema import PER_MEMBER, Range, field_hints, metadata_of, to_plain
from hpsearch.study.spec import StudySpec
from hpsearch.trainers.config import DQNConfig, PPOConfig

RETURNED = ("analysis.confirmation.Confirmation", "report.listing.ListedStudy")
"""classes that none of the names is, by their places"""
WIDTH = 88  # characters of a line of a command's help


def study_page() -> str:
    return _keys_page(
        "Keys of a study",
        "Every key of a study file, by the block in which it stands; "
        "[studies/README.md](../../studies/README.md) says more.",
        StudySpec,
    )


def trainer_page() -> str:
    return _keys_page(
        "Keys of a trainer",
        "Every key of a trainer configuration. None has a default, so that a file says all. "
        "P: members of one job may differ in it.",
        DQNConfig,
        PPOConfig,
    )


def profile_page() -> str:
    return _keys_page(
        "Keys of a cluster profile",
        "Every key of a profile; [slurm/README.md](../../slurm/README.md) says how to find them.",
        SlurmProfile,
    )


def _keys_page(title: str, about: str, *roots: Any) -> str:
    """Return a table for each dataclass that the roots lead to, each once."""
    seen: list[Any] = []
    queue = list(roots)
    while queue:
        cls = queue.pop(0)
        if cls not in seen:
            seen.append(cls)
            queue += [own for hint in field_hints(cls).values() for own in _blocks(hint)]
    return "\n\n".join([f"# {title}", about, *(_table(cls) for cls in seen)]) + "\n"


def _table(cls: Any) -> str:
    hints, notes = field_hints(cls), field_notes(cls)
    rows = ["| key | value | default | what it says |", "|---|---|---|---|"]
    for field in dataclasses.fields(cls):
        hint = hints[field.name]
        marked = "; P" if PER_MEMBER in metadata_of(hint) else ""
        cells = (
            f"`{field.name}`",
            _type(hint),
            _default(field),
            notes.get(field.name, "") + marked,
        )
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    table = ['<div class="keys" markdown>\n', *rows, "\n</div>"]
    return f"## {cls.__name__}\n\n{class_note(cls)}.\n\n" + "\n".join(table)


def _blocks(hint: Any) -> Iterator[Any]:
    """Yield the dataclasses that a hint names."""
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        yield hint
    for part in get_args(hint):
        if get_origin(hint) is not Literal:
            yield from _blocks(part)


def _type(hint: Any) -> str:
    """Return what may stand there, in words; blocks as links to their tables."""
    if get_origin(hint) is Annotated:
        inner, *rules = get_args(hint)
        for rule in rules:
            if isinstance(rule, PartName):
                return f"{' or '.join(f'`{name}`' for name in rule.own)} or a package's"
        bounds = [f" in {rule}" for rule in rules if isinstance(rule, Range)]
        return _type(inner) + "".join(bounds)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return f"[{hint.__name__}](#{hint.__name__.lower()})"
    origin, parts = get_origin(hint), get_args(hint)
    if origin in (Union, UnionType):
        return " or ".join(map(_type, parts))
    if origin is Literal:
        return " or ".join(f"`{yaml_file.dump_inline(part)}`" for part in parts)
    if origin is tuple:
        return f"list of {_type(parts[0])}"
    if origin is dict:
        return f"mapping to {_type(parts[1])}"
    names = {NoneType: "`null`", str: "text", int: "whole number", float: "number", bool: "boolean"}
    return names.get(hint, "any value")


def _default(field: "dataclasses.Field[Any]") -> str:
    if field.default_factory is not dataclasses.MISSING:
        value = field.default_factory()
    elif field.default is not dataclasses.MISSING:
        value = field.default
    else:
        return "required"
    if dataclasses.is_dataclass(value):
        return f"[{type(value).__name__}](#{type(value).__name__.lower()})"
    return f"`{yaml_file.dump_inline(to_plain(value))}`"


def commands_page() -> str:
    os.environ["COLUMNS"] = str(WIDTH)
    parser = build_parser()
    (action,) = (own for own in parser._actions if isinstance(own, argparse._SubParsersAction))
    parts = ["# Commands", "As `hpsearch COMMAND --help` prints them."]
    for group, commands in COMMANDS.items():
        parts.append(f"## {group}")
        for command in commands:
            help_text = action.choices[command.name].format_help()
            parts.append(f"### {command.name}\n\n```text\n{help_text}```")
    return "\n\n".join(parts) + "\n"


def api_page() -> str:
    places = vars(hpsearch)["_PLACES"]
    parts = ["# Python API", "Every name that `import hpsearch` gives; [From Python](../api.md)."]
    for name in sorted(places, key=str.lower):
        heading = f"\n    options:\n      heading: {name}\n      toc_label: {name}"
        parts.append(f"::: hpsearch.{places[name]}.{name}{heading}")
    parts += ["## What they return", *(f"::: hpsearch.{place}" for place in RETURNED)]
    return "\n\n".join(parts) + "\n"
