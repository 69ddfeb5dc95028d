"""Compiled loops on disk: no older than what they call, and damaged ones are made anew."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from numba.core import event

CALLED = """
from hpsearch.game.kernels.interface import scalar

STEP = {step}

@scalar
def inner(number):
    return number + {added}

@scalar
def called(number):
    return inner(number)
"""
CALLS = """
import {called} as module
from {called} import STEP, called
from hpsearch.game.kernels.interface import scalar

@scalar
def sums(numbers):
    return outer(numbers) + module.called(0)

@scalar
def outer(numbers):  # defined below what calls it
    return sum([called(number) for number in numbers]) * STEP
"""


@pytest.fixture
def total(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that writes two files, and calls a loop of one as a new process would."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # which looks at whole seconds

    def run(*, step: int = 1, added: int = 0) -> tuple[int, int]:
        (tmp_path / "loop_called.py").write_text(CALLED.format(step=step, added=added))
        (tmp_path / "loop_calls.py").write_text(CALLS.format(called="loop_called"))
        for name in ("loop_called", "loop_calls"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        module = importlib.import_module("loop_calls")
        with event.install_recorder("numba:compile") as recorder:
            result = int(module.sums(np.array([1, 2, 3])))
        return result, len(recorder.buffer)

    yield run
    for name in ("loop_called", "loop_calls"):
        sys.modules.pop(name, None)


def _programs(tmp_path: Path, suffix: str) -> list[Path]:
    files = [*tmp_path.rglob(f"*.{suffix}")]
    assert files
    return files


def test_a_loop_follows_the_functions_and_constants_of_other_files(total):
    result, num_compiled = total()
    assert result == 6
    assert num_compiled > 0
    assert total() == (6, 0), "nothing has changed"
    assert total(added=10)[0] == 46
    assert total(added=10, step=2)[0] == 82
    assert total(added=10, step=2) == (82, 0)


@pytest.mark.parametrize("suffix", ["nbi", "nbc"])
def test_damaged_programs_are_made_anew(total, tmp_path, suffix):
    assert total()[0] == 6
    for file in _programs(tmp_path, suffix):
        file.write_bytes(file.read_bytes()[:40])
    assert total()[0] == 6
    assert total() == (6, 0)


def test_programs_that_can_be_neither_read_nor_written_are_compiled(total, tmp_path):
    assert total()[0] == 6
    for file in _programs(tmp_path, "nbi"):
        file.unlink()
        file.mkdir()
    assert total()[0] == 6
