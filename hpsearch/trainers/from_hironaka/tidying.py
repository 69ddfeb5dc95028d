"""Old files as they were typed: keys that nobody read, numbers with a comma behind them."""

import dataclasses
import types
from collections.abc import Mapping
from typing import Annotated, Any, Union, get_args, get_origin

from hpsearch import yaml_file
from hpsearch.errors import ConfigError
from hpsearch.schema import field_hints
from hpsearch.trainers.from_hironaka.remarks import CHANGED, LEFT_OUT, Remark


def tidy(hint: Any, data: Any, remarks: list[Remark], path: str = "") -> Any:
    """Return ``data`` without what hironaka.trainer did not read; ``remarks`` tells of it."""
    fields = _fields(hint)
    if isinstance(data, Mapping) and fields:
        kept = {}
        for key, value in data.items():
            place = f"{path}.{key}" if path else str(key)
            if key in fields:
                kept[key] = tidy(fields[key], value, remarks, place)
            else:
                remarks.append(Remark(LEFT_OUT, place, _why_left_out(place)))
        return kept
    if isinstance(data, str) and data.rstrip().endswith(","):
        return _without_comma(data, remarks, path)
    return data


def _fields(hint: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, or of all dataclasses of a union."""
    if dataclasses.is_dataclass(hint):
        cls: Any = hint
        return dict(field_hints(cls))
    if get_origin(hint) is Annotated:
        return _fields(get_args(hint)[0])
    fields: dict[str, Any] = {}
    if get_origin(hint) in (Union, types.UnionType):
        for option in get_args(hint):
            for name, own in _fields(option).items():
                fields[name] = fields[name] | own if name in fields else own
    return fields


def _why_left_out(path: str) -> str:
    if path.endswith(".optim.lr"):
        return "was never read; the learning rate is optim.args.lr"
    return "hironaka.trainer does not read it either"


def _without_comma(text: str, remarks: list[Remark], path: str) -> Any:
    try:
        value = yaml_file.parse(text.rstrip()[:-1])
    except ConfigError:
        return text
    if isinstance(value, bool | int | float):
        sentence = f"the comma made it the text {text!r}; it is read as {value!r}"
        remarks.append(Remark(CHANGED, path, sentence))
        return value
    return text
