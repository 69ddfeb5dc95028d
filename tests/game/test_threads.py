"""The kernels use as many threads as torch may, and leave that number as it is."""

import subprocess
import sys

SCRIPT = """
import torch
torch.set_num_threads(1)
from hpsearch.game.kernels import cpu
cpu.newton_polytope(torch.zeros((2, 3, 3), dtype=torch.int32))
print(torch.get_num_threads())
"""


def test_the_first_kernel_of_a_process_leaves_torch_its_number_of_threads():
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "1"
