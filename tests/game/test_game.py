import os
import subprocess
import sys
from pathlib import Path

import numba
import pytest
import torch

from hpsearch import game
from hpsearch.game.kernels import BACKENDS, cpu
from hpsearch.game.kernels.threads import THREADS_MAY_CHANGE


def test_exported_names():
    assert game.__all__ == sorted(game.__all__)
    assert all(hasattr(game, name) for name in game.__all__)


def test_backends_export_the_same_names():
    assert len({tuple(backend.__all__) for backend in BACKENDS.values()}) == 1


def test_the_example_of_the_readme():
    text = (Path(game.__file__).parent / "README.md").read_text()
    names: dict[str, object] = {}
    exec(text.split("```python\n")[1].split("```")[0], names)
    assert isinstance(names["game"], game.FusedGame)
    assert (names["game"].starts > 0).any()


FIRST_KERNEL = """
import sys
import torch
from numba.core import event

torch.set_num_threads(1)
with event.install_recorder("numba:compile") as recorder:
    import hpsearch.game.fused_game
assert not recorder.buffer, recorder.buffer
assert "triton" not in sys.modules

from hpsearch.game.kernels import cpu
cpu.newton_polytope(torch.zeros((2, 3, 3), dtype=torch.int32))
assert torch.get_num_threads() == 1, torch.get_num_threads()
"""


@pytest.mark.parametrize("may_change", [False, True])
def test_kernels_use_as_many_threads_as_torch_may(may_change):
    if may_change:
        THREADS_MAY_CHANGE.set()
    before = torch.get_num_threads()
    try:
        for num_threads in (2, 1, 2, 3, 3, 1):
            torch.set_num_threads(num_threads)
            cpu.newton_polytope(torch.zeros((2, 3, 3), dtype=torch.int32))
            # One thread that stays alone runs a program that knows of no others.
            if num_threads > 1 or may_change:
                assert numba.get_num_threads() == min(num_threads, numba.config.NUMBA_NUM_THREADS)
            assert torch.get_num_threads() == num_threads
    finally:
        torch.set_num_threads(before)


OLDER_PROGRAM = """
import numba, torch
from hpsearch.game.kernels import cpu, cpu_loops

older = numba.njit(cache=True, nogil=True, error_model="numpy", parallel=True)
cpu_loops.newton_polytope = older(cpu_loops.newton_polytope.__wrapped__)
cpu.newton_polytope(torch.zeros((2, 3, 3), dtype=torch.int32))
"""


@pytest.mark.slow
def test_one_thread_does_not_run_an_older_version_s_program_for_several(tmp_path):
    """That was kept under the function's own name, and would start threads behind torch's back."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for program in (OLDER_PROGRAM, FIRST_KERNEL):
        subprocess.run([sys.executable, "-c", program], check=True, timeout=120, env=environment)


@pytest.mark.exhaustive  # the test above asserts the same in its second process
def test_importing_compiles_nothing_and_the_first_kernel_leaves_torch_its_number_of_threads():
    """A cold import must stay cheap; kernels use as many threads as torch may."""
    subprocess.run([sys.executable, "-c", FIRST_KERNEL], check=True, timeout=120)
