"""How many threads the compiled loops of the CPU backends use."""

import numba
import torch


def share_threads() -> None:
    """Use as many threads as torch may, so that jobs that share a machine can say so once."""
    num_threads = torch.get_num_threads()
    numba.set_num_threads(min(num_threads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
    # numba's first launch sets OpenMP's number of threads, which is torch's too, to all there are.
    if torch.get_num_threads() != num_threads:
        torch.set_num_threads(num_threads)
