"""How numba keeps compiled loops on disk: as old as all that they call, and no reason to fail.

numba itself looks at the file of a loop alone. One that calls functions or holds constants of other
files would keep the older ones after these have changed.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
from numba.core.caching import FunctionCache, IndexDataCacheFile
from numba.core.dispatcher import Dispatcher

CONSTANTS = (bool, int, float, str, tuple, np.generic)


class LoopCache(FunctionCache):
    """The programs of one function; RuntimeError if numba may write nowhere."""

    def __init__(self, function: FunctionType) -> None:
        super().__init__(function)
        self._cache_file = _Files(self.cache_path, self._impl.filename_base, function)

    def load_overload(self, signature: Any, context: Any) -> Any:
        with suppress(Exception):  # whatever unpickling raises; the file is written anew
            return super().load_overload(signature, context)
        return None

    def save_overload(self, signature: Any, program: Any) -> None:
        with suppress(OSError):  # a full disk: each process compiles for itself
            super().save_overload(signature, program)


class _Files(IndexDataCacheFile):
    def __init__(self, folder: str, base: str, function: FunctionType) -> None:
        super().__init__(folder, base, source_stamp=None)
        self._function = function

    def _load_index(self) -> Any:
        # Not before: a function may call others that are defined below it.
        self._source_stamp = _stamp(self._function)
        with suppress(Exception):  # as above
            return super()._load_index()
        return {}


def _stamp(function: FunctionType) -> str:
    """Return a hash of the files and constants of which the programs of ``function`` are made."""
    total, used = hashlib.sha256(), {*_used(function, set())}
    for constant in sorted(value for value in used if isinstance(value, str)):
        total.update(constant.encode())
    for file in sorted(value for value in used if isinstance(value, Path)):
        total.update(file.read_bytes())
    return total.hexdigest()


def _used(function: FunctionType, seen: set[FunctionType]) -> Iterator[Path | str]:
    """Yield the files of a function and of what it calls, and the constants of all as text."""
    if function in seen:
        return
    seen.add(function)
    yield Path(function.__code__.co_filename)
    names = {*_names(function.__code__)}
    values = {name: function.__globals__[name] for name in names & function.__globals__.keys()}
    for module in [value for value in values.values() if isinstance(value, ModuleType)]:
        values |= {name: vars(module)[name] for name in names & vars(module).keys()}
    for name, value in values.items():
        if isinstance(value, Dispatcher):
            yield from _used(value.py_func, seen)
        elif isinstance(value, CONSTANTS):
            yield f"{name} = {value!r}"


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _names(inner)
