"""The kernels of the CPU: compiled once, by one process, whatever happens to it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hpsearch.trainers import kernel_cache
from hpsearch.trainers.kernel_cache import compile_kernels, is_compiled

COMPILES = """
import torch
from numba.core import event

torch.set_num_threads(1)
with event.install_recorder("numba:compile") as recorder:
    from hpsearch.trainers.kernel_cache import compile_kernels
    compile_kernels(3)
names = {compiled.data["dispatcher"].py_func.__qualname__ for _, compiled in recorder.buffer}
assert not any("raise_with_shape" in name for name in names), "a text, which takes 4 seconds"
print(len(recorder.buffer))
"""
COMPILES_ONE = """
import numpy as np
from numba.core import event

with event.install_recorder("numba:compile") as recorder:
    from hpsearch.game.kernels.cpu_loops import reduce_rows, unrolled
    from hpsearch.trainers import kernel_cache

    points = np.zeros((1, 3), dtype=np.int32)
    kernel_cache._use_all = lambda dimension: reduce_rows(points, 1, unrolled(dimension))
    kernel_cache.compile_kernels(3)
print(len(recorder.buffer))
"""
TRAINS = """
import sys
import torch
from numba.core import event
from pathlib import Path
from hpsearch import yaml_file
from hpsearch.trainers.algorithms import build_trainer
from hpsearch.trainers.config import read_config

torch.set_num_threads(1)
with event.install_recorder("numba:compile") as recorder:
    for name in sys.argv[1:]:
        plain = yaml_file.load(Path(name)) | {"learning_starts": 1}
        trainer = build_trainer([read_config(plain, source=name)] * 2)
        trainer.train(2)
        trainer.evaluate_rho(num_games=10, split="curve")
print(len(recorder.buffer))
"""
HOLDS = """
import sys, time
from filelock import FileLock
with FileLock(sys.argv[1]):
    print("held", flush=True)
    time.sleep(600)
"""


def _python(program, *arguments, **environment):
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env=os.environ | environment
    )


def _answer(process):
    out, _ = process.communicate(timeout=200)
    assert process.returncode == 0
    return out.strip()


@pytest.mark.slow
def test_of_jobs_that_begin_together_one_compiles_all_that_training_takes(tmp_path):
    own = {"NUMBA_CACHE_DIR": str(tmp_path)}
    both = [_python(COMPILES, **own) for _ in range(2)]
    assert sorted(int(_answer(process)) > 0 for process in both) == [False, True]
    trainers = [f"studies/trainers/{name}.yaml" for name in ("quickstart", "dqn_20x3_pair")]
    assert _answer(_python(TRAINS, *trainers, **own)) == "0"


@pytest.mark.slow
def test_where_nothing_can_be_written_a_process_compiles_for_itself():
    """No folder beside the code, nor the user's: numba's locator of archives stands for that.

    One loop stands for all, which the test above compiles.
    """
    own = {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    assert int(_answer(_python(COMPILES_ONE, **own))) > 0


@pytest.fixture
def used(monkeypatch, tmp_path):
    """The dimensions that were compiled, in a folder of the test."""
    dimensions: list[int] = []
    monkeypatch.setattr(kernel_cache, "_mark", lambda dimension: tmp_path / f"compiled-{dimension}")
    monkeypatch.setattr(kernel_cache, "_use_all", dimensions.append)
    return dimensions


def test_each_dimension_is_compiled_once(used):
    assert not is_compiled(3)
    for dimension in (3, 4, 3):
        compile_kernels(dimension)
        assert is_compiled(dimension)
    assert used == [3, 4]


def _hold(tmp_path: Path):
    """Return a process that has begun to compile."""
    process = _python(HOLDS, str(tmp_path / "compiling.lock"))
    assert process.stdout.readline() == "held\n"
    return process


def test_a_process_that_was_killed_while_it_compiled_is_not_waited_for(used, tmp_path):
    with _hold(tmp_path) as process:
        process.kill()
        process.wait()
        compile_kernels(3)
    assert used == [3]


def test_a_process_that_is_stopped_is_not_waited_for_without_end(used, tmp_path, monkeypatch):
    monkeypatch.setattr(kernel_cache, "LONGEST_SECONDS", 0.2)
    with _hold(tmp_path) as process:
        compile_kernels(3)
        process.kill()
    assert used == [3]


def test_one_that_compiles_for_another_dimension_is_waited_for(used, tmp_path, monkeypatch):
    """Both write into the same files of numba's."""
    monkeypatch.setattr(kernel_cache, "LONGEST_SECONDS", 0.2)
    with _hold(tmp_path) as process:
        began = time.monotonic()
        compile_kernels(4)
        waited = time.monotonic() - began
        process.kill()
    assert used == [4]
    assert waited >= 0.2


def test_a_failed_compilation_is_tried_again(used, monkeypatch):
    with monkeypatch.context() as failing:
        failing.setattr(kernel_cache, "_use_all", lambda dimension: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            compile_kernels(3)
    assert not is_compiled(3)
    compile_kernels(3)
    assert used == [3]
