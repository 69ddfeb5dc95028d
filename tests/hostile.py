"""Files as crashes, full disks and hostile programs leave them: mutations for the tests that fuzz.

All of it follows from the given generator, so that a seed repeats it.
"""

import json
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

ESCAPE = "\x1b]0;owned\x07\x1b[2J"
VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 2**53 + 1, 2**64, 10**4000, 1e308, float("inf"), float("nan"), "", "x",
    "\ud800", "\x00", ESCAPE, "../../..", "1e-3", [], {}, [[]], {"step": []}, {"": {"": ""}},
)  # fmt: skip
"""in the place of any value of a JSON file"""
PIECES = (
    b"[" * 100_000, b'{"a":' * 100_000, b"\x00" * 100, b"\xff\xfe", b"9" * 5000, b"1e999", b"NaN",
    b'"\\ud800"', b'"\\u0000"', ESCAPE.encode(), b"\n", b"\r\n", b"{}", b"null", b"}", b"]" * 900,
    b"[" * 900 + b"]" * 900, b"x" * 2_000_000, "\u2028\u202e".encode(),
)  # fmt: skip
"""to stand anywhere in any file"""
LARGE = 10_000_000
"""bytes above which a file is not copied"""


def mutated(data: bytes, rng: random.Random) -> bytes:
    """Return what a file held, damaged once or twice."""
    for _ in range(rng.randint(1, 2)):
        data = rng.choice(_WAYS)(data, rng)
    return data


def _cut(data: bytes, rng: random.Random) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _flip(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.randint(1, 8)):
        if changed:
            changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _insert(data: bytes, rng: random.Random) -> bytes:
    at = rng.choice((0, len(data), rng.randrange(len(data) + 1)))
    return data[:at] + rng.choice(PIECES) + data[at:]


def _repeat(data: bytes, rng: random.Random) -> bytes:
    start, end = sorted(rng.randrange(len(data) + 1) for _ in range(2))
    return data[:end] + data[start:end] * rng.randint(1, 50) + data[end:]


def _replace_value(data: bytes, rng: random.Random) -> bytes:
    """Return JSON, or a line of several, in which one value is another."""
    lines = data.split(b"\n") if data.count(b"\n{") else [data]
    at = rng.randrange(len(lines))
    try:
        tree = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _flip(data, rng)
    lines[at] = json.dumps(_with_another(tree, rng)).encode()
    return b"\n".join(lines)


def _with_another(tree: Any, rng: random.Random) -> Any:
    if isinstance(tree, dict) and tree and rng.random() < 0.9:
        key = rng.choice(list(tree))
        if rng.random() < 0.1:
            return {k: v for k, v in tree.items() if k != key}
        return tree | {key: _with_another(tree[key], rng)}
    if isinstance(tree, list) and tree and rng.random() < 0.9:
        at = rng.randrange(len(tree))
        return [*tree[:at], _with_another(tree[at], rng), *tree[at + 1 :]]
    return rng.choice(VALUES)


_WAYS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    _cut, _flip, _insert, _repeat, _replace_value, _replace_value, _replace_value,
)  # fmt: skip


def damage(path: Path, rng: random.Random) -> None:
    """Damage what lies at a path, or put something else in its place."""
    way = rng.random()
    if way < 0.85 and path.is_file() and path.stat().st_size < LARGE:
        path.write_bytes(mutated(path.read_bytes(), rng))
        return
    remove(path)
    if way < 0.89:
        os.mkfifo(path)
    elif way < 0.92:
        path.mkdir()
    elif way < 0.95:
        path.symlink_to(path.name)  # to itself
    elif way < 0.97:
        path.write_bytes(b"")
        os.truncate(path, 2**28)  # nothing but zeros, which take no room


def remove(path: Path) -> None:
    """Remove whatever lies at a path."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
